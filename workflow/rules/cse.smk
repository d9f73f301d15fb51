# Choice of redundancy eliminations: sources or recorded methods -> baselines -> labels -> policies -> evaluation -> report.
# What make does for tasks that choose among candidates.
include: "common.smk"


CSE_POLICIES = [
    policy
    for policy in POLICIES
    if policy.split("-")[0] in ("bc", "marginal", "es", "ppo", "sb3")
]
# What every program knows; jit-cse has no table of sources.
CSE = {"task": config["task"], "cse": config["cse"], "seed": config["seed"]}
CSE_SOURCES = (
    ["data/cse/corpus/sources.parquet"]
    if CHOOSES and PROBLEMS.get(config["task"]).needs_sources
    else []
)
CSE_BASELINE = expand(
    "data/cse/baseline/{file}.parquet", file=["units", "compiles", "candidates"]
)


# What all programs of this file run.
CSE_CODE = code("compiler", "corpus", "policy", "problems", "tasks")


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
        settings(seed=config["seed"], cse=config["cse"], corpus=config["corpus"]),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params} --workers {threads} --work data/work --output {output}"


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
        settings=settings(**CSE, corpus=config["corpus"]),
        sources=lambda wildcards, input: (
            f"--sources {input.sources}" if input.sources else ""
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params.settings} {params.sources} --workers {threads} "
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
        settings=settings(**CSE),
        sources=lambda wildcards, input: (
            f"--sources {input.sources}" if input.sources else ""
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params.settings} {params.sources} --workers {threads} "
        "--baseline data/cse/baseline --output data/cse/labels"


rule train_cse_bc:
    input:
        script="scripts/train_cse_bc.py",
        code=[*CSE_CODE, *code("learn")],
        sources=CSE_SOURCES,
        baseline=CSE_BASELINE,
        labels="data/cse/labels/labels.parquet",
    output:
        expand(
            "data/cse/policies/bc-s{{seed}}/{file}",
            file=["policy.json", "weights.npy", "history.csv"],
        ),
    log:
        "data/work/logs/train_cse_bc-s{seed}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(2000, 300),
        runtime=minutes(240),
    params:
        settings=settings(
            task=config["task"],
            cse=config["cse"],
            bc=config["bc"],
            policy=config["policy"],
        ),
        sources=lambda wildcards, input: (
            f"--sources {input.sources}" if input.sources else ""
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params.settings} {params.sources} --seed {wildcards.seed} "
        "--workers {threads} --baseline data/cse/baseline --labels {input.labels} --work data/work "
        "--output data/cse/policies/bc-s{wildcards.seed}"


rule train_cse_marginal:
    input:
        script="scripts/train_cse_marginal.py",
        code=[*CSE_CODE, *code("learn")],
        sources=CSE_SOURCES,
        baseline=CSE_BASELINE,
        effects="data/cse/labels/effects.parquet",
    output:
        expand(
            "data/cse/policies/marginal-s{{seed}}/{file}",
            file=["policy.json", "weights.npy", "history.csv"],
        ),
    log:
        "data/work/logs/train_cse_marginal-s{seed}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(2000, 300),
        runtime=minutes(240),
    params:
        settings=settings(
            task=config["task"],
            cse=config["cse"],
            bc=config["bc"],
            policy=config["policy"],
        ),
        sources=lambda wildcards, input: (
            f"--sources {input.sources}" if input.sources else ""
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params.settings} {params.sources} --seed {wildcards.seed} "
        "--workers {threads} --baseline data/cse/baseline --effects {input.effects} --work data/work "
        "--output data/cse/policies/marginal-s{wildcards.seed}"


rule train_cse_es:
    input:
        script="scripts/train_cse_es.py",
        code=[*CSE_CODE, *code("learn")],
        sources=CSE_SOURCES,
        baseline=CSE_BASELINE,
        start=f"data/cse/policies/{config['es']['start']}-s{{seed}}/weights.npy",
    output:
        expand(
            "data/cse/policies/es-s{{seed}}/{file}",
            file=["policy.json", "weights.npy", "history.csv"],
        ),
    log:
        "data/work/logs/train_cse_es-s{seed}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(2000, 300),
        runtime=minutes(720),
    params:
        settings=settings(task=config["task"], cse=config["cse"], es=config["es"]),
        sources=lambda wildcards, input: (
            f"--sources {input.sources}" if input.sources else ""
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params.settings} {params.sources} --seed {wildcards.seed} "
        "--workers {threads} --baseline data/cse/baseline --start $(dirname {input.start}) "
        "--work data/work --output data/cse/policies/es-s{wildcards.seed}"


rule train_cse_ppo:
    input:
        script="scripts/train_cse_ppo.py",
        code=[*CSE_CODE, *code("learn")],
        sources=CSE_SOURCES,
        baseline=CSE_BASELINE,
        start=f"data/cse/policies/{config['ppo']['start']}-s{{seed}}/weights.npy",
    output:
        expand(
            "data/cse/policies/ppo-s{{seed}}/{file}",
            file=["policy.json", "weights.npy", "history.csv"],
        ),
    log:
        "data/work/logs/train_cse_ppo-s{seed}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(2000, 300),
        runtime=minutes(720),
    params:
        settings=settings(task=config["task"], cse=config["cse"], ppo=config["ppo"]),
        sources=lambda wildcards, input: (
            f"--sources {input.sources}" if input.sources else ""
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params.settings} {params.sources} --seed {wildcards.seed} "
        "--workers {threads} --baseline data/cse/baseline --start $(dirname {input.start}) "
        "--work data/work --output data/cse/policies/ppo-s{wildcards.seed}"


rule train_cse_sb3:
    input:
        script="scripts/train_cse_sb3.py",
        code=[*CSE_CODE, *code("learn")],
        sources=CSE_SOURCES,
        baseline=CSE_BASELINE,
    output:
        expand(
            "data/cse/policies/sb3-s{{seed}}/{file}",
            file=["policy.json", "weights.npy", "history.csv"],
        ),
    log:
        "data/work/logs/train_cse_sb3-s{seed}.log",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(720),
    params:
        settings=settings(
            task=config["task"], cse=config["cse"], policy=config["policy"]
        ),
        sources=lambda wildcards, input: (
            f"--sources {input.sources}" if input.sources else ""
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params.settings} {params.sources} --seed {wildcards.seed} "
        "--baseline data/cse/baseline --work data/work --output data/cse/policies/sb3-s{wildcards.seed}"


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
        settings=settings(**CSE, splits=config["evaluate"]["splits"]),
        sources=lambda wildcards, input: (
            f"--sources {input.sources}" if input.sources else ""
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params.settings} {params.sources} --workers {threads} "
        "--baseline data/cse/baseline --policy data/cse/policies/{wildcards.policy} --output {output}"


rule report_cse:
    input:
        script="scripts/report_cse.py",
        code=code("experiments", "report"),
        templates=TEMPLATES,
        baseline=CSE_BASELINE,
        labels="data/cse/labels/labels.parquet",
        evaluation=expand("data/cse/evaluation/{policy}.parquet", policy=CSE_POLICIES),
        histories=expand("data/cse/policies/{policy}/history.csv", policy=CSE_POLICIES),
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
        settings(
            task=config["task"],
            seed=config["seed"],
            resamples=config["evaluate"]["resamples"],
            confidence=config["evaluate"]["confidence"],
            policies=[f"data/cse/policies/{policy}" for policy in CSE_POLICIES],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params} --baseline data/cse/baseline --labels {input.labels} "
        "--evaluation {input.evaluation} --output data/cse/report"
