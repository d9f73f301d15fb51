"""The size of the house: lines, logic, files, names that stand twice, untyped mappings and words of documentation.

Logic is what is left without docstrings, comments, blank lines and imports. Time of the tests: `time make test`.

Example:
    python -m benchmarks.house
    python -m benchmarks.house ../other-checkout --json
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.arguments import benchmark_parser, print_record, run_benchmark

SMALL_FILE_LINES = 60
_UNTYPED = re.compile(r"(?:dict|Mapping|Dict)\[str, Any\]")
_ALIAS = re.compile(r"^(\w+) = (?:dict|Mapping)\[str, Any\]$", re.MULTILINE)


@dataclass(frozen=True)
class SourceFile:
    """What counts of one file; ``room`` is the first folder below ``mlgo/``, a dot if there is none."""

    room: str
    lines: int
    logic: int
    docstrings: int
    classes: tuple[str, ...]
    functions: tuple[int, ...]
    untyped: int
    aliases: tuple[str, ...]
    names: Counter[str]


def read_source(path: Path, package: Path) -> SourceFile:
    """Measure a file of a package."""
    text, parts = path.read_text(), path.relative_to(package).parts
    lines, nodes = text.splitlines(), list(ast.walk(ast.parse(text)))
    bodies = [body for node in nodes if isinstance(body := getattr(node, "body", None), list)]
    docstrings = set(_lines_of(one for body in bodies for one in body if _is_text(one)))
    imports = set(_lines_of(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)))
    code = {number for number, line in enumerate(lines, 1) if line.strip() and not line.strip().startswith("#")}
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return SourceFile(
        room=parts[0] if len(parts) > 1 else ".",
        lines=len(lines),
        logic=len(code - docstrings - imports),
        docstrings=len(docstrings),
        classes=tuple(node.name.lstrip("_") for node in nodes if isinstance(node, ast.ClassDef)),
        functions=tuple((node.end_lineno or 0) - node.body[0].lineno + 1 for node in functions),
        untyped=len(_UNTYPED.findall(text)),
        aliases=tuple(_ALIAS.findall(text)),
        names=Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)),
    )


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _lines_of(nodes: Iterable[Any]) -> Iterator[int]:
    for node in nodes:
        yield from range(node.lineno, node.end_lineno + 1)


def count_house(root: Path) -> dict[str, Any]:
    """All figures of a checkout, by what they count."""
    files = [read_source(path, root / "mlgo") for path in sorted((root / "mlgo").rglob("*.py"))]
    lines = Counter[str]()
    for one in files:
        lines[one.room] += one.lines
    classes = Counter(name for one in files for name in one.classes)
    aliases = {name for one in files for name in one.aliases}
    return {
        "lines of mlgo": sum(one.lines for one in files),
        "logic": sum(one.logic for one in files),
        "docstrings": sum(one.docstrings for one in files),
        "files": len(files),
        f"files under {SMALL_FILE_LINES} lines": sum(one.lines < SMALL_FILE_LINES for one in files),
        "rooms": sum(room != "." for room in lines),
        "lines by room": dict(lines.most_common()),
        "class names that stand twice": sum(count > 1 for count in classes.values()),
        "these are": ", ".join(sorted(name for name, count in classes.items() if count > 1)),
        "dict[str, Any] and Mapping[str, Any]": sum(one.untyped for one in files),
        "uses of other names for them": sum(one.names[name] for one in files for name in aliases),
        "median lines of a function": median(length for one in files for length in one.functions),
        **{f"lines of {folder}": _lines_below(root / folder) for folder in ("tests", "benchmarks", "scripts")},
        "words of documentation": sum(len(path.read_text().split()) for path in _pages(root)),
    }


def _lines_below(folder: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.rglob("*.py"))


def _pages(root: Path) -> Iterator[Path]:
    yield from (path for name in ("README", "CONTRIBUTING", "config/README") if (path := root / f"{name}.md").exists())
    tables = {"results", "sealed-looks.md"}  # which programs write
    yield from (path for path in (root / "docs").rglob("*.md") if not tables & {*path.relative_to(root).parts})


def main() -> None:
    """Print the figures of a checkout."""
    parser = benchmark_parser(__name__, __doc__)
    parser.add_argument("root", type=Path, nargs="?", default=Path(), help="of the checkout (default: here)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    print_record(count_house(args.root), as_json=args.json)


if __name__ == "__main__":
    run_benchmark("benchmarks.house")
