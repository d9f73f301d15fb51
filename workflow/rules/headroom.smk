# Modules -> smaller code found by search. Not part of the default run: make headroom, or snakemake headroom.
if "SEALED_NAMES" not in globals():

    include: "places.smk"


rule headroom:
    input:
        "data/headroom/headroom.parquet",
        "data/headroom/headroom.html",


rule measure_headroom:
    input:
        corpus_at(""),
        baseline_at(""),
        script=source("scripts/measure_headroom.py"),
        code=code("scripts/measure_headroom.py"),
        policies=expand("data/policies/{policy}/{file}", policy=POLICIES, file=POLICY),
    output:
        "data/headroom/headroom.parquet",
    log:
        "data/work/logs/measure_headroom.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(2000, 300),
        runtime=minutes(720),
    params:
        config=settings(*COMPILER, "seed", "headroom", "replay"),
        policies=expand("data/policies/{policy}", policy=POLICIES),
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --policies {params.policies} "
        "--workers {threads} --output {output}"


rule report_headroom:
    input:
        script=source("scripts/report_headroom.py"),
        code=code("scripts/report_headroom.py"),
        templates=TEMPLATES,
        headroom="data/headroom/headroom.parquet",
        results="data/evaluation/results.parquet",
    output:
        "data/headroom/headroom.html",
    log:
        "data/work/logs/report_headroom.log",
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime=minutes(15),
    params:
        config=settings("compile.objective"),
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --headroom {input.headroom} "
        "--evaluation data/evaluation --output {output}"
