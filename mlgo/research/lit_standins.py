"""Stand-ins for the tools that LLVM's tests call, where there is only a clang: opt, llc, FileCheck and not.

- ``opt -passes=scc-oz-module-inliner`` is the inliner's pipeline of -Oz. Clang runs other passes before it. These are
  left out by ``-opt-bisect=FIRST-LAST`` (llvm/lib/IR/OptBisect.cpp, LLVM 22 and newer), so that the inliner meets the
  module as it stands in the file. FIRST is what clang numbers the inliner's advisor with, when it runs nothing at all.
- ``llc`` is clang's code generation after no pass (``-Xclang -disable-llvm-passes``).
- FileCheck knows CHECK, CHECK-NEXT and CHECK-NOT under any prefix, with regular expressions in ``{{}}``
  (llvm/docs/CommandGuide/FileCheck.rst).

Whatever else is asked for is not applicable: the reason is written to the file that the environment names.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from mlgo.host.process import die_with_parent
from mlgo.host.toolchain import Toolchain, find_toolchain

TOOLCHAIN = "MLGO_LIT_TOOLCHAIN"
"""Environment variable: which clang, as in the configuration."""

_INLINER = "-passes=scc-oz-module-inliner"
_FIRST = re.compile(r"pass \((\d+)\) inliner-ml-advisor-release on \[module\]")
_LAST = 1 << 30
_TIMEOUT_S = 120.0


def opt(arguments: Sequence[str]) -> int:
    """Run the inliner alone, as ``opt`` does: become clang, or give a status."""
    if _INLINER not in arguments:
        return not_applicable(f"without opt, {_INLINER[1:]} is all that clang can be made to run")
    toolchain = _toolchain("x86_64-linux-gnu")
    if toolchain.version[0] < 22:
        return not_applicable(f"{toolchain.name} cannot leave out what runs before the inliner; 22 and newer can")
    options, files, output = _split([word for word in arguments if word not in (_INLINER, "-S")])
    if output != os.devnull:
        return not_applicable("what opt writes is wanted, and clang runs more passes than it")
    command = [*toolchain.back_end, "-Oz", "-x", "ir", "-c", *files, "-o", os.devnull]
    numbering = [*command, "-mllvm", "-opt-bisect-limit=0"]
    numbered = subprocess.run(numbering, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    first = _FIRST.search(numbered.stderr)
    if numbered.returncode:
        sys.stderr.write(numbered.stderr)
        return numbered.returncode
    if first is None:
        return not_applicable("this clang does not tell where its inliner begins")
    only = [f"-opt-bisect={first[1]}-{_LAST}", "-opt-bisect-verbose=0"]
    return _become([*command, *_to_llvm([*only, *options])])


def llc(arguments: Sequence[str]) -> int:
    """Generate code, as ``llc`` does: become clang."""
    options, files, output = _split(arguments)
    triples = [word.partition("=")[2] for word in options if word.lstrip("-").startswith("mtriple=")]
    rest = [word for word in options if not word.lstrip("-").startswith("mtriple=")]
    toolchain = _toolchain(triples[-1] if triples else "x86_64-linux-gnu")
    code = ["-O2", "-fno-pic", "-fno-pie", "-Xclang", "-disable-llvm-passes", "-x", "ir", "-S"]
    return _become([*toolchain.back_end, *code, *files, "-o", output, *_to_llvm(rest)])


def file_check(arguments: Sequence[str]) -> int:
    """Compare what comes on stdin with the directives of a file; 0 if all are met, 1 if not, 2 if there are none."""
    parser = argparse.ArgumentParser("FileCheck", allow_abbrev=False, exit_on_error=False)
    parser.add_argument("file", type=Path)
    parser.add_argument("--check-prefix", "--check-prefixes", "-check-prefix", "-check-prefixes", action="append")
    parser.add_argument("--implicit-check-not", "-implicit-check-not", action="append", default=[])
    try:
        args, unknown = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError as error:
        return not_applicable(f"FileCheck here: {error}")
    if unknown:
        return not_applicable(f"FileCheck here does not know {unknown[0]}")
    prefixes = ",".join(args.check_prefix or ["CHECK"]).split(",")
    try:
        wrong = mismatch(args.file.read_text(), sys.stdin.read(), prefixes, args.implicit_check_not)
    except NotImplementedError as error:
        return not_applicable(f"FileCheck here does not know {error}")
    if wrong:
        print(f"{args.file.name}: {wrong}", file=sys.stderr)
    return int(bool(wrong))


def _split(words: Sequence[str]) -> tuple[list[str], list[str], str]:
    """Options, input files and the output of a call of opt or llc."""
    rest, output = list(words), "-"
    if "-o" in rest[:-1]:
        at = rest.index("-o")
        output = rest[at + 1]
        del rest[at : at + 2]
    return [word for word in rest if word.startswith("-")], [word for word in rest if word[:1] != "-"], output


def _to_llvm(options: Sequence[str]) -> list[str]:
    return [word for option in options for word in ("-mllvm", option)]


def _toolchain(target: str) -> Toolchain:
    return find_toolchain(os.environ.get(TOOLCHAIN, "auto"), target)


def _become(command: list[str]) -> int:
    """Go on as another program, so that who ends this one ends that."""
    os.execv(command[0], command)


TOOLS: dict[str, Callable[[Sequence[str]], int]] = {"opt": opt, "llc": llc, "FileCheck": file_check}


REASON = "MLGO_LIT_REASON"
"""Environment variable with the path of the file."""

STATUS = 77
"""Exit status of a program that cannot do what is asked for."""

_UNKNOWN = re.compile(r"Unknown command line argument '([^'=]*)|unknown argument: '([^'=]*)")


def not_applicable(reason: str) -> int:
    """Tell a reason, and give the status to end with."""
    if REASON in os.environ:
        with Path(os.environ[REASON]).open("a") as file:
            file.write(reason + "\n")
    print(reason, file=sys.stderr)
    return STATUS


def unknown_option(told: str) -> str:
    """That a tool of LLVM refuses an option because it does not know it; empty if it does not say so."""
    found = _UNKNOWN.search(told)
    return f"this compiler does not know {found[1] or found[2]}" if found else ""


_KINDS = r"NEXT|NOT|SAME|DAG|LABEL|EMPTY|COUNT-\d+"


def mismatch(checks: str, found: str, prefixes: Sequence[str], never: Sequence[str] = ()) -> str:
    """What of a text does not meet directives such as ``CHECK-NEXT: mask: 0,{{.*}}``; empty if all is well.

    Args:
        found: text to check; blanks and tabs count as one blank.
        prefixes: what directives begin with.
        never: what may stand nowhere outside of a match.
    """
    directive = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, prefixes))})(-(?:{_KINDS}))?:(.*)")
    text, at, forbidden, count = _one_blank(found), 0, list(never), 0
    for number, line in enumerate(checks.splitlines(), 1):
        match = directive.search(line)
        if match is None or re.search(r"\b(RUN|COM):", line):
            continue
        prefix, kind, wanted = match[1], match[2] or "", _one_blank(match[3]).strip()
        if kind not in ("", "-NEXT", "-NOT") or "[[" in wanted:
            raise NotImplementedError("variables" if "[[" in wanted else prefix + kind)
        count += 1
        if kind == "-NOT":
            forbidden.append(wanted)
            continue
        hit = _pattern(wanted).search(text, at)
        where = f"line {number}, {prefix}{kind}: {wanted}"
        if hit is None:
            return f"{where}: not found after {_context(text, at)}"
        if kind == "-NEXT" and text.count("\n", at, hit.start()) != 1:
            return f"{where}: is not on the next line after {_context(text, at)}"
        if wrong := _first_of(forbidden, text[at : hit.start()]):
            return f"{where}: {wrong} stands before it"
        at, forbidden = hit.end(), list(never)
    if wrong := _first_of(forbidden, text[at:]):
        return f"{wrong} stands at the end"
    return "" if count else f"no directive {' or '.join(prefixes)}"


def _pattern(wanted: str) -> re.Pattern[str]:
    parts = re.split(r"\{\{(.*?)\}\}", wanted)
    return re.compile("".join(f"(?:{part})" if number % 2 else re.escape(part) for number, part in enumerate(parts)))


def _first_of(forbidden: Sequence[str], text: str) -> str:
    return next((wanted for wanted in forbidden if _pattern(wanted).search(text)), "")


def _one_blank(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


def _context(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return repr(line) if line else "the beginning"


if __name__ == "__main__":
    die_with_parent()
    sys.exit(TOOLS[sys.argv[1]](sys.argv[2:]))
