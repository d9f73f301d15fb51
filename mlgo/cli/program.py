"""What all programs share: options, settings, one-line errors, exit status, clean ends on signals."""

import argparse
import errno
import io
import json
import math
import os
import signal
import sys
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import Any

from mlgo.base.config import (
    LOCAL_WORKERS,
    CompileConfig,
    Config,
    Settings,
    WorkersConfig,
    default_config,
    load_config,
    parse_section,
    read_settings,
)
from mlgo.base.files import shown, write_record
from mlgo.base.packages import missing_module
from mlgo.base.sealed import check_corpus
from mlgo.base.threads import one_thread_each
from mlgo.errors import ArtifactError, ConfigError, MlgoError, PackageError
from mlgo.host.process import die_with_parent
from mlgo.host.toolchain import Toolchain, find_toolchain

WORKERS = "MLGO_WORKERS"
"""Environment variable with section ``workers`` as JSON, which the workflow sets: where compiles run changes no result,
so it belongs to no rule's settings."""

SETTINGS = Path("config")

_SHARED: dict[str, dict[str, Any]] = {
    "--config": {  # argparse gives a default that is text to the type, and only where the option is not given
        "type": lambda text: Path(text) if text else default_config(),
        "default": "",
        "metavar": "FILE",
        "help": "configuration (default: the checkout's, that in mlgo.yaml here or above, the package's own)",
    },
    "--preset": {"type": Path, "action": "append", "default": [], "help": "file laid over it; may be repeated"},
    "--toolchain": {"help": "auto, ziglang, or a clang; instead of the configuration's"},
    "--data": {"type": Path, "default": Path("data"), "help": "folder of the results (default: %(default)s)"},
    "--json": {"action": "store_true", "help": "print JSON"},
    "--trace": {
        "type": Path,
        "default": Path("data/baseline/trace.parquet"),
        "metavar": "FILE",
        "help": "recorded questions (default: %(default)s)",
    },
    "--home": {
        "type": Path,
        "default": Path("data"),
        "help": "folder with corpus/ and baseline/ (default: %(default)s)",
    },
    "--work": {
        "type": Path,
        "default": Path("data/work"),
        "help": "folder for what is neither in Git nor in DVC (default: %(default)s)",
    },
    "--workers": {"type": int, "default": 1, "help": "how many, unless section workers says"},
}
"""Options that several programs take; ``--home``, ``--work`` and ``--workers`` are those of stages."""

CONFIG = ("--config", "--preset", "--toolchain")
"""Options that `read_config` reads."""


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add options that several programs take, by their names."""
    for name in names:
        parser.add_argument(name, **_SHARED[name])


Run = Callable[[argparse.Namespace], int | None]
"""What a command does; gives the exit status."""


def add_command(
    commands: Any, name: str, run: Run | None, *parents: argparse.ArgumentParser, text: str | None = None
) -> argparse.ArgumentParser:
    """Add a sub-command.

    Args:
        run: does it; its docstring is the help: a sentence, and after an empty line examples.
        text: the help of a command whose actions do it, or of one that shares what it runs with others.
    """
    sentence, _, examples = cleandoc(text or run.__doc__ or "").partition("\n\n")
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=sentence[:1].lower() + sentence[1:].removesuffix("."),
        description=sentence,
        epilog="\n".join(["examples:", *(f"  {line}" for line in examples.splitlines())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=parents,
    )
    parser.set_defaults(run=run)
    return parser


def add_actions(commands: Any, name: str, sentence: str, **heading: Any) -> Callable[..., argparse.ArgumentParser]:
    """Add a sub-command that consists of actions, each of which what is returned adds; its help shows all examples."""
    group = add_command(commands, name, None, text=sentence)
    actions = group.add_subparsers(required=True, metavar="ACTION", **heading)

    def add_action(name: str, run: Run, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        parser = add_command(actions, name, run, *parents)
        group.epilog = f"{group.epilog}{(parser.epilog or '').removeprefix('examples:')}"
        return parser

    return add_action


def stage_parser(description: str | None, *options: str) -> argparse.ArgumentParser:
    """A parser that shows a program's docstring, example included, as its help, and takes a configuration."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "--config", "--preset", *options)
    return parser


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings that ``--config`` and ``--preset`` name."""
    return read_settings(args.config, *args.preset)


def corpus_and_baseline(args: argparse.Namespace) -> tuple[Path, Path]:
    """Folders of the corpus and of its reference scores in ``--home``."""
    return args.home / "corpus", args.home / "baseline"


def workers_of(settings: Settings) -> WorkersConfig:
    """Where compiles run: by the environment variable `WORKERS`, else section ``workers``, else on this machine."""
    if WORKERS in os.environ:
        try:
            values = json.loads(os.environ[WORKERS])
        except ValueError as error:
            raise ConfigError(f"environment variable {WORKERS} is not JSON: {error}") from error
        return parse_section(WorkersConfig, values, WORKERS)
    return settings.section("workers", WorkersConfig) if "workers" in settings else LOCAL_WORKERS


def compiler_of(settings: Settings) -> tuple[Toolchain, CompileConfig]:
    """Toolchain and compile settings."""
    compiling = settings.section("compile", CompileConfig)
    return find_toolchain(settings.value("toolchain"), settings.value("target")), compiling


def read_config(args: argparse.Namespace) -> Config:
    """Load the configuration that the options name."""
    config = load_config(args.config, *args.preset)
    check_corpus(config)
    return config.model_copy(update={"toolchain": args.toolchain}) if args.toolchain else config


def configured(args: argparse.Namespace) -> tuple[Config, Toolchain]:
    """The configuration that the options name, and its compiler."""
    config = read_config(args)
    return config, find_toolchain(config.toolchain, config.target)


def say(args: argparse.Namespace, record: Any, text: str) -> None:
    """Print a record as JSON if ``--json`` was given, else as text."""
    print(json.dumps(record, indent=2) if args.json else text)


def _number(name: str, kind: Callable[[str], Any], fits: Callable[[Any], bool], what: str) -> Callable[[str], Any]:
    """What reads a number for ``argparse``, which shows the name in messages."""

    def read(text: str) -> Any:
        if not fits(value := kind(text)):
            raise argparse.ArgumentTypeError(f"{text} is not {what}")
        return value

    read.__name__ = name
    return read


positive = _number("positive", int, lambda value: value >= 1, "at least 1")
positive_float = _number("positive_float", float, lambda value: 0.0 < value < math.inf, "a number above 0")
not_negative_float = _number(
    "not_negative_float", float, lambda value: 0.0 <= value < math.inf, "a number of at least 0"
)


def run_program(main: Callable[[], int | None]) -> None:
    """Run a program and exit.

    Libraries compute in one thread each, here and in all that is started here (`mlgo.base.threads`).

    Mistakes of the user print one line and give their status, an interruption gives 130 (Ctrl-C) or 143 (SIGTERM);
    either way all context managers are left in order, so nothing stays behind. With the environment variable
    ``MLGO_LOG`` set, the error also goes to that file. With ``MLGO_FAILURE`` set, a mistake that lies in the settings
    or in what they led to is a result: it goes to that file, and the status is 0. Files that cannot be read, written or
    fetched stay errors, since another run may find them.
    """
    one_thread_each()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    _prepare_streams()
    log = Path(os.environ["MLGO_LOG"]) if "MLGO_LOG" in os.environ else None
    if log is not None:  # started by a workflow rule: do not outlive the workflow
        die_with_parent(signal.SIGTERM)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")
    status: Any
    try:
        try:
            status = main() or 0
        except SystemExit as end:  # of argparse, which has said why
            status = end.code or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 128 + signal.SIGINT
    except BrokenPipeError:  # the reader of our output has gone
        status = 1
    except Exception as error:
        if not (reason := _reason(error)):
            raise
        line, status = f"error: {shown(reason)}", 1
        print(line, file=sys.stderr)
        if isinstance(error, MlgoError):
            if log is not None:
                log.write_text(f"{line}\n")
            status = error.exit_status
            if os.environ.get("MLGO_FAILURE") and not isinstance(error, ArtifactError | PackageError):
                write_record(Path(os.environ["MLGO_FAILURE"]), {"message": str(error)})
                status = 0
    try:
        sys.stdout.flush()
    except OSError:  # said above; what is left goes nowhere, or the interpreter would say it again
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(status)


def _reason(error: Exception) -> str:
    """What to say of an error that is no defect of this package; empty for one that is, which shows its traceback.

    Each module says itself what is wrong with the files it reads. This is for what no module can see: a full disk, no
    memory, names that no file has, a current folder that is gone, files and folders that the system refuses.
    """
    if isinstance(error, MlgoError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return missing_module(error.name or "")
    if isinstance(error, MemoryError):
        return "no memory is left; free some, or raise the limit (ulimit -v)"
    if isinstance(error, ValueError) and str(error).startswith("embedded null"):
        return "a file's name holds a NUL; mend what names it"
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object[max(0, error.start - 40) : error.end]} is no text: mend the name"
    if not isinstance(error, OSError):
        return ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left on the device ({error.filename or 'temporary folder'})"
    if error.filename is None:
        is_gone = error.errno == errno.ENOENT and str(Path("/proc/self/cwd").readlink()).endswith(" (deleted)")
        return "the current folder is gone; change to one that is there" if is_gone else ""
    return f"cannot use {error.filename}: {error.strerror}" if error.errno in _REFUSALS else ""


_REFUSALS = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR),
    *(errno.EEXIST, errno.ENXIO, errno.EINVAL, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE),
)
"""Answers of the system that lie in what is on the disk. That a file is missing may be a mistake of ours."""


class _Shown(io.TextIOWrapper):
    """Output on which text from others cannot steer a terminal."""

    def write(self, text: str) -> int:
        super().write(shown(text, "\n\t"))
        return len(text)


def _prepare_streams() -> None:
    """Make output take any text, and let no file that is opened later be output because output is closed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    out, err = sys.stdout or os.fdopen(1, "w"), sys.stderr or os.fdopen(2, "w")
    if isinstance(out, io.TextIOWrapper) and isinstance(err, io.TextIOWrapper):
        lines, at_once = out.line_buffering, out.write_through
        encoding, file = out.encoding, out.detach()
        sys.stdout = _Shown(file, encoding, "backslashreplace", line_buffering=lines, write_through=at_once)
        err.reconfigure(errors="backslashreplace")
    sys.stderr = err
