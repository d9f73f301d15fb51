"""Templates of plain text, such as C++ and Markdown, by Jinja."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def text_templates(folder: Path) -> Environment:
    """Templates in a folder. Lines of statements leave nothing; a name that is not given is an error."""
    return Environment(
        loader=FileSystemLoader(folder), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
