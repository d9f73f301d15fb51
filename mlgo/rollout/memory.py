"""Decision trees in front of the compiler: what is known is not compiled again."""

import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mlgo.compiler.session import CompileResult, KnownPath
from mlgo.compiler.toolchain import Toolchain
from mlgo.config import CompileConfig
from mlgo.files import content_hash
from mlgo.replay import ReplayStore, TreeKey
from mlgo.rollout.copies import Copies
from mlgo.rollout.jobs import CompileJob
from mlgo.tasks import PureAdvisor, Task
from mlgo.types import TensorSpec


def tree_key(toolchain: Toolchain, task: Task, settings: CompileConfig, copies: Copies | None = None) -> TreeKey:
    """Key of the trees that compiles of this kind belong to."""
    shares = [copies.sha256] if copies else []  # sizes by shares hold for these shares only
    options = [toolchain.name, *toolchain.back_end[1:], *task.flags(Path("BASE"), 1.0, with_default=False), *shares]
    return TreeKey(
        toolchain.sha256,
        toolchain.target,
        task.name,
        settings.optimization,
        settings.size_stop_factor,
        content_hash(options),
    )


@dataclass(frozen=True)
class Recollection:
    """What a tree knows of a job.

    Attributes:
        job: what is left to do, its first questions answered where they are known.
        result: the whole result, when nothing is left to do.
        observations: raw observations of the known first questions, if the job is to be recorded.
    """

    job: CompileJob
    result: CompileResult | None = None
    observations: bytes = b""


class TreeMemory:
    """Finds compiles in the trees and adds new ones to them.

    Attributes:
        store: the trees.
        num_recalled: compiles that were found.
        num_compiled: compiles that had to be done.
        num_known_questions: their questions that were answered in advance.
        num_questions: all their questions.

    Args:
        store: trees of the compiler and flags in use.
    """

    def __init__(self, store: ReplayStore) -> None:
        self.store = store
        self.num_recalled = self.num_compiled = self.num_known_questions = self.num_questions = 0

    def recall(self, job: CompileJob) -> Recollection:
        """What the tree knows of a job.

        Nothing, for jobs whose advisor looks at more than the observation, or that ask for the default.
        """
        if not (job.sha256 and isinstance(job.advisor, PureAdvisor)) or job.with_default or job.count_done:
            return Recollection(job)
        if job.object_path is not None:  # a tree holds sizes, not objects
            return Recollection(job)
        loaded = self.store.load(job.sha256)
        if loaded is None:
            return Recollection(replace(job, record=True))
        header, tree = loaded
        walk = tree.walk(job.advisor.decide_for(header))
        assert header.advice is not None
        answers = walk.answers.astype(header.advice.dtype).tobytes()
        observations = tree.observations[walk.nodes]
        recorded = observations.tobytes() if job.record else b""
        if walk.leaf is not None:
            self.num_recalled += 1
            leaf, contexts = walk.leaf, (("", len(walk.nodes)),)
            result = CompileResult(
                leaf.exec_bytes,
                leaf.text_bytes,
                leaf.dedup_bytes,
                leaf.object_sha256,
                0.0,
                leaf.truncated,
                header=header,
                contexts=contexts,
                answers=answers,
                observations=recorded,
            )
            return Recollection(job, result)
        checks = [zlib.crc32(row) for row in observations]
        known = KnownPath(np.array(checks, np.uint32), answers)
        return Recollection(replace(job, record=True, known=known), observations=recorded)

    def keep(self, job: CompileJob, result: CompileResult) -> None:
        """Add a compile to its module's tree; one with continuous answers is not kept.

        Raises:
            ReplayMismatch: it contradicts an earlier one; names the module and the question.
        """
        if not job.sha256 or not job.record or job.with_default or job.count_done:
            return
        num_known = len(job.known.checks) if job.known is not None else 0
        self.num_compiled += 1
        self.num_known_questions += num_known
        self.num_questions += result.num_questions
        header = result.header
        if header is None or header.advice is None or not _is_discrete(header.advice):
            return
        self.store.insert(job.sha256, result, num_known)


def _is_discrete(advice: TensorSpec) -> bool:
    """Whether answers can repeat at all, so that a tree of them is worth keeping; a priority in float32 hardly does."""
    return advice.num_elements == 1 and advice.dtype.kind in "iu"
