"""``python -m benchmarks.planning``."""

from benchmarks.arguments import run_benchmark

run_benchmark("benchmarks.planning.command")
