# Choice of redundancy eliminations: sources or recorded methods -> baselines -> labels -> policies -> evaluation -> report.
# What make does for tasks that choose among candidates.
include: "common.smk"


# What all programs of this file run.
CSE_CODE = code(
    "compiler", "corpus", "execution", "actions", "policy", "problems", "problems/llvm"
)


rule cse:
    input:
        "data/cse/report/report.html",


rule build_cse_sources:
    input:
        script="scripts/build_cse_sources.py",
        code=CSE_CODE,
        recipes=expand(
            "{folder}/{project}.yaml",
            folder=config["corpus"]["recipes"],
            project=PROJECTS,
        ),
    output:
        "data/cse/corpus/sources.parquet",
    log:
        "data/work/logs/build_cse_sources.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(500, 200),
        runtime=minutes(60),
        disk_mb=2000,
    params:
        config=settings("seed", "cse", "corpus"),
    shell:
        "MLGO_LOG={log} exec python {input.script} --config {params.config} --workers {threads} --output {output}"


rule enumerate_cse:
    input:
        script="scripts/enumerate_cse.py",
        code=CSE_CODE,
        sources=CSE_SOURCES,
    output:
        *CSE_BASELINE,
        "data/cse/baseline/summary.json",
    log:
        "data/work/logs/enumerate_cse.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
    params:
        config=settings("task", "seed", "cse", "corpus", "replay"),
        sources=lambda wildcards, input: (
            f"--sources {input.sources}" if input.sources else ""
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --config {params.config} {params.sources} --workers {threads} "
        "--output data/cse/baseline"


rule label_cse:
    input:
        script="scripts/label_cse.py",
        code=CSE_CODE,
        sources=CSE_SOURCES,
        baseline=CSE_BASELINE,
    output:
        "data/cse/labels/labels.parquet",
        "data/cse/labels/effects.parquet",
    log:
        "data/work/logs/label_cse.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(720),
    params:
        config=settings("task", "seed", "cse", "replay"),
        sources=lambda wildcards, input: (
            f"--sources {input.sources}" if input.sources else ""
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --config {params.config} {params.sources} --workers {threads} "
        "--baseline data/cse/baseline --output data/cse/labels"


rule evaluate_cse:
    input:
        script="scripts/evaluate_cse.py",
        code=CSE_CODE,
        sources=CSE_SOURCES,
        baseline=CSE_BASELINE,
        policy="data/cse/policies/{policy}/weights.npy",
    output:
        "data/cse/evaluation/{policy}.parquet",
    log:
        "data/work/logs/evaluate_cse-{policy}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
    params:
        config=settings("task", "cse", "evaluate.splits", "replay"),
        sources=lambda wildcards, input: (
            f"--sources {input.sources}" if input.sources else ""
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --config {params.config} {params.sources} --workers {threads} "
        "--baseline data/cse/baseline --policy data/cse/policies/{wildcards.policy} --output {output}"


rule report_cse:
    input:
        script="scripts/report_cse.py",
        code=code("experiments", "report"),
        templates=TEMPLATES,
        baseline=CSE_BASELINE,
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
        "MLGO_LOG={log} exec python {input.script} --config {params.config} --baseline data/cse/baseline --labels {input.labels} "
        "--policies {params.policies} --evaluation {input.evaluation} --output data/cse/report"
