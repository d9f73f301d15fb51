# Modules -> reference scores, trace of the built-in heuristic, vocabulary, at every place.
if "SEALED_NAMES" not in globals():

    include: "places.smk"


rule baseline:
    input:
        baseline_at(""),
        "data/baseline/summary.json",


rule score_project:
    input:
        lambda wildcards: compiler_at(wildcards.place),
        script=source("scripts/score_project.py"),
        code=code("scripts/score_project.py"),
        modules="data/{place}corpus/modules.parquet",
        bitcode="data/{place}corpus/projects/{project}.parquet",
    output:
        scores=temp("data/{place}baseline/parts/{project}.scores.parquet"),
        trace=temp("data/{place}baseline/parts/{project}.trace.parquet"),
        functions=temp("data/{place}baseline/parts/{project}.functions.parquet"),
        copies=temp("data/{place}baseline/parts/{project}.copies.parquet"),
    log:
        "data/work/logs/{place}score_project/{project}.log",
    threads: PROJECT_CORES
    resources:
        mem_mb=memory(500, 300),
        runtime=minutes(60),
    params:
        config=lambda wildcards: settings(
            *COMPILER,
            "task",
            "seed",
            "baseline.references",
            "baseline.random_inline_share",
            values=config_at(wildcards.place),
        ),
    shell:
        "MLGO_LOG={log:q} exec python {input.script:q} --config {params.config} --project {wildcards.project} "
        "--home data/{wildcards.place:q} --workers {threads} --work data/work/{wildcards.place:q} "
        "--scores {output.scores:q} --trace {output.trace:q} --functions {output.functions:q} --copies {output.copies:q}"


rule merge_baseline:
    input:
        script=source("scripts/merge_baseline.py"),
        code=code("scripts/merge_baseline.py"),
        modules="data/{place}corpus/modules.parquet",
        parts=lambda wildcards: expand(
            "data/{place}baseline/parts/{project}.{kind}.parquet",
            place=wildcards.place,
            project=projects_at(wildcards.place),
            kind=["scores", "functions", "trace", "copies"],
        ),
    output:
        baseline_at("{place}"),
        "data/{place}baseline/summary.json",
    log:
        "data/work/logs/{place}merge_baseline.log",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(15),
    params:
        config=lambda wildcards: settings(
            "corpus.splits",
            "baseline.num_quantiles",
            "baseline.max_failed_share",
            values=config_at(wildcards.place),
        ),
    shell:
        "MLGO_LOG={log:q} exec python {input.script:q} --config {params.config} --corpus data/{wildcards.place:q}corpus "
        "--parts data/{wildcards.place:q}baseline/parts --output data/{wildcards.place:q}baseline"
