"""Models that others have trained, made into policies."""
