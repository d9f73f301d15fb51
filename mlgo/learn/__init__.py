"""Learning algorithms on arrays and callables; no compiler in sight."""
