"""Measurements of this package, run from a checkout: ``python -m benchmarks.NAME --help``.

Each measures side by side in one run and prints ratios.
"""
