"""Policies in the forms that LLVM can be built with."""
