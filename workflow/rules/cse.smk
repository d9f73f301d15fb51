# Choice of redundancy eliminations: recorded methods -> baselines -> labels -> report, at every place of choices.
# train.smk and evaluate.smk have what lies between. What make does for tasks that choose among candidates.
if "SEALED_NAMES" not in globals():

    include: "places.smk"


rule cse:
    input:
        "data/cse/report/report.html",


rule enumerate_cse:
    input:
        script=source("scripts/enumerate_cse.py"),
        code=code("scripts/enumerate_cse.py"),
    output:
        expand(
            "data/{{place}}baseline/{file}.parquet",
            file=["units", "compiles", "candidates"],
        ),
        "data/{place}baseline/summary.json",
    log:
        "data/work/logs/{place}enumerate_cse.log",
    wildcard_constraints:
        place=CHOICE_PLACE,
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
    params:
        config=lambda wildcards: settings(
            "task",
            "seed",
            "cse",
            "replay",
            values=config_at(wildcards.place),
        ),
    shell:
        "MLGO_LOG={log:q} exec python {input.script:q} --config {params.config} --home data/{wildcards.place:q} "
        "--workers {threads} --output data/{wildcards.place:q}baseline"


rule label_cse:
    input:
        lambda wildcards: choices_at(wildcards.place),
        script=source("scripts/label_cse.py"),
        code=code("scripts/label_cse.py"),
    output:
        labels_at("{place}"),
    log:
        "data/work/logs/{place}label_cse.log",
    wildcard_constraints:
        place=CHOICE_PLACE,
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(720),
    params:
        config=lambda wildcards: settings(
            "task", "seed", "cse", "replay", values=config_at(wildcards.place)
        ),
    shell:
        "MLGO_LOG={log:q} exec python {input.script:q} --config {params.config} --home data/{wildcards.place:q} "
        "--workers {threads} --output data/{wildcards.place:q}labels"


rule report_cse:
    input:
        script=source("scripts/report_cse.py"),
        code=code("scripts/report_cse.py"),
        templates=TEMPLATES,
        baseline=lambda wildcards: choices_at("cse/"),
        labels="data/cse/labels/labels.parquet",
        evaluation=expand("data/cse/evaluation/{policy}.parquet", policy=POLICIES),
        histories=expand("data/cse/policies/{policy}/history.csv", policy=POLICIES),
    output:
        "data/cse/report/report.html",
        "data/cse/report/comparisons.json",
        "data/cse/report/metrics.json",
        "data/cse/report/ratios.csv",
    log:
        "data/work/logs/report_cse.log",
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime=minutes(15),
    params:
        config=settings("task", "seed", "evaluate"),
        policies=expand("data/cse/policies/{policy}", policy=POLICIES),
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --baseline data/cse/baseline --labels {input.labels} "
        "--policies {params.policies} --evaluation {input.evaluation} --output data/cse/report"
