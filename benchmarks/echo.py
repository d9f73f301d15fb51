r"""What differs where echoing the heuristic does not reproduce the plain compile, and why.

Each such module of a baseline is compiled twice more, plainly and under the echo. Optimization records name all calls
that were inlined. Dumps of the IR after the inliner show the calls that only the plain compile inlined, as the echo
left them: unreachable from the entry of their function, or not. Dumps after the last pass on IR show which functions
differ in the end.

Example:
    python -m benchmarks.echo
    python -m benchmarks.echo --show --module ninja/ninja-upstream/src/util.cc
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.arguments import benchmark_parser, print_record, run_benchmark
from mlgo.base.artifacts import SCORES, read_table
from mlgo.base.config import CompileConfig, load_config
from mlgo.base.scratch import scratch_directory
from mlgo.corpus.store import load_modules, unpack_bitcode
from mlgo.errors import CompileError
from mlgo.host.session import CompileResult, compile_plain, compile_under_advice
from mlgo.host.tasks.task import HEURISTIC, EchoAdvisor, Remark, get_task
from mlgo.host.toolchain import Toolchain, find_toolchain
from mlgo.objects.elf import function_symbols

Call = tuple[str, str]
"""Caller and callee."""

LAST_PASS = "annotation-remarks"
"""The last pass on IR of LLVM's pipelines."""

_DEFINITION = re.compile(r'^define [^\n@]*@("[^"\n]*"|[\w.$-]+)[^\n]*\{\n(.*?)^\}', re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r'^("[^"\n]*"|[\w.$-]+):', re.MULTILINE)
_TARGET = re.compile(r'label %("[^"\n]*"|[\w.$-]+)')
_CALL = ("Function", "Callee")
_NUMBER = re.compile(r"(?<=[%!#])[\w.]+")


@dataclass(frozen=True)
class Compiled:
    """A compile with what it tells.

    Attributes:
        inlined: calls that were inlined, with their number.
        after_inliner: bodies of functions as the inliner left them, in time, by function.
        last: body of each function after the last pass.
        sizes: code of each function in bytes.
    """

    inlined: Counter[Call]
    after_inliner: dict[str, list[str]]
    last: dict[str, str]
    sizes: dict[str, int]


def main() -> None:
    """Examine and print."""
    parser = benchmark_parser("benchmarks.echo", __doc__)
    parser.add_argument("--corpus", type=Path, default=Path("data/corpus"), help="(default: %(default)s)")
    parser.add_argument(
        "--baseline", type=Path, default=Path("data/baseline"), help="of this corpus (default: %(default)s)"
    )
    parser.add_argument("--module", action="append", help="only this one; may be repeated")
    parser.add_argument("--show", action="store_true", help="also print the first function that differs, both ways")
    parser.add_argument("--json", action="store_true", help="print JSON, with a record for each module")
    args = parser.parse_args()
    record = examine_all(args)
    print_record(record if args.json or args.show else {**record, "each": len(record["each"])}, as_json=args.json)


def examine_all(args: argparse.Namespace) -> dict[str, Any]:
    """Examine the modules of a baseline that differ."""
    config = load_config(Path("config/config.yaml"))
    toolchain = find_toolchain(config.toolchain, config.target)
    hashes: dict[str, dict[str, str]] = {}
    for row in read_table(args.baseline / "scores.parquet", SCORES).to_pylist():
        hashes.setdefault(f"{row['project']}/{row['module']}", {})[row["advisor"]] = row["object_sha256"]
    differing = {key for key, of in hashes.items() if of[HEURISTIC] != of["echo"]}
    chosen = [one for one in load_modules(args.corpus) if one.key in (set(args.module or differing))]
    with scratch_directory() as folder:
        files = unpack_bitcode(args.corpus, chosen, folder)
        found, failed = [], {}
        for one in tqdm(chosen, disable=None):
            try:
                found.append(examine(one.key, files[one.key], toolchain, config.compile, show=args.show))
            except CompileError as error:
                failed[one.key] = f"{error.kind}: {error}"
    names = ("calls_only_plain", "calls_only_echo", "unreachable", "functions", "differing_functions", "unexplained")
    return {
        "modules": len(hashes),
        "examined": len(found),
        "failed": failed,
        "all_calls_unreachable": sum(one["calls_only_plain"] == one["unreachable"] for one in found),
        **{f"sum_of_{name}": sum(one[name] for one in found) for name in names},
        "each": found,
    }


def examine(
    name: str, bitcode: Path, toolchain: Toolchain, settings: CompileConfig, *, show: bool = False
) -> dict[str, Any]:
    """Say what differs between both compiles of a module.

    Args:
        name: of the module.
        bitcode: its file.
        toolchain: compiler to use.
        settings: of compiles.
        show: also give the first function that differs, both ways.
    """
    plain, echo = (compile_telling(bitcode, toolchain, settings, echo=echo) for echo in (False, True))
    extra, missing = plain.inlined - echo.inlined, echo.inlined - plain.inlined
    unreachable = sum(min(count, _most_unreachable(echo, *call)) for call, count in extra.items())
    names = [one for one in plain.last if without_numbers(plain.last[one]) != without_numbers(echo.last.get(one, ""))]
    reached = _reached({caller for caller, _ in extra}, [*plain.inlined, *echo.inlined])
    differing = [
        {"function": one, "plain_bytes": plain.sizes.get(one), "echo_bytes": echo.sizes.get(one)} for one in names
    ]
    first = first_difference(plain.last[names[0]], echo.last.get(names[0], "")) if names else None
    return {
        "module": name,
        "calls_only_plain": extra.total(),
        "calls_only_echo": missing.total(),
        "unreachable": unreachable,
        "functions": len(plain.last),
        "differing_functions": len(names),
        "unexplained": sum(one not in reached for one in names),
        "order_of_functions": list(plain.sizes) != list(echo.sizes),
        "extra": [f"{callee} in {caller}" for caller, callee in extra],
        "differing": differing,
        "first_difference": first,
        **({"plain": plain.last[names[0]], "echo": echo.last.get(names[0], "")} if show and names else {}),
    }


def compile_telling(bitcode: Path, toolchain: Toolchain, settings: CompileConfig, *, echo: bool) -> Compiled:
    """Compile a module plainly or under the echo, and read what it tells."""
    task = get_task("inline-size")
    with scratch_directory() as folder:
        record, dumps, kept = folder / "record.yaml", folder / "dumps", folder / "module.o"
        dumps.mkdir()
        told = [f"-print-after=inline,{LAST_PASS}", f"-ir-dump-directory={dumps}"]
        flags = [f"-foptimization-record-file={record}", "-foptimization-record-passes=inline"]
        remark = Remark((*flags, *(word for one in told for word in ("-mllvm", one))), b"")
        if echo:
            advisor = EchoAdvisor(toolchain.quirks.default_slot)
            how: dict[str, Any] = {"with_heuristic_feature": True, "remark": remark, "object_path": kept}
            result: CompileResult = compile_under_advice(toolchain, task, bitcode, advisor, settings, **how)
        else:
            result = compile_plain(toolchain, bitcode, settings, task=task, remark=remark, object_path=kept)
        assert result.object_sha256
        after: dict[str, list[str]] = {}
        last: dict[str, str] = {}
        for path in sorted(dumps.iterdir(), key=lambda one: int(one.name.split("-")[0])):
            text = path.read_text(errors="replace")
            for function, body in _DEFINITION.findall(text):
                if "InlinerPass" in path.name:
                    after.setdefault(function.strip('"'), []).append(body)
                else:
                    last[function.strip('"')] = body
        return Compiled(Counter(_inlined(record)), after, last, _function_sizes(kept.read_bytes()))


def _function_sizes(data: bytes) -> Counter[str]:
    """Code of each function of an object in bytes, without padding, by symbol."""
    sizes = Counter[str]()
    for symbol in function_symbols(data):
        sizes[symbol.name.decode(errors="replace")] += symbol.size
    return sizes


def _inlined(record: Path) -> Iterator[Call]:
    """Calls that a record says were inlined."""
    for entry in record.read_text(errors="replace").split("\n...\n"):
        caller, callee = (re.search(rf"^(?: *- )?{name}: +'?(.*?)'?$", entry, re.MULTILINE) for name in _CALL)
        if entry.startswith("--- !Passed") and caller and callee:
            yield caller[1], callee[1]


def _most_unreachable(compiled: Compiled, caller: str, callee: str) -> int:
    return max((unreachable_calls(body, callee) for body in compiled.after_inliner.get(caller, ())), default=0)


def unreachable_calls(body: str, callee: str) -> int:
    """Calls of a function in blocks that no path from the entry reaches.

    Args:
        body: of the caller, textual IR.
        callee: its symbol.
    """
    starts = [0, *(match.start() for match in _LABEL.finditer(body)), len(body)]
    names = ["", *(match[1] for match in _LABEL.finditer(body))]
    blocks = {name: body[start:end] for name, start, end in zip(names, starts, starts[1:], strict=False)}
    reached, todo = {""}, [""]
    while todo:
        for target in _TARGET.findall(blocks[todo.pop()]):
            if target in blocks and target not in reached:
                reached.add(target)
                todo.append(target)
    call = re.compile(rf'\b(?:call|invoke) [^\n]*@"?{re.escape(callee)}"?\(')
    return sum(len(call.findall(text)) for name, text in blocks.items() if name not in reached)


def without_numbers(body: str) -> str:
    """The body without names of values and numbers of metadata, which are given in order."""
    return _NUMBER.sub("", body)


def first_difference(plain: str, echo: str) -> dict[str, Any]:
    """The first line in which two bodies differ, but for numbers."""
    pairs: Iterable[tuple[str, str]] = zip_longest(plain.splitlines(), echo.splitlines(), fillvalue="")
    for number, (one, two) in enumerate(pairs, start=1):
        if without_numbers(one) != without_numbers(two):
            return {"line": number, "plain": one.strip(), "echo": two.strip()}
    return {}


def _reached(callers: set[str], inlined: Iterable[Call]) -> set[str]:
    """These functions and all that they were inlined into, in several steps, too."""
    into: dict[str, set[str]] = {}
    for caller, callee in inlined:
        into.setdefault(callee, set()).add(caller)
    found, todo = set(callers), list(callers)
    while todo:
        fresh = into.get(todo.pop(), set()) - found
        found |= fresh
        todo += fresh
    return found


if __name__ == "__main__":
    run_benchmark("benchmarks.echo")
