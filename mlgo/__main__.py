"""``python -m mlgo`` is the `mlgo` command."""

from mlgo.cli.main import main

main()
