"""What a module of a corpus is: a source, a whole program, or a source after ThinLTO's import."""

from collections.abc import Sequence

from mlgo.base.config import Form
from mlgo.corpus.lto.project import Row, Tools
from mlgo.corpus.lto.thin import imported_modules
from mlgo.corpus.lto.whole import whole_programs


def in_form(
    form: Form, rows: Sequence[Row], programs: Sequence[Row], tools: Tools
) -> tuple[Sequence[Row], Sequence[Row]]:
    """A project's modules and linked files in another form.

    Args:
        form: see ``config.CorpusConfig.form``.
        rows: of ``artifacts.PROJECT``; their modules are sources.
        programs: rows of ``artifacts.PROGRAMS_OF_PROJECT``.
        tools: what merges and imports.

    Raises:
        ConfigError: the task does not go with the form.
    """
    if form == "objects":
        return rows, programs
    make = whole_programs if form == "whole" else imported_modules
    return make(rows, programs, tools)
