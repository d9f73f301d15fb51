"""What a worker of the host's measurement runs; it loads nothing that a worker of a training does not."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.config import CompileConfig
from mlgo.base.seeding import generator
from mlgo.evaluate.worker import CompileWorkerSpec
from mlgo.host.log import Header
from mlgo.host.tasks.task import EchoAdvisor, Responder
from mlgo.host.toolchain import Toolchain
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy


@dataclass(frozen=True)
class MlpEcho:
    """Asks a network each question, then answers the default, so that the code stays the same.

    Attributes:
        feature: that holds the default.
        policy: network to ask; None takes one of usual size with random weights.
    """

    feature: str
    policy: Policy | None = None

    def respond_to(self, header: Header) -> Responder:
        """Bind to the header."""
        policy = self.policy or _random(tuple(spec.name for spec in header.features if spec.name != self.feature))
        think, echo = policy.respond_to(header), EchoAdvisor(self.feature).respond_to(header)

        def respond(payload: bytes) -> bytes:
            think(payload)
            return echo(payload)

        return respond


def _random(features: tuple[str, ...]) -> Policy:
    shape = Architecture((len(features), 64, 64, 1))
    weights = generator(0, "bench", "mlp").standard_normal(shape.num_params).astype(np.float32)
    scale = np.ones(len(features), np.float32)
    return Policy("inline-size", Normalisation(features, np.zeros_like(scale), scale), shape, weights)


def make_reporter(toolchain: Toolchain, task_name: str, settings: CompileConfig) -> Callable[[Any], int]:
    """Make a function that tells the memory of its process in bytes, with all that compiles need loaded."""
    CompileWorkerSpec(toolchain, task_name, settings)()

    def resident_bytes(job: Any) -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    return resident_bytes
