# Policies on held-out projects -> sizes beside the heuristic's.
include: "common.smk"


rule evaluate:
    input:
        "data/evaluation/results.parquet",


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
    output:
        temp("data/evaluation/parts/{policy}.parquet"),
    log:
        "data/work/logs/evaluate_policy/{policy}.log",
    threads: 64
    params:
        settings(**COMPILER, seed=config["seed"], evaluate=config["evaluate"]),
    shell:
        "MLGO_LOG={log} exec python {input.script} --policy data/policies/{wildcards.policy} {params} --corpus data/corpus "
        "--baseline data/baseline --workers {threads} --work data/work --output {output}"


rule merge_evaluation:
    input:
        script="scripts/merge_evaluation.py",
        code=code(),
        parts=expand("data/evaluation/parts/{policy}.parquet", policy=POLICIES),
    output:
        "data/evaluation/results.parquet",
    log:
        "data/work/logs/merge_evaluation.log",
    params:
        settings(policies=POLICIES),
    shell:
        "MLGO_LOG={log} exec python {input.script} --parts data/evaluation/parts {params} --output {output}"
