"""What the compiler has to be made to send, so that a policy sees what it looks at."""

from collections.abc import Sequence

from mlgo.base.config import CompileConfig
from mlgo.host.tasks.ir2vec import made_vocabulary
from mlgo.host.tasks.task import Task


def seen_by(features: Sequence[str], task: Task, settings: CompileConfig) -> CompileConfig:
    """Settings of a compile under a policy, with what its features need beyond those of LLVM's models.

    A policy with a vocabulary from a file needs that file in ``compile.ir2vec``; its features are missing otherwise.

    Args:
        features: that the policy looks at.
        task: its task.
        settings: that are wanted otherwise.
    """
    told = settings.tell_heuristic or any(name in task.default_features for name in features)
    vocabulary = settings.ir2vec or made_vocabulary(features)
    return settings.model_copy(update={"ir2vec": vocabulary, "tell_heuristic": told})
