"""What FileCheck does, as far as tests of the interactive channel need it (llvm/docs/CommandGuide/FileCheck.rst).

Directives are CHECK, CHECK-NEXT and CHECK-NOT under any prefix, with regular expressions in ``{{}}``.
"""

import re
from collections.abc import Sequence

_KINDS = r"NEXT|NOT|SAME|DAG|LABEL|EMPTY|COUNT-\d+"


def mismatch(checks: str, found: str, prefixes: Sequence[str], never: Sequence[str] = ()) -> str:
    """What of a text does not meet the directives of another; empty if all is well.

    Args:
        checks: holds directives such as ``CHECK-NEXT: mask: 0,{{.*}}``.
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
