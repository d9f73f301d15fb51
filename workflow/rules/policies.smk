# What trainings and evaluations read: of the default run, of further compilers and of a sweep.
include: "places.smk"


import shlex
from typing import NamedTuple

TRAIN_SETS = config["generalisation"]["train_sets"]
# Folder of policies, corpus and baseline beneath data/.
HOME = "cse/" if KIND == "choices" else ""


class Training(NamedTuple):
    """A training: who learns, under which configuration, where, from which policy (its folder; empty for none)."""

    learner: str
    values: dict
    place: str = ""
    start: str = ""
    options: str = ""


def training(wildcards):
    """The training that a policy's wildcards stand for."""
    if "point" in wildcards.keys():
        one = swept().trainings[wildcards.point]
        start = (
            f"data/sweep/policies/{one.start}-s{wildcards.seed}" if one.start else ""
        )
        return Training(one.learner, one.config, place_of(home=one.home), start)
    if "learnt" in wildcards.keys():
        place, modules = place_of(wildcards.learnt), TRAIN_SETS[wildcards.train_set]
        marginal = config["marginal"] | {"modules": modules["modules"]}
        languages = f"--languages {' '.join(modules['languages'])}"
        values = config_at(place) | {"marginal": marginal}
        return Training("marginal", values, place, options=languages)
    start = LEARNERS.get(wildcards.learner).start(config)
    folder = f"data/{HOME}policies/{start}-s{wildcards.seed}" if start else ""
    return Training(wildcards.learner, config, HOME, folder)


def training_input(wildcards):
    """What a training reads: corpus and baseline, the policy that it goes on from, and others that it is given."""
    one = training(wildcards)
    given = one.values["bcmax"]["policies"] if one.learner == "bcmax" else []
    start = [one.start] if one.start else []
    if "point" not in wildcards.keys():  # where a folder is not one output
        start = expand("{folder}/{file}", folder=start, file=POLICY)
    if KIND == "choices":
        labels = ["data/cse/labels/labels.parquet", "data/cse/labels/effects.parquet"]
        return [*CSE_SOURCES, *CSE_BASELINE, *labels, *start]
    return [
        *compiler_at(one.place),
        *corpus_at(one.place),
        *baseline_at(one.place),
        *expand("{folder}/{file}", folder=given, file=POLICY),
        *start,
    ]


def training_settings(wildcards):
    """What a training reads of its configuration."""
    one = training(wildcards)
    kind = ["cse"] if KIND == "choices" else COMPILER
    read = LEARNERS.get(one.learner).sections[KIND]
    return settings("task", "replay", *kind, *read, values=one.values)


def training_options(wildcards):
    one = training(wildcards)
    return (
        f"--start {shlex.quote(one.start)} {one.options}" if one.start else one.options
    )


def trained(folder, learner):
    """What a training leaves; failures where it compiles modules."""
    names = [*POLICY, "history.csv"]
    if KIND == "modules" and KIND in LEARNERS.get(learner).compiles:
        names.append("failures.parquet")
    return [f"{folder}/{name}" for name in names]


def tested_at(wildcards):
    """Place where a policy is tested."""
    if "point" in wildcards.keys():
        return place_of(home=swept().trainings[wildcards.point].home)
    return place_of(getattr(wildcards, "tested", "main"))


def timings_at(wildcards):
    """Folder for times, which are named by policy."""
    return (
        f"data/work/{'sweep' if 'point' in wildcards.keys() else tested_at(wildcards)}"
    )


def evaluation_settings(wildcards):
    """What an evaluation reads of the configuration; in a sweep policies are chosen by validation."""
    values = config_at(tested_at(wildcards))
    if "point" in wildcards.keys():
        values = swept().trainings[wildcards.point].config | {"seed": config["seed"]}
        values["evaluate"] = config["evaluate"] | {"splits": ["test", "validation"]}
    return settings(*COMPILER, "seed", "evaluate", values=values)


def folder_of(policy):
    """Folder of a policy, which is an input as a whole or by its files."""
    return policy if isinstance(policy, str) else str(Path(policy[0]).parent)
