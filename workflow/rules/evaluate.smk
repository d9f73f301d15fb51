# Policies on held-out projects -> sizes beside the heuristic's.
include: "common.smk"


rule evaluate:
    input:
        "data/evaluation/results.parquet",
        "data/evaluation/functions.parquet",
        "data/evaluation/linked.parquet",


rule evaluate_heuristic:
    input:
        script="scripts/evaluate_heuristic.py",
        code=code("compiler", "corpus", "wire", "tasks", "policy", "rollout"),
        modules="data/corpus/modules.parquet",
        bitcode=expand("data/corpus/projects/{project}.parquet", project=PROJECTS),
        scores="data/baseline/scores.parquet",
    output:
        temp("data/evaluation/parts/heuristic.linked.parquet"),
    log:
        "data/work/logs/evaluate_heuristic.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
        disk_mb=2000,
    params:
        settings(
            **COMPILER,
            task=config["task"],
            seed=config["seed"],
            evaluate=config["evaluate"],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params} --corpus data/corpus --baseline data/baseline "
        "--workers {threads} --work data/work --output {output}"


rule evaluate_policy:
    input:
        script="scripts/evaluate_policy.py",
        code=code("compiler", "corpus", "wire", "tasks", "policy", "rollout"),
        policy=expand(
            "data/policies/{{policy}}/{file}", file=["policy.json", "weights.npy"]
        ),
        modules="data/corpus/modules.parquet",
        bitcode=expand("data/corpus/projects/{project}.parquet", project=PROJECTS),
        scores="data/baseline/scores.parquet",
        copies="data/baseline/copies.parquet",
    output:
        results=temp("data/evaluation/parts/{policy}.parquet"),
        functions=temp("data/evaluation/parts/{policy}.functions.parquet"),
        linked=temp("data/evaluation/parts/{policy}.linked.parquet"),
    log:
        "data/work/logs/evaluate_policy/{policy}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
        disk_mb=2000,
    params:
        settings(**COMPILER, seed=config["seed"], evaluate=config["evaluate"]),
    shell:
        "MLGO_LOG={log} exec python {input.script} --policy data/policies/{wildcards.policy} {params} --corpus data/corpus "
        "--baseline data/baseline --workers {threads} --work data/work --output {output.results} "
        "--functions {output.functions} --linked {output.linked}"


rule merge_evaluation:
    input:
        script="scripts/merge_evaluation.py",
        code=code(),
        parts=expand("data/evaluation/parts/{policy}.parquet", policy=POLICIES),
        functions=expand(
            "data/evaluation/parts/{policy}.functions.parquet", policy=POLICIES
        ),
        linked=expand(
            "data/evaluation/parts/{contender}.linked.parquet",
            contender=["heuristic", *POLICIES],
        ),
    output:
        "data/evaluation/results.parquet",
        "data/evaluation/functions.parquet",
        "data/evaluation/linked.parquet",
    log:
        "data/work/logs/merge_evaluation.log",
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime=minutes(15),
    params:
        settings(policies=POLICIES),
    shell:
        "MLGO_LOG={log} exec python {input.script} --parts data/evaluation/parts {params} --output data/evaluation"
