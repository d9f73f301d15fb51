"""Episodes in a file: recorded, played without a compiler, and compared with a live environment."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from mlgo.base import artifacts
from mlgo.envs.env import CompileEnv
from mlgo.envs.episode import Info, Observation, observation_space
from mlgo.errors import ArtifactError, ConfigError, ProtocolError, ToolchainError
from mlgo.host.log import parse_header, write_header
from mlgo.host.tasks.task import get_task
from mlgo.policy.vocabulary import values_of

_GROUP_ROWS = 4096
"""Questions that are held in memory, and a row group of the file: at most 14 MB, for eviction."""


class RecordEpisodes(gymnasium.Wrapper[Observation, Any, Observation, Any], RecordConstructorArgs):
    """Writes all episodes to a Parquet file, one row for each question; see `artifacts.steps_schema`.

    It goes around the environment itself, and wrappers that change observations around it. The file appears when the
    environment is closed, whole or not at all; a second environment needs a path of its own. An episode that is left
    before its end is kept as far as it went.
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
        types = {spec.name: artifacts.column_type(spec) for spec in self._features}
        self._schema = artifacts.steps_schema(types, pa.from_numpy_dtype(self._action))
        self._writer = artifacts.TableWriter(Path(path), self._schema, _origin(inner))
        self._rows: list[Info] = []
        self._observations: list[tuple[bytes, ...]] = []
        self._asked: Info | None = None
        self._episode = -1

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """Begin an episode, see `CompileEnv.reset`."""
        self._leave()
        observation, info = super().reset(seed=seed, options=options)
        self._episode += 1
        self._ask(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:
        """Answer a question, see `CompileEnv.step`."""
        observation, reward, terminated, truncated, info = super().step(action)
        self._note(np.asarray(action).item(), float(reward), terminated, truncated, info)
        if not terminated and not truncated:
            self._ask(observation, info)
        return observation, float(reward), terminated, truncated, info

    def close(self) -> None:
        """Finish the file and close the environment."""
        self._leave()
        if self._rows:
            self._flush()
        self._writer.close()
        super().close()

    def action_masks(self) -> np.ndarray:
        """See `CompileEnv.action_masks`."""
        return self._inner.action_masks()

    def _ask(self, observation: Observation, info: Info) -> None:
        self._asked = info
        # As bytes, since the arrays belong to the agent, who may change them.
        self._observations.append(tuple(observation[spec.name].tobytes() for spec in self._features))

    def _leave(self) -> None:
        if self._asked is not None:
            self._note(None, 0.0, False, False, {})

    def _note(self, action: Any, reward: float, terminated: bool, truncated: bool, after: Info) -> None:
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
        columns: Info = {
            spec.name: artifacts.feature_array(
                spec, np.frombuffer(b"".join(values), np.uint8).reshape(-1, spec.num_bytes)
            )
            for spec, values in zip(self._features, features, strict=True)
        }
        others = [field for field in self._schema if field.name not in columns]
        columns |= {field.name: pa.array([row[field.name] for row in self._rows], field.type) for field in others}
        self._writer.write(columns)
        self._rows, self._observations = [], []


def _origin(env: CompileEnv) -> Info:
    settings = env.settings
    return artifacts.provenance(
        environment=env.spec.id if env.spec is not None else type(env).__name__,
        task=env.task.name,
        reward=env.reward.name,
        compile=settings.model_dump(),
        **env.toolchain.provenance,
        flags=env.task.flags(Path("CHANNEL"), settings.size_stop_factor, with_heuristic_feature=env.tells_heuristic),
        header=write_header(env.header).decode(),
        features=[spec.name for spec in env.features],
    )


class RecordedEnv(gymnasium.Env[Observation, Any]):
    """Plays a file of `RecordEpisodes`: same observations and rewards for the recorded answers, no compiler.

    ``info["action"]`` is the recorded answer to the question at hand; no other is taken. The rest of ``info`` is
    ``module``, ``baseline``, ``context``, ``question`` and ``heuristic``, and at the end ``score`` and
    ``object_sha256``, or ``error``.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self.origin = artifacts.read_provenance(self._path)
        try:
            header = parse_header(self.origin["header"].encode().rstrip(b"\n"))
            observed, task = set(self.origin["features"]), get_task(self.origin["task"])
            episodes = artifacts.read_table(self._path, columns=["episode"])["episode"]
        except (KeyError, AttributeError, ProtocolError) as error:
            raise ArtifactError(f"{path} is no file of recorded episodes ({error})") from error
        self.features = tuple(spec for spec in header.features if spec.name in observed)
        self.observation_space = observation_space(self.features)  # type: ignore[assignment]
        self.action_space = task.actions.gymnasium_space(gymnasium.spaces, header)
        self.num_episodes = pc.max(episodes).as_py() + 1 if len(episodes) else 0
        self._next, self._step = 0, 0
        self._rows: list[Info] = []
        self._columns: dict[str, np.ndarray] = {}

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """Begin episode ``options["episode"]``, or the one after the last that was played."""
        super().reset(seed=seed)
        number = (options or {}).get("episode", self._next)
        if not 0 <= number < self.num_episodes:
            raise ConfigError(f"options['episode']: {number}, but {self._path} holds {self.num_episodes} episodes")
        self._next, self._step = (number + 1) % self.num_episodes, 0
        table = artifacts.read_table(self._path, filters=[("episode", "==", number)])
        self._columns = {spec.name: values_of(table, spec.name).reshape(-1, *spec.shape) for spec in self.features}
        self._rows = table.drop_columns([*self._columns]).to_pylist()
        return self._see()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:
        """Go on to the next recorded question; ValueError for another answer than the recorded one."""
        if self._step >= len(self._rows) or self._rows[self._step]["action"] is None:
            raise ResetNeeded("the recorded episode has not begun or ends here: call reset() first")
        row = self._rows[self._step]
        if np.asarray(action).item() != row["action"]:
            raise ValueError(f"step {self._step}: action {action!r}, but the record goes on only with {row['action']}")
        self._step += 1
        observation, info = self._see()
        return observation, row["reward"], row["terminated"], row["truncated"], info

    def _see(self) -> tuple[Observation, Info]:
        over = self._step == len(self._rows)
        row = self._rows[-1 if over else self._step]
        info: Info = {"module": row["module"], "baseline": row["baseline"]}
        if over and row["failure"]:
            info["error"] = {"kind": row["failure"], "message": row["message"]}
        elif over:
            info |= {"score": row["score"], "object_sha256": row["object_sha256"]}
        if over:
            return {spec.name: np.zeros(spec.shape, spec.dtype) for spec in self.features}, info
        is_number = isinstance(self.action_space, gymnasium.spaces.Box)
        action = row["action"]  # None where the episode was left
        info["action"] = np.array([action], np.float32) if is_number and action is not None else action
        info |= {"context": row["context"], "question": row["question"]} if row["question"] is not None else {}
        info |= {"heuristic": row["heuristic"]} if row["heuristic"] is not None else {}
        return {name: values[self._step].copy() for name, values in self._columns.items()}, info

    def bitcode_sha256(self) -> str:
        """Hash of the bitcode of the episode's module."""
        return str(self._rows[0]["bitcode_sha256"])


def first_difference(path: str | Path, env: gymnasium.Env[Observation, Any]) -> str:
    """Send the recorded answers to a live environment, and return the first difference in words; empty without one."""
    recorded = RecordedEnv(path)
    live = env.unwrapped
    if not isinstance(live, CompileEnv):
        raise ConfigError(f"recorded episodes are held against environments of mlgo, not {type(live).__name__}")
    _check_fits(recorded, live)
    for number in range(recorded.num_episodes):
        if difference := _difference(recorded, env, live, number):
            return f"episode {number}, {difference}"
    return ""


def _check_fits(recorded: RecordedEnv, live: CompileEnv) -> None:
    if recorded.origin["compiler_sha256"] != live.toolchain.sha256:
        raise ToolchainError(
            f"the episodes were recorded with {recorded.origin['compiler']} (SHA-256 "
            f"{recorded.origin['compiler_sha256'][:16]}), this is {live.toolchain.name} ({live.toolchain.sha256[:16]})"
        )
    here, there = ({**one["compile"], **one} for one in (_origin(live), recorded.origin))
    for name in ("task", "target", "reward", "objective", "optimization", "size_stop_factor"):
        if here[name] != there.get(name):
            raise ConfigError(
                f"the episodes were recorded with {name} {there.get(name)}, the environment has {here[name]}"
            )


def _difference(recorded: RecordedEnv, env: gymnasium.Env[Observation, Any], live: CompileEnv, number: int) -> str:
    expected, known = recorded.reset(options={"episode": number})
    found, info = env.reset(options={"module": known["module"]})
    if live.problem.sha256 != recorded.bitcode_sha256():
        return f"{known['module']}: its bitcode is another one than when it was recorded"
    step, over = 0, False
    while not over:
        where = f"{known['module']}, step {step}"
        for name in ("context", "question"):
            if known.get(name) != info.get(name):
                return f"{where}: {name} is {info.get(name)}, recorded {known.get(name)}"
        for name, values in expected.items():
            if values.tobytes() != found[name].tobytes():
                return f"{where}: {name} is {_text(found[name])}, recorded {_text(values)}"
        action = known["action"]
        if action is None:  # left here
            return ""
        expected, *outcome, known = recorded.step(action)
        found, *came, info = env.step(action)
        for name, here, there in zip(("reward", "terminated", "truncated"), came, outcome, strict=True):
            if here != there:
                return f"{where}: {name} is {here}, recorded {there}"
        over, step = True in outcome[1:], step + 1
    for name in ("score", "object_sha256"):
        if known.get(name) != info.get(name) and "" not in (known.get(name), info.get(name)):  # trees know no objects
            return f"{known['module']}: {name} is {info.get(name)}, recorded {known.get(name)}"
    here, there = (one.get("error", {}).get("kind", "") for one in (info, known))
    return f"{known['module']}: failure is {here!r}, recorded {there!r}" if here != there else ""


def _text(values: np.ndarray) -> str:
    return " ".join(map(str, values.ravel().tolist()))
