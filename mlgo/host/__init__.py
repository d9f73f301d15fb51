"""One compile under advice: LLVM's channel, tasks, action spaces, the compiler and the linker, bounded and measured."""
