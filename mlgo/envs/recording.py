"""Episodes kept in a file: every question, what was answered, and what that brought."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow as pa
from gymnasium.utils import RecordConstructorArgs

from mlgo.base.artifacts import TableWriter, column_type, feature_array, provenance, steps_schema
from mlgo.envs.env import CompileEnv
from mlgo.envs.spaces import Observation
from mlgo.errors import ConfigError
from mlgo.host.log import write_header

_GROUP_ROWS = 4096
"""Questions that are held in memory, and a row group of the file: at most 14 MB, for eviction."""


class RecordEpisodes(gymnasium.Wrapper[Observation, Any, Observation, Any], RecordConstructorArgs):
    """Writes all episodes to a Parquet file, one row for each question; see `artifacts.steps_schema`.

    It goes around the environment itself, and wrappers that change observations around it. The file appears when the
    environment is closed, whole or not at all; a second environment needs a path of its own. An episode that is left
    before its end is kept as far as it went.

    Args:
        env: a `CompileEnv`.
        path: file to write.

    Raises:
        ConfigError: not an environment of this package, or one whose observations are changed already.
        ArtifactError: the file cannot be written.
    """

    def __init__(self, env: gymnasium.Env[Observation, Any], path: str | Path) -> None:
        RecordConstructorArgs.__init__(self, path=path)
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, CompileEnv) or env.observation_space != inner.observation_space:
            raise ConfigError("RecordEpisodes goes around an environment of mlgo itself; put other wrappers around it")
        self._inner = inner
        advice = inner.header.advice
        assert advice is not None
        self._features, self._action = inner.features, advice.dtype
        types = {spec.name: column_type(spec) for spec in self._features}
        self._schema = steps_schema(types, pa.from_numpy_dtype(self._action))
        self._writer = TableWriter(Path(path), self._schema, _origin(inner))
        self._rows: list[dict[str, Any]] = []
        self._observations: list[tuple[bytes, ...]] = []
        self._asked: dict[str, Any] | None = None
        self._episode = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode, see `CompileEnv.reset`."""
        self._leave()
        observation, info = super().reset(seed=seed, options=options)
        self._episode += 1
        self._ask(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Answer a question, see `CompileEnv.step`."""
        observation, reward, terminated, truncated, info = super().step(action)
        self._note(np.asarray(action).item(), float(reward), terminated, truncated, info)
        if not terminated and not truncated:
            self._ask(observation, info)
        return observation, float(reward), terminated, truncated, info

    def close(self) -> None:
        """Finish the file and close the environment.

        Raises:
            ArtifactError: the disk is full.
        """
        self._leave()
        if self._rows:
            self._flush()
        self._writer.close()
        super().close()

    def action_masks(self) -> np.ndarray:
        """See `CompileEnv.action_masks`."""
        return self._inner.action_masks()

    def _ask(self, observation: Observation, info: dict[str, Any]) -> None:
        self._asked = info
        # As bytes, since the arrays belong to the agent, who may change them.
        self._observations.append(tuple(observation[spec.name].tobytes() for spec in self._features))

    def _leave(self) -> None:
        if self._asked is not None:
            self._note(None, 0.0, False, False, {})

    def _note(self, action: Any, reward: float, terminated: bool, truncated: bool, after: dict[str, Any]) -> None:
        assert self._asked is not None
        asked, self._asked = self._asked, None
        error = after.get("error") or {}
        row = {
            "episode": self._episode,
            "module": asked["module"],
            "bitcode_sha256": self._inner.problem.sha256,
            "baseline": asked["baseline"],
            "context": asked.get("context", ""),
            "question": asked.get("question"),
            "heuristic": asked.get("heuristic"),
            "action": action,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "score": after.get("score"),
            "object_sha256": after.get("object_sha256", ""),
            "failure": error.get("kind", ""),
            "message": error.get("message", ""),
        }
        self._rows.append(row)
        if len(self._rows) == _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        features = zip(*self._observations, strict=True)
        columns: dict[str, Any] = {
            spec.name: feature_array(spec, np.frombuffer(b"".join(values), np.uint8).reshape(-1, spec.num_bytes))
            for spec, values in zip(self._features, features, strict=True)
        }
        for field in self._schema:
            if field.name not in columns:
                columns[field.name] = pa.array([row[field.name] for row in self._rows], field.type)
        self._writer.write(columns)
        self._rows, self._observations = [], []


def _origin(env: CompileEnv) -> dict[str, Any]:
    settings = env.settings
    return provenance(
        environment=env.spec.id if env.spec is not None else type(env).__name__,
        task=env.task.name,
        reward=env.reward.name,
        compile=settings.model_dump(),
        compiler=env.toolchain.name,
        compiler_sha256=env.toolchain.sha256,
        target=env.toolchain.target,
        flags=env.task.flags(Path("CHANNEL"), settings.size_stop_factor, with_default=env.tells_heuristic),
        header=write_header(env.header).decode(),
        features=[spec.name for spec in env.features],
    )
