# Trace -> cloned policy -> policies that learned from compiles; those of generalisation and of a sweep are trained by the
# same rule, at their places.
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


rule train:
    input:
        [
            trained(f"data/{HOME}policies/{learner}-s{seed}", learner)
            for learner in config["train"]["algorithms"]
            for seed in config["train"]["seeds"]
        ],


# By rule: folder of the policies, and who learns.
TRAININGS = {
    "train_with": ("generalisation/policies/{learnt}-{train_set}-s{seed}", "marginal"),
    "train_point": ("sweep/policies/{point}-s{seed}", ""),
    **{
        f"train_{one}": (HOME + "policies/{learner}-s{seed}", one)
        for one in LEARNERS.names()
        if KIND in LEARNERS.get(one).sections
    },
}

for name, (folder, learner) in TRAININGS.items():

    rule:
        name:
            name
        input:
            training_input,
            script="scripts/train.py",
            code=code(
                "compiler",
                "corpus",
                "wire",
                "tasks",
                "policy",
                "execution/trees",
                "rollout",
                "learn",
                "problems",
            ),
        output:
            # A training of a sweep may leave a message instead of a policy: it counts as done, others go on.
            trained(f"data/{folder}", learner)
            if learner
            else directory(f"data/{folder}"),
        log:
            f"data/work/logs/{name}/{Path(folder).name}.log",
        wildcard_constraints:
            learner=learner,
        threads:
            lambda wildcards: (
                MANY_CORES
                if KIND in LEARNERS.get(training(wildcards).learner).compiles
                else 1
            )
        resources:
            mem_mb=memory(3000, 300),
            runtime=minutes(720),
        params:
            config=training_settings,
            learner=lambda wildcards: training(wildcards).learner,
            home=lambda wildcards: f"data/{training(wildcards).place}",
            options=training_options,
            output=f"data/{folder}",
            failure="" if learner else f"data/{folder}/failure.json",
        shell:
            "MLGO_LOG={log:q} MLGO_FAILURE={params.failure:q} exec python {input.script} {params.learner} --config {params.config} "
            "--seed {wildcards.seed} --home {params.home:q} {params.options} --workers {threads} --output {params.output:q}"
