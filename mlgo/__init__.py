"""Train machine-learned compiler heuristics with a stock compiler, and prove what they are worth."""

__version__ = "0.2.0"
