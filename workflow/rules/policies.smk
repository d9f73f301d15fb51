# What trainings and evaluations read: of the default run, of further compilers and of a sweep.
if "SEALED_NAMES" not in globals():

    include: "places.smk"


import shlex
from typing import NamedTuple

TRAIN_SETS = config["generalisation"]["train_sets"]
# Folder of policies, corpus and baseline beneath data/.
HOME = place_of()


class Training(NamedTuple):
    """A training: who learns, under which configuration, where, from which policy (its folder; empty for none), and of a
    trial the batch that it was chosen in.
    """

    learner: str
    values: dict
    place: str = ""
    start: str = ""
    options: str = ""
    batch: list = []


def modules_of(values):
    """Options that hold a training to some modules; none where it learns from all."""
    languages, least = values["train"]["languages"], values["train"]["min_questions"]
    if kind_of(values) != "modules":
        return ""
    options = [f"--min-questions {least}"] if least > 1 else []
    if values["train"]["draw"] == "projects":
        options.append("--by-project")
    if set(languages) != set(LANGUAGES):
        options.append(f"--languages {' '.join(languages)}")
    return " ".join(options)


def training(wildcards):
    """The training that a policy's wildcards stand for."""
    if "point" in wildcards.keys():
        one = swept().trainings[wildcards.point]
        start = (
            f"data/sweep/policies/{one.start}-s{wildcards.seed}" if one.start else ""
        )
        place = place_of(home=one.home, values=one.config)
        batch = batch_of(wildcards.point)
        limits = f"--limits {batch[0]} " if batch else ""
        options = limits + modules_of(one.config)
        return Training(one.learner, one.config, place, start, options, batch)
    if "learnt" in wildcards.keys():
        place, modules = place_of(wildcards.learnt), TRAIN_SETS[wildcards.train_set]
        marginal = config["marginal"] | {"modules": modules["modules"]}
        languages = f"--languages {' '.join(modules['languages'])}"
        values = config_at(place) | {"marginal": marginal}
        return Training("marginal", values, place, options=languages)
    start = LEARNERS.get(wildcards.learner).start(config)
    folder = f"data/{HOME}policies/{start}-s{wildcards.seed}" if start else ""
    return Training(wildcards.learner, config, HOME, folder, modules_of(config))


def training_code(wildcards):
    """What a training runs."""
    one = training(wildcards)
    return code("scripts/train.py", one.learner)


def training_input(wildcards):
    """What a training reads: corpus and baseline, the policy that it goes on from, and others that it is given."""
    one = training(wildcards)
    given = one.values["bcmax"]["policies"] if one.learner == "bcmax" else []
    if one.learner == "marginal" and one.values["marginal"]["start"]:
        given = [one.values["marginal"]["start"]]
    start = [one.start] if one.start else []
    if "point" not in wildcards.keys():  # where a folder is not one output
        start = expand("{folder}/{file}", folder=start, file=POLICY)
    if kind_of(one.values) == "choices":
        return [*choices_at(one.place), *labels_at(one.place), *start, *one.batch]
    return [
        *compiler_at(one.place),
        *corpus_at(one.place),
        *baseline_at(one.place),
        *expand("{folder}/{file}", folder=given, file=POLICY),
        *start,
        *one.batch,
    ]


def training_settings(wildcards):
    """What a training reads of its configuration."""
    one = training(wildcards)
    kind = kind_of(one.values)
    read = LEARNERS.get(one.learner).sections[kind]
    compiler = ["cse"] if kind == "choices" else COMPILER
    return settings("task", "replay", *compiler, *read, values=one.values)


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
        one = swept().trainings[wildcards.point]
        return place_of(home=one.home, values=one.config)
    return place_of(getattr(wildcards, "tested", "main"))


def timings_at(wildcards):
    """Folder for times, which are named by policy; choices leave none and share what is known of units."""
    if kind_of(evaluation_values(wildcards)) == "choices":
        return "data/work"
    return (
        f"data/work/{'sweep' if 'point' in wildcards.keys() else tested_at(wildcards)}"
    )


def evaluation_values(wildcards):
    """The configuration of an evaluation; in a sweep policies are chosen by validation."""
    if "point" not in wildcards.keys():
        return config_at(tested_at(wildcards))
    values = swept().trainings[wildcards.point].config | {"seed": config["seed"]}
    # A study must not even know what its trials gain on the test projects.
    splits = ["validation"] if is_study() else ["test", "validation"]
    values["evaluate"] = config["evaluate"] | {"splits": splits}
    return values


def evaluation_settings(wildcards):
    """What an evaluation reads of the configuration."""
    values = evaluation_values(wildcards)
    if kind_of(values) == "choices":
        return settings("task", "cse", "evaluate.splits", "replay", values=values)
    return settings(*COMPILER, "seed", "evaluate", values=values)


def evaluation_program(wildcards):
    """The program that evaluates, by what the task learns on."""
    kind = kind_of(evaluation_values(wildcards))
    return f"scripts/evaluate_{'cse' if kind == 'choices' else 'policy'}.py"


def evaluation_script(wildcards):
    return source(evaluation_program(wildcards))


def evaluation_code(wildcards):
    """What that program runs."""
    return code(evaluation_program(wildcards))


def evaluation_input(wildcards):
    """What a policy is tested on."""
    place = tested_at(wildcards)
    if kind_of(evaluation_values(wildcards)) == "choices":
        return choices_at(place)
    return [
        *compiler_at(place),
        *corpus_at(place),
        *programs_at(place),
        *(seen_at(place) if "policy" in wildcards.keys() else []),
        *baseline_at(place),
    ]


def folder_of(policy):
    """Folder of a policy, which is an input as a whole or by its files."""
    return policy if isinstance(policy, str) else str(Path(policy[0]).parent)
