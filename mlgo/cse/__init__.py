"""Which redundant computations to eliminate: candidates of a compiler, chosen one by one until the chooser stops."""
