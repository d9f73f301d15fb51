"""What a linker writes about a link where the user asks for it: a map, and a dependency file for make.

Links here make files in a temporary folder. Reports are about the one that is kept, and name what the user names.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mlgo.base.files import read_input, write_bytes
from mlgo.host.command_line import by_part

_REPORT = re.compile(r"-{1,2}(Map|dependency-file)(?:=(.*))?")


def without_reports(options: Sequence[str]) -> tuple[list[str], dict[str, Path]]:
    """A compiler's options without those for reports, and the files of these by ``Map`` and ``dependency-file``."""
    rest: list[str] = []
    files: dict[str, Path] = {}
    words_of = by_part(options)
    for words in words_of:
        found = _REPORT.fullmatch(words[-1]) if words[0] == "-Xlinker" else None
        if found is None:
            rest += words
        else:
            files[found[1]] = Path(found[2] or next(words_of, [""])[-1])
    return rest, files


def report_options(names: Iterable[str], output: Path) -> list[str]:
    """Words of lld for reports beside a file in the temporary folder."""
    return [f"--{name}={output}.{name}" for name in names]


def write_reports(files: Mapping[str, Path], kept: Path, output: Path, inputs: Sequence[Path]) -> None:
    """Write the reports of the link of ``kept``, which becomes ``output``, of these inputs."""
    for name, path in files.items():
        text = os.fsdecode(read_input(Path(f"{kept}.{name}")))
        said = text.replace(f"{kept.parent}/", "") if name == "Map" else _dependencies(text, kept, output, inputs)
        write_bytes(path, os.fsencode(said))


def _dependencies(text: str, kept: Path, output: Path, inputs: Sequence[Path]) -> str:
    """A dependency file as lld has it: a rule, and an empty one for each file that it names."""
    named = re.findall(r"^ (.*?)(?: \\)?$", text.partition("\n\n")[0], re.MULTILINE)
    others = [name for name in named if not name.startswith(f"{_quoted(kept.parent)}/")]
    names = list(dict.fromkeys([*map(_quoted, inputs), *others]))
    return " \\\n ".join([f"{_quoted(output)}:", *names]) + "\n" + "".join(f"\n{name}:\n" for name in names)


def _quoted(path: Path) -> str:
    return re.sub(r"([ #])", r"\\\1", str(path)).replace("$", "$$")
