"""LLVM's own tests of the interactive channel, run on a stock clang through the host of this package."""
