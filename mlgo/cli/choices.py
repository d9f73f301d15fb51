"""Set-up of the stage programs that compile under choices; apart from others, which then do not depend on the JIT."""

import argparse

from mlgo.base.config import CseConfig, ReplayConfig, Settings
from mlgo.base.scratch import shared_folder
from mlgo.cli.arguments import workers_of
from mlgo.errors import ConfigError
from mlgo.evaluate.training import known_compiles
from mlgo.jit import JIT_CSE
from mlgo.jit.compiler import SuperPmiSpec
from mlgo.jit.pool import ChoicePool


def choice_pool(args: argparse.Namespace, settings: Settings) -> ChoicePool:
    """Workers that compile under choices; they know what earlier runs have found out."""
    task = settings.value("task")
    if task != JIT_CSE.name:
        raise ConfigError(f"task {task} does not choose among candidates; its compiles ask questions")
    spec = SuperPmiSpec.of(settings.section("cse", CseConfig).superpmi)
    known = known_compiles(shared_folder(args.work) / "replay", settings.section("replay", ReplayConfig))
    return ChoicePool(spec, args.workers, workers_of(settings), known)
