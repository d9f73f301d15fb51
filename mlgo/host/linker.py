"""Linking the objects of a project into one file, to measure what would be shipped.

Second copies of COMDAT groups go, with their
unwind entries, and equal constants are merged. Nothing else is dropped: ``--gc-sections`` would need to know what the
rest of the project calls. The functions of a module are in one section, apart from those in groups, so it could only
drop modules as a whole, and would do so with each one that exports nothing because its symbols are hidden.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlgo.base.scratch import scratch_directory
from mlgo.errors import CompileTimeout, LinkError
from mlgo.host.process import run_bounded, without_folders

# The modules are a part of their project, and some are programs of their own: missing symbols are left open (hidden
# ones only with --noinhibit-exec, which makes such errors warnings), and of several with one name the first counts.
# Code that is not position independent is patched when it is loaded (-z notext). clang asks for --eh-frame-hdr in every
# link. One thread: others are for other links.
_ALWAYS = (
    "--eh-frame-hdr",
    "--strip-all",
    "--unresolved-symbols=ignore-all",
    "--allow-multiple-definition",
    "--noinhibit-exec",
    "--threads=1",
    "-z",
    "notext",
)


def link(
    linker: Path, arguments: Sequence[str], timeout_s: float, *, fold: bool = False, link_map: Path | None = None
) -> bytes:
    """Link parts of a project, whatever is missing, and return the file.

    Args:
        linker: what `toolchain.find_linker` gives.
        arguments: options and inputs.
        timeout_s: deadline of the link.
        fold: fold functions with identical code into one (``--icf=all``).
        link_map: file that gets a map of the linked file, see mlgo/objects/placed.py.

    Raises:
        LinkError: the linker refuses.
        CompileTimeout: it took too long.
    """
    told = [] if link_map is None else [f"-Map={link_map}", "--no-demangle"]
    with scratch_directory() as directory:
        output = directory / "linked"
        link_to(output, linker, [*arguments, *told, *(["--icf=all"] if fold else [])], timeout_s)
        return output.read_bytes()


def link_to(
    output: Path,
    linker: Path,
    arguments: Sequence[str],
    timeout_s: float,
    *,
    cwd: Path | None = None,
    said: Path | None = None,
) -> None:
    """Link parts of a project, whatever is missing, to a file; see `link`.

    Args:
        output: the file.
        linker: what `toolchain.find_linker` gives.
        arguments: options and inputs.
        timeout_s: deadline of the link.
        cwd: where it runs.
        said: file for what it prints.

    Raises:
        LinkError: the linker refuses.
        CompileTimeout: it took too long.
    """
    run_linker([str(linker), "ld.lld", *_ALWAYS, "-o", str(output), *arguments], timeout_s, cwd=cwd, stdout=said)


def run_linker(
    command: Sequence[str],
    timeout_s: float,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdout: Path | None = None,
) -> None:
    """Run a linker to its end; arguments as of `run_bounded`.

    Raises:
        LinkError: it refuses.
        CompileTimeout: it took too long.
        OSError: no space is left.
    """
    run = run_bounded(command, timeout_s, cwd=cwd, env=env, stdout=stdout)
    if run.returncode is None:
        raise CompileTimeout(f"the linker did not end within {timeout_s:g} s")
    if "No space left on device" in run.stderr or "NoSpaceLeft" in run.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "unknown file type" in run.stderr:
        raise LinkError("the linker does not know these files; linked files are measured for ELF targets alone")
    if run.returncode != 0:
        errors = [line for line in run.stderr.splitlines() if "error:" in line][:3]
        raise LinkError(without_folders(f"the linker ended with status {run.returncode}: {' | '.join(errors)[:500]}"))
