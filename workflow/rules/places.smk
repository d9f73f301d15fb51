# Places of a corpus and its baseline: data/ of the default run, data/generalisation/<compiler>/ of each further compiler,
# data/sweep/homes/<home>/ of each point of a sweep that needs its own, data/trial/ of single projects (trial.smk), data/sealed/
# of the sealed test set, data/sealed-rust/ of the one in Rust (sealed.smk). The rules that fill them are the same. What belongs
# to choices lies in the folder cse/ of a place.
if "KIND" not in globals():

    include: "common.smk"


from mlgo.base.names import ProjectName
from mlgo.base.sealed import load_sealed, sealed_sets
from mlgo.research.matrix import expand as expand_sweep
from mlgo.research.matrix import study_name
from mlgo.research.study import batch_path, check_optuna, read_asked

# Sealed test sets are built whole, of sources, whatever the configuration says of the corpus.
SEALED_NAMES = {name: load_sealed(path).names for name, path in sealed_sets().items()}
SEALED_CORPORA = {
    name: {
        "recipes": str(path.with_suffix("")),
        "splits": {"test": SEALED_NAMES[name]},
        "max_modules_per_project": 1_000_000,
    }
    for name, path in sealed_sets().items()
}

# Further compilers by name, and all; main is that of the default run.
WHEELS = config["generalisation"]["compilers"]
COMPILERS = ["main", *WHEELS]


CHOICE_PLACE = r"(sweep/homes/[\w.+=,-]+/)?cse/"


wildcard_constraints:
    place=r"(generalisation/llvm\d+/|sweep/homes/[\w.+=,-]+/|trial/|sealed(-\w+)?/)?",
    wheel=r"llvm\d+",
    learnt=r"main|llvm\d+",
    tested=r"main|llvm\d+",
    train_set=r"[a-z0-9+]+",
    point=r"[a-z][a-z0-9]*,[\w.+=,-]+",


def swept(num_trials=None):
    """All trainings of the sweep, of a study those of its first trials, or of all that are chosen. Not before they are
    asked for, so that other targets do not mind a faulty sweep.
    """
    trials = read_asked(Path(study())) if is_study() else []
    return expanded(json.dumps(trials[:num_trials]))


@cache
def expanded(trials):
    try:
        if is_study():
            check_optuna()
        return expand_sweep(config, json.loads(trials))
    except ConfigError as error:
        raise WorkflowError(str(error)) from None


def is_study():
    """Whether trials of the sweep follow from earlier ones."""
    return config["sweep"]["sampler"] != "grid"


@cache
def study():
    """Folder of the batches of a study; another one for other settings."""
    return f"data/sweep/study/{study_name(config)}"


def chosen(num_batches):
    """All trainings of a sweep; of a study those of so many batches, once these have been chosen."""
    if is_study():
        for batch in range(num_batches):
            checkpoints.ask_trials.get(study=Path(study()).name, batch=batch)
    return swept(num_batches * config["sweep"]["parallel"])


def all_batches():
    return -(-config["sweep"]["trials"] // config["sweep"]["parallel"])


def trial_folders(kind):
    """Policies or results of the batches before one."""
    return lambda wildcards: expand(
        f"data/sweep/{kind}/{{policy}}", policy=chosen(int(wildcards.batch)).policies
    )


def point_folders(kind):
    """Policies or results of all points."""
    return lambda wildcards: expand(
        f"data/sweep/{kind}/{{policy}}", policy=chosen(all_batches()).policies
    )


def batch_of(point):
    """File of the batch that a trial was chosen in; of the first, if it was chosen again. None for what is no trial."""
    trials = swept().trials
    if point not in trials:
        return []
    batch = trials.index(point) // config["sweep"]["parallel"]
    return [str(batch_path(Path(study()), batch))]


def zig(wheel):
    return f"data/work/compilers/{wheel}/ziglang/zig"


def place_of(compiler="main", home="", values=config):
    """Place of what a compiler made, or of what a sweep calls home, for the task of a configuration."""
    area = "" if compiler == "main" else f"generalisation/{compiler}/"
    area = f"sweep/homes/{home}/" if home else area
    return f"{area}cse/" if kind_of(values) == "choices" else area


def kind_of(values):
    """What a configuration's task learns on."""
    return PROBLEMS.get(values["task"]).kind


def config_at(place):
    """The configuration under which a place is filled."""
    *area, name = Path(place.removesuffix("cse/")).parts or ("",)
    if area == ["sweep", "homes"]:
        return swept().homes[name]
    if not area and name in SEALED_CORPORA:
        compiling = config["compile"] | {
            "ships": config["compile"]["ships"] | {"form": "objects"}
        }
        return config | {
            "compile": compiling,
            "corpus": config["corpus"] | SEALED_CORPORA[name],
        }
    return config | {"toolchain": zig(name)} if area == ["generalisation"] else config


def program_settings(place):
    """What is read besides where each project is a program that runs."""
    is_program = config_at(place)["compile"]["ships"]["form"] == "program"
    return ["corpus.max_program_growth"] if is_program else []


def compiler_at(place):
    """What must be there to compile. When it was unpacked does not matter: its content is pinned."""
    return (
        [ancient(config_at(place)["toolchain"])]
        if place.startswith("generalisation/")
        else []
    )


def projects_at(place):
    return sorted(sum(config_at(place)["corpus"]["splits"].values(), []))


def recipe_at(wildcards):
    """Recipe of a project."""
    recipe = ProjectName.of(wildcards.project).recipe
    return f"{config_at(wildcards.place)['corpus']['recipes']}/{recipe}.yaml"


def local_sources(wildcards):
    """Sources of a project that lies in the checkout, or what was captured of its build; a fetched one is pinned by its
    recipe."""
    path = Path(recipe_at(wildcards))
    recipe = read_yaml(path) if path.exists() else {}
    if recipe.get("captured"):
        return [
            f"{recipe['captured']}/{kind}.parquet" for kind in ("project", "programs")
        ]
    folders = [recipe["path"]] if recipe.get("path") else []
    folders += [Path(recipe["driver"]).parent] if recipe.get("driver") else []
    files = [path for folder in folders for path in Path(folder).rglob("*.*")]
    return sorted({*map(str, files), *filter(None, [recipe.get("base")])})


def corpus_at(place):
    """All files of a corpus."""
    return [
        f"data/{place}corpus/modules.parquet",
        *(
            f"data/{place}corpus/projects/{project}.parquet"
            for project in projects_at(place)
        ),
    ]


def programs_at(place):
    """What is linked of a corpus."""
    return [f"data/{place}corpus/programs.parquet"]


def seen_at(place):
    """What of the functions that are not trained on was seen in training, and what is trained on."""
    return expand(
        "data/{place}corpus/{table}.parquet", place=place, table=["seen", "trained"]
    )


def tried_tables(wildcards):
    """Tables of a captured project, which lie in its folder, or of one that a recipe makes."""
    folder = Path(wildcards.tried)
    if folder.parent != Path("data/trial"):
        return [f"{folder}/{kind}.parquet" for kind in ("project", "programs")]
    return [
        f"data/trial/corpus/{kind}/{folder.name}.parquet"
        for kind in ("projects", "programs")
    ]


def shown_policy(wildcards):
    """A policy of this working copy, else a released one."""
    own = f"data/policies/{wildcards.policy}"
    return own if Path(own).exists() else f"data/released/{wildcards.policy}"


def check_sealed(name):
    """The name of a sealed set, if there is one with projects."""
    if not SEALED_NAMES.get(str(name)):
        there = ", ".join(SEALED_NAMES) or "none"
        raise WorkflowError(f"set={name} has no projects; there are {there}")
    return name


def sealed_tables(kind, name):
    """Tables of all projects of a sealed set."""
    projects = SEALED_NAMES[check_sealed(name)]
    return [f"data/{name}/corpus/{kind}/{project}.parquet" for project in projects]


def sealed_languages(wildcards):
    """What the policy is asked in: languages of which the set has projects, of C and C++ both."""
    found = {
        one.language for one in load_sealed(sealed_sets()[wildcards.sealed]).projects
    }
    return ",".join(sorted(found | ({"c", "c++"} if found & {"c", "c++"} else set())))


def looks(wildcards):
    """Pages of a look at a policy, one for each record of what ships."""
    chosen = check_sealed(LOOK["set"])
    if not all(isinstance(LOOK[key], str) and LOOK[key] for key in ("look", "reason")):
        raise WorkflowError(
            f"a look at the sealed test set needs a policy and a reason in words, without a colon; docs/{chosen}-looks.md "
            'keeps it: snakemake sealed --config look=marginal-s0 reason="..."'
        )
    records = LOOK["ships"].split() or [config["compile"]["ships"]["form"]]
    return expand(
        "data/{sealed}/evaluation/{policy}/{ships}/report.html",
        sealed=chosen,
        policy=LOOK["look"],
        ships=records,
    )


def choices_at(place):
    """Baseline of a task that chooses among candidates."""
    tables = ["units", "compiles", "candidates"]
    return expand("data/{place}baseline/{file}.parquet", place=place, file=tables)


def labels_at(place):
    """What the search for choices has found."""
    return [f"data/{place}labels/labels.parquet", f"data/{place}labels/effects.parquet"]


def baseline_at(place):
    """All tables of a baseline."""
    names = ["scores", "functions", "copies", "trace", "vocabulary"]
    return [f"data/{place}baseline/{name}.parquet" for name in names]
