"""Drivers: native programs that compile as some compiler does, and answer its questions by some policy.

A build starts a compiler thousands of times, and Python takes longer to start than a small file to compile. So what
runs in a build is native: the policy's exported class (`mlgo.deploy.export.cpp`) and ``driver/driver.cpp``, compiled
once and kept. A driver knows the files it was made from; when one of them has changed, it has itself made anew.
"""

import os
import shutil
import struct
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa

from mlgo import __version__
from mlgo.base.artifacts import column_type
from mlgo.base.config import CompileConfig, changed_settings, default_compile
from mlgo.base.files import content_hash, json_text, locked, write_atomically, write_json, write_text
from mlgo.base.scratch import scratch_directory
from mlgo.base.ships import Form
from mlgo.deploy import installed
from mlgo.deploy.export.cpp import CPP_FLAGS, cpp_sources, text_templates, write_sources
from mlgo.deploy.export.form import asked_features, run_tool
from mlgo.errors import ArtifactError, PolicyError
from mlgo.host import command_line
from mlgo.host.log import Header
from mlgo.host.session import probe_channel
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Toolchain, find_linker
from mlgo.policy.policy import Policy
from mlgo.policy.stored import StoredPolicy, languages_by_default, load_policy

CACHE = "MLGO_CACHE"
"""Environment variable that names the folder in which drivers are kept."""

DRIVER = "MLGO_DRIVER"
"""Environment variable in which ``bin/mlgo`` passes the place of the driver; ``bin/mlgo`` looks there the next time."""

_SOURCES = Path(__file__).parent / "driver"
_MAX_READ_BYTES = 1 << 20
"""Content that a driver reads whenever it starts; that takes a millisecond."""


@dataclass(frozen=True)
class DriverChoice:
    """The driver that the user chose."""

    policy: Path  # folder of the policy
    is_default: bool  # whether the user has named none
    place: Path  # the driver

    @classmethod
    def of(cls, named: str, compiler: str = "") -> "DriverChoice":
        """The driver of the user's options."""
        policy = find_policy(named) if named else default_policy()
        if given := os.environ.get(DRIVER):
            return cls(policy, not named, Path(given))
        return cls(policy, not named, _elsewhere(policy.resolve(), compiler))

    @classmethod
    def plain(cls, compiler: Path) -> "DriverChoice":
        """A driver for commands that ask no policy; it has the default one."""
        return cls(default_policy(), True, _elsewhere(compiler))


def _elsewhere(*key: object) -> Path:
    """Place of a driver where ``bin/mlgo``, which says where all others are, does not look."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    folder = Path(os.environ.get(CACHE) or Path(caches, "mlgo"), "drivers")
    return folder / content_hash(list(map(str, key))) / "driver"


def default_policy() -> Path:
    """The policy that is used if nobody names one."""
    return Path(_installed().default())


def find_policy(named: str) -> Path:
    """Folder of a policy: a path, or the name of a released one; PolicyError if it is neither."""
    if Path(named).is_dir():
        return Path(named)
    if named in (names := _installed().names()):
        return Path(_installed().path(named))
    raise PolicyError(f"--policy {named}: no folder, and no installed policy; installed are {', '.join(names)}")


def policy_folder(named: str) -> Path:
    """A path as it is, or the folder of a released policy whose name is given."""
    return Path(_installed().path(named)) if not Path(named).exists() and named in _installed().names() else Path(named)


def _installed() -> ModuleType:
    """The package ``mlgo-policies`` if it is there, which may be newer than this one; else the policies in this one."""
    try:
        return import_module("mlgo_policies")
    except ModuleNotFoundError:
        return installed


def make_driver(choice: DriverChoice, toolchain: Toolchain) -> Path:
    """Make the driver of a policy and a compiler, unless another process is making it: then wait for that one."""
    folder = choice.place.parent
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / "lock"))
        except OSError as error:
            raise ArtifactError(
                f"cannot write {folder}: {error.strerror}; set {CACHE} to a folder for drivers"
            ) from error
        load_policy(choice.policy)  # says what is wrong with it; what is built is read after its files are hashed
        linker = find_linker()
        files = [choice.policy / "policy.json", choice.policy / "weights.npy", toolchain.binary, linker]
        if choice.is_default:  # another policy is the default once mlgo-policies is installed
            files.append(Path(sysconfig.get_path("purelib")))
        files += [Path(command_line.__file__), *sorted(_SOURCES.iterdir())]
        made_from = {str(path.absolute()): _hash_of(path) for path in files}
        known = choice.place.with_name("made_from.json")
        if not (choice.place.exists() and known.exists() and known.read_bytes() == json_text(made_from).encode()):
            known.unlink(missing_ok=True)
            _build(choice, toolchain, linker, made_from)
            write_json(known, made_from)
    return choice.place


def _build(choice: DriverChoice, toolchain: Toolchain, linker: Path, made_from: Mapping[str, int]) -> None:
    policy = load_policy(choice.policy)
    languages = languages_by_default(choice.policy, policy)
    task = get_task(policy.task)
    header = probe_channel(toolchain, task, default_compile())
    asked_features(policy)  # first, as it says what to do about embeddings
    policy.respond_to(header)
    no_questions = pa.schema([(spec.name, column_type(spec)) for spec in header.features]).empty_table()
    with scratch_directory() as folder:
        write_sources(folder, cpp_sources(policy, no_questions))
        write_text(folder / "options.h", options_header())
        write_text(folder / "settings.h", _settings(toolchain, policy, languages, header, made_from))
        sources = [str(_SOURCES / "driver.cpp"), str(folder / f"{task.model}.cpp")]
        command = [str(linker), "cc", *CPP_FLAGS, f"-I{folder}", *sources, "-o", str(folder / "driver")]
        run_tool(command, env={**os.environ, "ZIG_LOCAL_CACHE_DIR": str(folder)})
        (folder / "driver").chmod(0o755)
        write_atomically(choice.place, lambda path: shutil.copy(folder / "driver", path))


def _settings(
    toolchain: Toolchain, policy: Policy, languages: Sequence[str], header: Header, made_from: Mapping[str, int]
) -> str:
    task, trained = get_task(policy.task), trained_settings(policy)
    num_bytes = {spec.name: spec.num_bytes for spec in header.features}
    return (
        text_templates(_SOURCES)
        .get_template("settings.h.jinja")
        .render(
            version=__version__,
            model=task.model,
            decision=task.decision,
            answer_bytes=np.dtype(policy.actions.dtype).itemsize,
            input_bytes=[num_bytes[name] for name in asked_features(policy)],
            is_zig=toolchain.is_zig,
            c=toolchain.driver("c"),
            cxx=toolchain.driver("c++"),
            advice=task.asking_flags("@", trained.size_stop_factor),
            levels=[trained.optimization],
            languages=languages,
            maker=[sys.executable, "-E", "-P", "-m", "mlgo"],
            made_from=made_from,
            max_read=_MAX_READ_BYTES,
        )
    )


def options_header() -> str:
    """Options of compilers by which a driver reads its command line, as C++."""
    lists = ("WITH_VALUE", "WITHOUT_CODE", "LINKER_WITH_VALUE")
    words = {name.lower(): sorted(getattr(command_line, name)) for name in lists}
    words["profiles"] = [option.removesuffix("=") for option in command_line.PROFILES]  # also without a file
    template = text_templates(_SOURCES).get_template("options.h.jinja")
    return template.render(words, for_zig=command_line.ZIG_WORDS)


def trained_settings(policy: StoredPolicy) -> CompileConfig:
    """Compile settings of a policy's training, as far as they change what is compiled; ConfigError if they are none."""
    trained = policy.origin.get("compile", {})
    return changed_settings(default_compile(), trained, "provenance of the policy")


def note_of_form(policy: StoredPolicy, form: Form | None) -> str | None:
    """What to say where a policy compiles modules of another form than those of its training; else None."""
    trained = trained_settings(policy).ships.form if "compile" in policy.origin else form
    return None if trained == form else f"the policy was trained for {trained}; for {form} it may gain less, or lose"


def _hash_of(path: Path) -> int:
    """By what a driver knows that a file has not changed; ``driver/driver.cpp`` has the same."""
    state = path.stat()
    if not path.is_file() or state.st_size > _MAX_READ_BYTES:
        times = (number for time_ns in (state.st_mtime_ns, state.st_ctime_ns) for number in divmod(time_ns, 10**9))
        data = struct.pack("=6q", state.st_size, state.st_ino, *times)
    else:
        data = path.read_bytes()
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % (1 << 64)
    return found
