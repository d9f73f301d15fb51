"""`mlgo size-diff`: what became smaller and larger between two builds, by symbol."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mlgo.base.ships import AS_BUILT, Ships
from mlgo.cli.program import add_command, positive, say
from mlgo.deploy.size_diff import FORMS, Limit, SizeChange, SizeDiff, compare_builds
from mlgo.errors import ConfigError
from mlgo.objects.symbols import REST, demangled
from mlgo.report.pages import Column, Table, text_column


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "size-diff", run)
    parser.add_argument("before", type=Path, help="program, shared object, object, static archive, or folder of these")
    parser.add_argument("after", type=Path, help="the same of another build")
    parser.add_argument("--top", type=positive, default=20, metavar="N", help="rows in a table (default: %(default)s)")
    parser.add_argument("--demangle", action="store_true", help="print names of C++ as in the source")
    parser.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="in folders: only such paths; may be repeated"
    )
    parser.add_argument(
        "--form", action="append", choices=FORMS, help="in folders: only such files; may be repeated (default: all)"
    )
    parser.add_argument("--ships", type=Ships.of, default=AS_BUILT, metavar="RECORD", help="unwind=no: without these")
    parser.add_argument("--limit", type=_limit, metavar="L", help="fail if the total grows by more: 0.5%%, 300, 1KiB")
    parser.add_argument("--limit-each", type=_limit, metavar="L", help="fail if a file of both grows by more")
    parser.add_argument("--json", action="store_true", help="print JSON, with all that changed")


def run(args: argparse.Namespace) -> int:
    """What became smaller and larger between two builds.

    mlgo size-diff old/app new/app --demangle                       two programs
    mlgo size-diff before.o after.o --top 50 --json
    mlgo size-diff build.main build --form linked                  two folders, by relative paths
    mlgo size-diff build.main build --limit 0.5% --limit-each 4KiB  status 1 if something has grown by more, for CI
    """
    progress = partial(tqdm, desc="size-diff", unit="file", disable=None, leave=False)
    if others := [name for name in args.ships.given if name != "unwind"]:
        raise ConfigError(
            f"--ships {args.ships}: files that are linked already can only leave unwind out, not {others[0]}"
        )
    found = compare_builds(
        args.before, args.after, only=args.only, forms=args.form or FORMS, ships=args.ships, progress=progress
    )
    before, after = found.sections["total"]
    total = SizeChange("total", {"total": before}, {"total": after})
    limits = [(total, args.limit), *((one, args.limit_each) for one in found.files if not _state(one))]
    exceeded = [one for one, allowed in limits if allowed and allowed.is_exceeded(*one.sizes)]
    named: Callable[[str], str] = str
    if args.demangle:
        try:
            demangled("_Z1fv")
            named = demangled
        except OSError as error:
            print(f"names stay mangled: {error}", file=sys.stderr)
    say(args, _record(args, found, exceeded, named), _text(args, found, exceeded, named))
    return int(bool(exceeded))


def _limit(text: str) -> Limit:
    try:
        return Limit.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _record(
    args: argparse.Namespace, found: SizeDiff, exceeded: Sequence[SizeChange], named: Callable[[str], str]
) -> dict[str, Any]:
    def change(one: SizeChange) -> dict[str, Any]:
        return {"name": one.name, "change": one.growth, "before": one.before, "after": one.after}

    return {
        "before": str(args.before),
        "after": str(args.after),
        "sections": {name: {"before": a, "after": b, "change": b - a} for name, (a, b) in found.sections.items()},
        "forms": found.forms,
        "files": [change(one) for one in found.files],
        "symbols": [change(one) | ({"demangled": named(one.name)} if args.demangle else {}) for one in found.symbols],
        "without_symbols": found.stripped,
        "members_not_elf": found.unread,
        "exceeded": [{"name": one.name, "change": one.growth} for one in exceeded],
    }


def _text(
    args: argparse.Namespace, found: SizeDiff, exceeded: Sequence[SizeChange], named: Callable[[str], str]
) -> str:
    titles = {"text": "code", "read_only": "constants", "unwind": "unwind tables", "total": "total"}
    rows = [SizeChange(titles[name], {name: before}, {name: after}) for name, (before, after) in found.sections.items()]
    parts = [Table([text_column("bytes", lambda one: one.name), *_SIZES], rows).aligned()]
    if len(found.files) > 1:
        parts.append(_top("file", [one for one in found.files if one.growth or _state(one)], args.top, str))
    if len(found.stripped) < len(found.files):
        parts.append(_top("symbol", found.symbols, args.top, named))
    beyond = [f"limit exceeded: {one.name} grew by {one.growth:,} bytes" for one in exceeded]
    return "\n\n".join([*parts, *filter(None, ["\n".join([*_remarks(found), *beyond])])])


def _top(what: str, changes: Sequence[SizeChange], top: int, named: Callable[[str], str]) -> str:
    """The first rows, and what there is in all."""
    if not changes:
        return f"no {what} changed"
    larger = sum(one.growth for one in changes if one.growth > 0)
    smaller = sum(one.growth for one in changes if one.growth < 0)
    states = [_state(one) for one in changes if one.name not in REST.values()]
    head = (
        f"{len(states):,} {what}{'s' * (len(states) != 1)} changed, {states.count('new'):,} of them new and "
        f"{states.count('gone'):,} gone: {larger:+,} and {smaller:+,} bytes"
    )
    columns = [*_SIZES, text_column("", _state), text_column(what, lambda one: named(one.name))]
    more = [f"and {len(changes) - top:,} more (--top N)"] if len(changes) > top else []
    return "\n".join([head, Table(columns, changes[:top]).aligned(), *more])


def _remarks(found: SizeDiff) -> list[str]:
    lines = []
    if found.stripped:
        first = found.stripped[0]
        lines.append(
            f"{first} has no symbol table before or after, as it is stripped: sections only"
            if len(found.files) == 1
            else f"{len(found.stripped):,} files have no symbol table before or after, as they are stripped, such as "
            f"{first}: they count under [text], [read_only] and [unwind]"
        )
    if found.unread:
        lines.append(f"{found.unread:,} members of archives are not ELF (bitcode?) and count nothing")
    if len(found.forms) > 1:
        numbers = ", ".join(f"{number:,} {form}" for form, number in found.forms.items())
        lines.append(f"the folders hold the same code in several forms ({numbers}); --form linked counts what ships")
    return lines


def _state(one: SizeChange) -> str:
    return "new" if one.before is None else "gone" if one.after is None else ""


def _share(one: SizeChange) -> str:
    before, _ = one.sizes
    return f"{100 * one.growth / before:+.2f} %" if before else "-"


def _number(title: str, read: Callable[[SizeChange], str], width: int) -> Column:
    return text_column(title.rjust(width), lambda one: read(one).rjust(width))


_SIZES = (
    _number("change", lambda one: f"{one.growth:+,}", 11),
    _number("share", _share, 10),
    _number("before", lambda one: f"{one.sizes[0]:,}", 12),
    _number("after", lambda one: f"{one.sizes[1]:,}", 12),
)
