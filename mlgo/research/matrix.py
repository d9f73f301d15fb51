"""Sweeps: one configuration, some settings changed, as data. Which trainings that makes, and what they share.

The points of a grid are all known at once. Those of a study follow from what earlier ones have come to, see
`mlgo.research.study`; here they are given.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo.base.config import SweepConfig, merge, parse_config, read_yaml
from mlgo.base.files import content_hash
from mlgo.base.names import PolicyName
from mlgo.base.registry import LEARNERS, PROBLEMS, Kind, training_chain
from mlgo.base.sealed import check_corpus
from mlgo.errors import ConfigError
from mlgo.host.tasks.task import get_task

BASELINE_KEYS: Mapping[Kind, tuple[str, ...]] = {
    "modules": ("seed", "task", "toolchain", "target", "compile", "corpus", "baseline"),
    "choices": ("seed", "task", "cse", "corpus"),
}
"""Keys of the configuration that corpus, baseline and labels follow from, by kind of the task."""

Values = Mapping[str, Any]
"""A configuration by section, or some settings of it by dotted name."""

_INSTEAD = {
    "train": "sweep.learners and sweep.seeds",
    "sweep": "the section itself",
    "replay": "nothing: trees change no result",
    "evaluate": "evaluate for all points alike",
}
_PLAIN = re.compile(r"[A-Za-z0-9.+-]+")
_LONGEST_NAME = 120


@dataclass(frozen=True)
class SweepTraining:
    """One learner under one configuration, for each seed of the sweep."""

    name: str  # of its policies, before the seed: `<learner>,[<task>,]<setting>=<value>,...`
    learner: str
    task: str
    settings: Values  # value of each swept setting that this training reads
    config: Values
    home: str  # of its corpus and baseline, see `Sweep.homes`
    start: str  # name of the training whose policies it starts from; empty if from none

    @property
    def kind(self) -> Kind:
        """What is learnt on."""
        return PROBLEMS.get(self.config["task"]).kind


@dataclass(frozen=True)
class Sweep:
    """What is to be trained."""

    seeds: tuple[int, ...]
    # What is compared, in the order of the grid; trainings that read none of what sets points apart are one.
    points: tuple[SweepTraining, ...]
    trainings: Mapping[str, SweepTraining]
    # Configuration by name, for each corpus and baseline that differs from the default run's, which is `""`.
    homes: Mapping[str, Values]
    trials: tuple[str, ...] = ()  # of a study, name of the point of each trial so far; the same point may come again

    @property
    def policies(self) -> list[str]:
        """Policies to compare, each with its seed."""
        return [str(PolicyName(point.name, seed)) for point in self.points for seed in self.seeds]


def expand(values: Values, trials: Sequence[Values] = ()) -> Sweep:
    """All trainings of the sweep that a configuration describes."""
    sweep = parse_config(values).sweep
    _check_sampler(sweep)
    is_grid = sweep.sampler == "grid"
    swept, name = (sweep.points, "sweep.points") if is_grid else (sweep.ranges, "sweep.ranges")
    points: dict[str, SweepTraining] = {}
    trainings: dict[str, SweepTraining] = {}
    homes: dict[str, Values] = {}
    unread, asked = set(swept), []
    for task, base in _laid_over(values, sweep):
        _check_keys(base, swept, name)
        for corner in _corners(sweep):
            config = _checked(base, corner)
            unread -= {key for one in _chain(values, config, task, corner, sweep.learners[0]) for key in one.settings}
        for chosen in _grid(sweep) if is_grid else trials:
            config = _checked(base, chosen)
            for learner in sweep.learners:
                for one in _chain(values, config, task, chosen, learner):
                    trainings[one.name] = one
                    unread -= one.settings.keys()
                    if one.home:
                        homes[one.home] = config
                points[one.name] = one
            asked.append(one.name)
    if unread:
        raise ConfigError(
            f"{name}: {', '.join(sorted(unread))} is read by none of sweep.learners ({', '.join(sweep.learners)})"
        )
    if is_grid and len(points) * len(sweep.seeds) < 2:
        raise ConfigError(
            "the sweep holds one training, so there is nothing to compare; give sweep.points, sweep.learners, "
            "sweep.tasks or sweep.seeds more values, or lay a preset over the configuration (config/presets/sweep.yaml)"
        )
    return Sweep(tuple(sweep.seeds), tuple(points.values()), trainings, homes, () if is_grid else tuple(asked))


def _laid_over(values: Values, sweep: SweepConfig) -> list[tuple[str, Values]]:
    """The configuration under the name of each task."""
    found: list[tuple[str, Values]] = []
    for task, presets in sorted((sweep.tasks or {"": []}).items()):
        base: Any = dict(values)
        for preset in presets:
            base = merge(base, read_yaml(Path(preset)))
        found.append((task, {**base, "sweep": values["sweep"]}))
    return found


def study_name(values: Values) -> str:
    """Names a study by all settings that its trials follow from; with more trials it is the same study."""
    (_, base), *_ = _laid_over(values, parse_config(values).sweep)
    followed = {key: value for key, value in base.items() if key != "workers"}
    return content_hash({**followed, "sweep": {key: one for key, one in base["sweep"].items() if key != "trials"}})


def _check_sampler(sweep: SweepConfig) -> None:
    if sweep.sampler == "grid" and sweep.ranges:
        raise ConfigError("sweep.ranges: a grid takes sweep.points; for a study in ranges set sweep.sampler: tpe")
    if sweep.sampler == "tpe":
        if not sweep.ranges:
            raise ConfigError(
                "sweep.ranges is empty; name a setting and what it may be, as es.step_size: {low: 0.02, high: 0.6}"
            )
        if sweep.points:
            raise ConfigError(
                "sweep.points: a study takes sweep.ranges, with choices for single values; empty sweep.points"
            )
        if len(sweep.learners) > 1 or len(sweep.tasks) > 1:
            raise ConfigError(
                "sweep.learners, sweep.tasks: a study has one learner and one task; run one study for each"
            )


def _check_keys(base: Values, keys: Iterable[str], name: str) -> None:
    """Refuse settings that there are not, or that cannot be swept."""
    for key in sorted(keys):
        section = key.split(".")[0]
        if section in _INSTEAD:
            raise ConfigError(f"{name}: {key} cannot be swept; use {_INSTEAD[section]}")
        found: Any = base
        for part in key.split("."):
            if not isinstance(found, Mapping) or part not in found:
                known = ", ".join(sorted(found)) if isinstance(found, Mapping) else "none"
                raise ConfigError(f"{name}: unknown setting {key!r}; known there: {known}")
            found = found[part]


def _corners(sweep: SweepConfig) -> list[dict[str, Any]]:
    """Points of a study that show before the first trial whether settings can have what the ranges say."""
    first = {key: one.ends[0] for key, one in sorted(sweep.ranges.items())}
    return [{**first, key: end} for key, one in sorted(sweep.ranges.items()) for end in one.ends]


def _grid(sweep: SweepConfig) -> list[dict[str, Any]]:
    """Every combination of the swept settings' values."""
    keys = sorted(sweep.points)  # names must not depend on the order
    return [dict(zip(keys, chosen, strict=True)) for chosen in itertools.product(*(sweep.points[key] for key in keys))]


def _checked(base: Values, chosen: Values) -> Values:
    """The configuration with some settings changed."""
    values: Any = base
    for key, value in chosen.items():
        change: Any = value
        for part in reversed(key.split(".")):
            change = {part: change}
        values = merge(values, change)
    label = ", ".join(f"{key}={value}" for key, value in chosen.items())
    config = parse_config(values, f"sweep point {label}" if label else "configuration")
    kind = PROBLEMS.get(config.task).kind
    for learner in config.sweep.learners:
        if kind not in LEARNERS.get(learner).sections:
            raise ConfigError(f"sweep.learners: there is no {learner} for task {config.task}")
    if kind == "modules":
        get_task(config.task).check_objective(config.compile.objective)
    check_corpus(config)
    return values


def _chain(values: Values, config: Values, task: str, chosen: Values, learner: str) -> list[SweepTraining]:
    """A training after those that it starts from, the first first."""
    kind = PROBLEMS.get(config["task"]).kind
    keys, home = BASELINE_KEYS[kind], ""
    if any(values[key] != config[key] for key in keys):
        home = _name("", task, {key: value for key, value in chosen.items() if key.split(".")[0] in keys})
    found: list[SweepTraining] = []
    read = set(keys)
    for one in training_chain(learner, config):
        read |= set(LEARNERS.get(one).sections[kind])
        settings = {key: value for key, value in chosen.items() if key.split(".")[0] in read}
        start_name = found[-1].name if found else ""
        found.append(SweepTraining(_name(one, task, settings), one, task, settings, config, home, start_name))
    return found


def _name(learner: str, task: str, settings: Values) -> str:
    parts = [learner, task, *(f"{key}={_plain(value)}" for key, value in settings.items())]
    if not settings and learner:
        parts.append("base")
    name = ",".join(filter(None, parts))
    return name if len(name) <= _LONGEST_NAME else f"{learner or task or 'home'},{content_hash([task, dict(settings)])}"


def _plain(value: Any) -> str:
    """A value as part of a file's name; of what cannot be one, a hash."""
    parts = value if isinstance(value, list) else [value]
    if all(isinstance(part, str | int | float) and _PLAIN.fullmatch(str(part)) for part in parts):
        return "+".join(map(str, parts)) or "none"
    return content_hash(value)[:8]
