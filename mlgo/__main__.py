"""``python -m mlgo`` is the `mlgo` command."""

import os
import sys

from mlgo import __version__

if sys.argv[1:] == ["--version"]:  # at once: what asks for it may ask often
    try:
        os.write(1, f"mlgo {__version__}\n".encode())
        sys.exit()
    except OSError:  # the program says what is wrong with the output
        pass

from mlgo.cli.main import main

main()
