# Policies on other languages and under other compilers. Not part of the default run: make generalisation.
if "SEALED_NAMES" not in globals():

    include: "places.smk"


LINEAGES = [
    (learnt, train_set, tested)
    for learnt in COMPILERS
    for train_set in config["generalisation"]["train_sets"]
    for tested in COMPILERS
    if train_set == config["generalisation"]["across"] or learnt == tested == "main"
]


rule generalisation:
    input:
        "data/generalisation/results.parquet",


rule fetch_compiler:
    input:
        script=source("scripts/fetch_compiler.py"),
        code=code("scripts/fetch_compiler.py"),
    output:
        "data/work/compilers/{wheel}/ziglang/zig",
    log:
        "data/work/logs/fetch_compiler/{wheel}.log",
    threads: 1
    resources:
        mem_mb=memory(500),
        runtime=minutes(30),
        disk_mb=2000,
    params:
        config=lambda wildcards: settings(f"generalisation.compilers.{wildcards.wheel}"),
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --compiler {wildcards.wheel} "
        "--downloads data/work/sdists --output {output}"


rule merge_generalisation:
    input:
        script=source("scripts/merge_generalisation.py"),
        code=code("scripts/merge_generalisation.py"),
        parts=[
            f"data/generalisation/parts/{learnt}-{train_set}-s{seed}.{tested}.parquet"
            for learnt, train_set, tested in LINEAGES
            for seed in config["train"]["seeds"]
        ],
    output:
        "data/generalisation/results.parquet",
    log:
        "data/work/logs/merge_generalisation.log",
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime=minutes(15),
    params:
        config=settings("evaluate", "seed"),
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --parts {input.parts} "
        "--policies data/generalisation/policies --output {output}"
