"""Everything that `mlgo capture --from` takes: what it is shows in its content, never in an option."""

from pathlib import Path

from mlgo.capture.builds import Build, read_build
from mlgo.capture.databases import read_database
from mlgo.core.errors import CorpusError

KINDS = "compile_commands.json, what ninja -t compdb or bazel aquery --output=jsonproto prints"
"""What is recognised, for messages."""


def import_build(path: Path, root: Path | None = None) -> Build:
    """The units and programs of what somebody else has written down or built.

    Args:
        path: file or folder.
        root: folder that names are relative to; by default what fits: here for databases.

    Raises:
        CorpusError: it is not there, none of `KINDS`, or cannot be read.
    """
    if not path.exists():
        raise CorpusError(f"{path} is not there")
    return read_build(read_database(path, root), (root or Path()).absolute())
