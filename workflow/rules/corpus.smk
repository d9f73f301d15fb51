# Sources -> bitcode -> corpus with splits, at every place.
if "SEALED_NAMES" not in globals():

    include: "places.smk"


rule corpus:
    input:
        "data/corpus/modules.parquet",
        "data/corpus/programs.parquet",
        "data/corpus/summary.json",
        *seen_at(""),


rule build_project:
    input:
        local_sources,
        lambda wildcards: compiler_at(wildcards.place),
        script=source("scripts/build_project.py"),
        code=code("scripts/build_project.py"),
        recipe=recipe_at,
    output:
        modules="data/{place}corpus/projects/{project}.parquet",
        programs="data/{place}corpus/programs/{project}.parquet",
    log:
        "data/work/logs/{place}build_project/{project}.log",
    threads: PROJECT_CORES
    resources:
        mem_mb=memory(300, 200),
        runtime=minutes(30),
        disk_mb=2000,
    params:
        config=lambda wildcards: settings(
            *COMPILER,
            "task",
            "seed",
            "corpus.max_modules_per_project",
            "corpus.max_failed_share",
            "corpus.max_merged_instructions",
            "corpus.own_profile",
            *program_settings(wildcards.place),
            values=config_at(wildcards.place),
        ),
    shell:
        "MLGO_LOG={log:q} exec python {input.script:q} --config {params.config} --project {wildcards.project} "
        "--recipe {input.recipe} --threads {threads} --output {output.modules:q} --programs {output.programs:q}"


rule assemble_corpus:
    input:
        script=source("scripts/assemble_corpus.py"),
        code=code("scripts/assemble_corpus.py"),
        projects=lambda wildcards: corpus_at(wildcards.place)[1:],
        programs=lambda wildcards: expand(
            "data/{place}corpus/programs/{project}.parquet",
            place=wildcards.place,
            project=projects_at(wildcards.place),
        ),
    output:
        "data/{place}corpus/modules.parquet",
        "data/{place}corpus/programs.parquet",
        "data/{place}corpus/summary.json",
    log:
        "data/work/logs/{place}assemble_corpus.log",
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime=minutes(15),
    params:
        config=lambda wildcards: settings(
            "corpus.splits", values=config_at(wildcards.place)
        ),
    shell:
        "MLGO_LOG={log:q} exec python {input.script:q} --config {params.config} --corpus data/{wildcards.place:q}corpus"


rule find_seen:
    input:
        script=source("scripts/find_seen.py"),
        code=code("scripts/find_seen.py"),
        corpus=lambda wildcards: corpus_at(wildcards.place),
        programs=lambda wildcards: programs_at(wildcards.place),
    output:
        "data/{place}corpus/seen.parquet",
        "data/{place}corpus/trained.parquet",
    log:
        "data/work/logs/{place}find_seen.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 100),
        runtime=minutes(60),
    params:
        config=lambda wildcards: settings(*COMPILER, values=config_at(wildcards.place)),
    shell:
        "MLGO_LOG={log:q} exec python {input.script:q} --config {params.config} --corpus data/{wildcards.place:q}corpus "
        "--threads {threads}"
