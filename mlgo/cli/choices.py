"""Set-up of the stage programs that compile under choices; apart from others, which then do not depend on the JIT."""

import argparse

from mlgo.base.config import CseConfig, ReplayConfig, Settings
from mlgo.base.scratch import shared_folder
from mlgo.cli.arguments import workers_of
from mlgo.evaluate.training import known_compiles
from mlgo.jit.pool import ChoicePool
from mlgo.jit.problem import compiler_spec


def choice_pool(args: argparse.Namespace, settings: Settings) -> ChoicePool:
    """Workers that compile under choices; they know what earlier runs have found out."""
    spec = compiler_spec(settings.value("task"), settings.section("cse", CseConfig))
    known = known_compiles(shared_folder(args.work) / "replay", settings.section("replay", ReplayConfig))
    return ChoicePool(spec, args.workers, workers_of(settings), known)
