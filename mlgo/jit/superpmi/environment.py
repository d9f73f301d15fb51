"""Choosing eliminations of the .NET JIT, by the name under which Gymnasium finds it; imported when one is made."""

from typing import Any

from mlgo.base.config import SuperPmiConfig, parse_section
from mlgo.jit.choices.env import ChoiceEnv
from mlgo.jit.superpmi.compiler import SuperPmiSpec
from mlgo.jit.superpmi.features import JIT_COLUMNS

_SETTINGS = {
    "core_root": None,
    "collection": None,
    "command": (),
    "jit": None,
    "request_timeout_s": 60.0,
    "startup_timeout_s": 300.0,
    "max_restarts": 3,
}
_SAMPLE = {"max_methods": 1, "validation_share": 0.0, "test_share": 0.0}
"""Of no use here: an environment is told its units."""


def jit_cse(**options: Any) -> ChoiceEnv:
    """``mlgo/JitCse-v0``: methods of a SuperPMI collection under a Checked .NET JIT.

    Args:
        options: those of `SuperPmiConfig` (by default those of config/config.yaml) but for what splits a collection,
            and those of `ChoiceEnv`; units are numbers of methods, as text.

    Raises:
        ConfigError: collection, or superpmi and JIT, are not named.
        SuperPmiError: one is missing, a Release build, of another interface version, or cut short.
    """
    given = {name: options.pop(name, value) for name, value in _SETTINGS.items()}
    settings = parse_section(SuperPmiConfig, {**given, **_SAMPLE, "command": list(given["command"])}, "mlgo/JitCse-v0")
    spec = SuperPmiSpec.of(settings)
    spec.check()
    return ChoiceEnv(spec.open(), JIT_COLUMNS, **options)
