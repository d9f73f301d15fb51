# What a sweep trains, and what each training needs.
include: "common.smk"


from functools import cache

from mlgo.experiments.matrix import expand as expand_sweep


wildcard_constraints:
    home=r"[\w.+=,-]+",
    compiling=r"(marginal|es|ppo|bcmax),[\w.+=,-]+",
    rest=r"[\w.+=,-]+",
    point=r"(bc|marginal|es|ppo|bcmax),[\w.+=,-]+",


@cache
def swept():
    """All trainings. Not before they are asked for, so that other targets do not mind a faulty sweep."""
    try:
        return expand_sweep(config)
    except ConfigError as error:
        raise WorkflowError(str(error)) from None


def home_folder(home):
    """Folder of a corpus and its baseline; those of the default run where nothing that they follow from is swept."""
    return f"data/sweep/homes/{home}" if home else "data"


def home_config(wildcards):
    return swept().homes[wildcards.home]


def projects_of(values):
    return sorted(
        project
        for projects in values["corpus"]["splits"].values()
        for project in projects
    )


def needs_of(training):
    """Corpus and baseline of a training."""
    home = home_folder(training.home)
    return [
        f"{home}/corpus/modules.parquet",
        *expand(
            "{home}/corpus/projects/{project}.parquet",
            home=home,
            project=projects_of(training.config),
        ),
        *expand(
            "{home}/baseline/{table}.parquet",
            home=home,
            table=["scores", "functions", "copies", "trace", "vocabulary"],
        ),
    ]


def compiler_settings(values, **options):
    """Command-line options of a program that compiles."""
    return settings(**{name: values[name] for name in COMPILER}, **options)


def start_of(wildcards):
    """Policy that a training starts from, and others that it is given."""
    training = swept().trainings[wildcards.compiling]
    start = (
        [f"data/sweep/policies/{training.start}-s{wildcards.seed}"]
        if training.start
        else []
    )
    given = training.config["bcmax"]["policies"] if training.learner == "bcmax" else []
    return [*start, *given]


def training_settings(wildcards):
    training = swept().trainings[wildcards.compiling]
    names = {"marginal": ["task", "bc", "marginal"]}.get(
        training.learner, [training.learner]
    )
    start = (
        {"start": f"data/sweep/policies/{training.start}-s{wildcards.seed}"}
        if training.start
        else {}
    )
    return compiler_settings(
        training.config,
        **{name: training.config[name] for name in [*names, "replay"]},
        **start,
    )
