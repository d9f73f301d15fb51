# Configuration and names that all stages share. Included by every rules file, so that each of them runs alone. Snakemake 9.27
# reads a file anew at each include, so a file is included only where a name that it defines is not known yet.
import json
import os
import shutil
import sys
from contextlib import chdir
from functools import cache
from pathlib import Path

# In a checkout these rules run the code of this working copy, wherever the installed package comes from: an experiment of DVC
# runs in a copy, and what is edited after it was queued must not change it. In a repository of others (mlgo init) they lie in
# the installed package, and run its code. The environment is this Python's, whether or not it is activated.
IN_CHECKOUT = (
    Path(workflow.current_basedir).resolve() == Path("workflow/rules").resolve()
)
own = [str(Path.cwd())] if IN_CHECKOUT else []
sys.path[:0] = own
os.environ.update(
    PYTHONPATH=os.pathsep.join([*own, *filter(None, [os.getenv("PYTHONPATH")])]),
    PATH=os.pathsep.join(
        [str(Path(sys.executable).parent), os.getenv("PATH", os.defpath)]
    ),
)
if not IN_CHECKOUT:
    for folder in (".snakemake", "data/work"):  # Git need not see them
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, ".gitignore").write_text("*\n")

import mlgo
from import_graph import TASKS, ImportGraph, write_hashes
from mlgo.base.config import (
    merge,
    package_config,
    parse_config,
    read_yaml,
    write_settings,
)
from mlgo.errors import ConfigError
from mlgo.base.files import file_sha256
from mlgo.base.names import LANGUAGES
from mlgo.base.registry import LEARNERS
from mlgo.base.registry import PROBLEMS
from mlgo.base.sealed import check_corpus
from mlgo.host.tasks.ir2vec import keep_vocabulary
from mlgo.host.tasks.task import get_task


configfile: "config/config.yaml"


# What --config says of a look at a sealed test set (sealed.smk): the policy, the reason, the forms, the set. No setting of the
# pipeline.
LOOK = {key: config.pop(key, None) or "" for key in ("look", "reason", "ships", "set")}
LOOK["reason"] = LOOK["reason"] or os.getenv("MLGO_REASON", "")
LOOK["set"] = LOOK["set"] or "sealed"

try:
    # With the defaults of learners of other packages, which may leave their section out; in a repository of others, with those
    # of the package.
    parsed = parse_config(config if IN_CHECKOUT else merge(package_config(), config))
    check_corpus(parsed)
    config.update(parsed.model_dump())
    # What the default run learns on: modules, with the stages of corpus.smk and baseline.smk, or choices, with those of cse.smk.
    KIND = PROBLEMS.get(config["task"]).kind
    if KIND == "modules":
        get_task(config["task"]).check_objective(config["compile"]["objective"])
        get_task(config["task"]).ir2vec(config["compile"]["ir2vec"])
        get_task(config["task"]).check_told(config["compile"]["tell_heuristic"])
except ConfigError as error:
    raise WorkflowError(str(error)) from None

# Where compiles run changes no result: it is no parameter of a rule, so that a change of it reruns nothing.
os.environ.update(MLGO_WORKERS=json.dumps(config["workers"]))

PROJECTS = sorted(
    project for projects in config["corpus"]["splits"].values() for project in projects
)
POLICIES = [
    f"{algorithm}-s{seed}"
    for algorithm in config["train"]["algorithms"]
    for seed in config["train"]["seeds"]
]
# No exported model takes what LLVM's own models are not given.
EXPORTED = (
    []
    if config["compile"]["ir2vec"] or config["compile"]["tell_heuristic"]
    else POLICIES
)

# Programs that run, and what became of them: part of every evaluation, or on request.
PROGRAM_RECIPES = config["evaluate"]["programs"] or "config/programs"
PROGRAMS_TABLE = (
    "data/evaluation/programs.parquet"
    if config["evaluate"]["programs"]
    else "data/execution/programs.parquet"
)

# What programs read of a policy.
POLICY = ["policy.json", "weights.npy"]


wildcard_constraints:
    project=r"[\w.+@-]+",
    seed=r"\d+",
    policy=r"[a-z][a-z0-9]*-s\d+",


def settings(*keys, values=config):
    """File with these settings, for a program's --config. Its name says what they are: as a parameter it reruns a rule
    when one of them changes. What a rule does not name here, its program cannot read.
    """
    # A vocabulary goes by its content, so that another one in the same file reruns what read it.
    vocabulary = keep_vocabulary(values["compile"]["ir2vec"], Path("data/work/ir2vec"))
    values = merge(values, {"compile": {"ir2vec": vocabulary}})
    return str(write_settings(Path("data/work/config"), values, *keys))


# The folder with mlgo/; an installed package has scripts/ inside of mlgo/.
ROOT = Path() if IN_CHECKOUT else Path(mlgo.__file__).parents[1]


def inside(path):
    return path if IN_CHECKOUT or path.startswith("mlgo/") else f"mlgo/{path}"


def source(path):
    """A program of scripts/ or a file of mlgo/: of the working copy, or of the package that these rules lie in."""
    return str(ROOT / inside(path))


def templates(package):
    """Files of a part of mlgo that are no Python."""
    files = Path(source(f"mlgo/{package}")).glob("*.*")
    return sorted(str(path) for path in files if path.suffix != ".py")


TEMPLATES = templates("report")


IMPORTS = ImportGraph(Path("data/work/imports.json").absolute())


@cache
def code(program, learner=""):
    """Hashes of the files of mlgo that a program imports, and of the lock file; of the learners only the one that is named.
    One input, not sixty: Snakemake looks at all inputs of all jobs that are ready each time a job ends.
    """
    registered = [TASKS, *(f"mlgo.learn.{learner}{end}" for end in ".:" if learner)]
    hashes = Path("data/work/code", Path(program).stem, f"{learner or 'all'}.json")
    with chdir(ROOT):
        files = IMPORTS.files(inside(program), registered)
    locked = ["requirements.lock"] if IN_CHECKOUT else []
    return [write_hashes(hashes, [*files, *locked], ROOT)]


def programs_sha256(wildcards):
    """Hash of the table of programs that ran; empty where there is none. Without evaluate.programs it is no input, as
    nobody has to run programs for a report, but the report is made anew when it changes.
    """
    return sha256_of(PROGRAMS_TABLE)


def policy_sha256(wildcards):
    """Hash of a policy that is no input, as nobody has to train for it; a new one is tried anew."""
    return sha256_of(f"data/policies/{wildcards.policy}/weights.npy")


def sha256_of(path):
    return file_sha256(Path(path)) if Path(path).exists() else ""


# Threads of a job that compiles much, at most: three seeds or policies share 96 cores. Where other machines or a server
# compile, the job itself only hands out work.
MANY_CORES = 1 if config["workers"]["kind"] in ("ray", "nested") else 32

# `--unlock` and `--list-rules` are called without `--cores`, and `workflow.cores` would refuse that.
CORES = 64 if workflow.remote_exec else workflow.resource_settings.cores or 64

# Threads of a job for one project, at most: on few cores, projects side by side leave no core idle while the last large
# module of one of them compiles. A job of a cluster has cores of its own.
PROJECT_CORES = min(8, max(1, CORES // 8))


def memory(program, per_thread=0):
    """Resource mem_mb: of the program itself, and of each worker with its compiler; more with each attempt.

    The figures are well above what `python -m benchmarks.cores` measured; both are in docs/clusters.md.
    """
    return lambda wildcards, threads, attempt: attempt * (
        program + per_thread * threads
    )


def minutes(most):
    """Resource runtime: many times what the default corpus takes, as other corpora are larger; more with each attempt."""
    return lambda wildcards, attempt: attempt * most


# What every program that compiles needs to know.
COMPILER = ["toolchain", "target", "compile"]
# What `mlgo evaluate` reads, without a search.
EVALUATE = [*COMPILER, "seed", "evaluate"]
