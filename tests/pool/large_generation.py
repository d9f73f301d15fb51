"""A generation of many candidates on a few small modules; says what it took of this process's memory.

Run as ``python -m tests.pool.large_generation WORKERS CANDIDATES``, the first being a configuration in JSON.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from mlgo.base.config import WorkersConfig, load_config
from mlgo.base.files import file_sha256
from mlgo.base.scratch import scratch_directory
from mlgo.corpus.store import Module
from mlgo.evaluate import CompileHost
from mlgo.evaluate.baseline import ScoredModule
from mlgo.evaluate.training import candidate_rewards
from mlgo.evaluate.worker import tree_key
from mlgo.host.frontend import FrontEnd
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import find_toolchain
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.pool.tree_store import ReplayStore
from tests.conftest import FLAGS, REPOSITORY, SAMPLE
from tests.fakes.scores import scores

SOURCES = ("codec/base64.c", "lz/match.c", "graph/paths.cpp")
HIDDEN = 500


def main() -> None:
    workers, num_candidates = WorkersConfig.model_validate_json(sys.argv[1]), int(sys.argv[2])
    config = load_config(REPOSITORY / "config/config.yaml")
    toolchain = find_toolchain("auto", "x86_64-linux-gnu")
    scaling = Normalisation(("callee_basic_block_count",), np.zeros(1, np.float32), np.ones(1, np.float32))
    architecture = Architecture((1, HIDDEN, 1))
    noise = np.random.default_rng(0).standard_normal((num_candidates, architecture.num_params))
    candidates = noise.astype(np.float32)
    del noise
    policy = Policy("inline-size", scaling, architecture, candidates[0])
    with scratch_directory() as folder:
        bitcode, modules = {}, []
        for name in SOURCES:
            project, file = name.split("/")
            path = folder / f"{file}.bc"
            language = "c" if file.endswith(".c") else "c++"
            front_end = FrontEnd(toolchain, config.compile, folder / "cache")
            front_end.compile_to_bitcode(SAMPLE, language, FLAGS[language], name, path)
            module = Module(project, file, language, "train", file_sha256(path))
            bitcode[module.key] = path
            modules.append(ScoredModule(module, scores(1000, 1000, 1000), 1))
        trees = ReplayStore(folder / "trees", tree_key(toolchain, get_task("inline-size"), config.compile))
        with CompileHost(toolchain, "inline-size", config.compile, 2, trees, workers=workers) as host:
            candidate_rewards(host, policy, candidates[:2], modules, bitcode, "text_bytes")
            Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is used now
            before = _peak_bytes()
            rewards = candidate_rewards(host, policy, candidates, modules, bitcode, "text_bytes")
            grown = _peak_bytes() - before
        print(
            json.dumps(
                {
                    "evaluations": rewards.size,
                    "finite": int(np.isfinite(rewards).sum()),
                    "compiled": host.num_compiled,
                    "grown_bytes": grown,
                    "sha256": hashlib.sha256(rewards.tobytes()).hexdigest(),
                }
            )
        )


def _peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])


if __name__ == "__main__":
    main()
