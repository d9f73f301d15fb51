# Modules -> reference scores, trace of the built-in heuristic, vocabulary.
include: "common.smk"


rule baseline:
    input:
        "data/baseline/scores.parquet",
        "data/baseline/functions.parquet",
        "data/baseline/copies.parquet",
        "data/baseline/trace.parquet",
        "data/baseline/vocabulary.parquet",
        "data/baseline/summary.json",


rule score_project:
    input:
        script="scripts/score_project.py",
        code=code("compiler", "corpus", "policy", "rollout", "tasks", "wire"),
        modules="data/corpus/modules.parquet",
        bitcode="data/corpus/projects/{project}.parquet",
    output:
        scores=temp("data/baseline/parts/{project}.scores.parquet"),
        trace=temp("data/baseline/parts/{project}.trace.parquet"),
        functions=temp("data/baseline/parts/{project}.functions.parquet"),
        copies=temp("data/baseline/parts/{project}.copies.parquet"),
    log:
        "data/work/logs/score_project/{project}.log",
    threads: 8
    resources:
        mem_mb=memory(500, 300),
        runtime=minutes(60),
    params:
        settings(
            **COMPILER,
            task=config["task"],
            seed=config["seed"],
            random_inline_share=config["baseline"]["random_inline_share"],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --project {wildcards.project} --corpus data/corpus {params} "
        "--workers {threads} --work data/work --scores {output.scores} --trace {output.trace} "
        "--functions {output.functions} --copies {output.copies}"


rule merge_baseline:
    input:
        script="scripts/merge_baseline.py",
        code=code("policy", "rollout"),
        modules="data/corpus/modules.parquet",
        parts=expand(
            "data/baseline/parts/{project}.{kind}.parquet",
            project=PROJECTS,
            kind=["scores", "functions", "trace", "copies"],
        ),
    output:
        "data/baseline/scores.parquet",
        "data/baseline/functions.parquet",
        "data/baseline/copies.parquet",
        "data/baseline/trace.parquet",
        "data/baseline/vocabulary.parquet",
        "data/baseline/summary.json",
    log:
        "data/work/logs/merge_baseline.log",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(15),
    params:
        settings(
            projects=PROJECTS,
            num_quantiles=config["baseline"]["num_quantiles"],
            max_failed_share=config["baseline"]["max_failed_share"],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --corpus data/corpus --parts data/baseline/parts "
        "{params} --output data/baseline"
