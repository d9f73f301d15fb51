"""Learning algorithms on arrays and callables; only BC-Max's `compiled.py` knows how compiles are run."""
