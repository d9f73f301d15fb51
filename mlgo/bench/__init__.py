"""Benchmarks: programs that measure side by side in one run and print ratios."""
