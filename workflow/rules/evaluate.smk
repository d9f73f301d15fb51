# Policies on held-out projects -> sizes beside the heuristic's; those of generalisation and of a sweep by the same rule.
if "TRAIN_SETS" not in globals():

    include: "policies.smk"


include: "programs.smk"


rule evaluate:
    input:
        [PROGRAMS_TABLE] if config["evaluate"]["programs"] else [],
        "data/evaluation/results.parquet",
        "data/evaluation/functions.parquet",
        "data/evaluation/shipped.parquet",


rule evaluate_heuristic:
    input:
        corpus_at(""),
        programs_at(""),
        seen_at(""),
        baseline_at(""),
        script=source("scripts/evaluate_policy.py"),
        code=code("scripts/evaluate_policy.py"),
    output:
        shipped=temp("data/evaluation/parts/heuristic.shipped.parquet"),
    log:
        "data/work/logs/evaluate_heuristic.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
        disk_mb=2000,
    params:
        config=settings(*COMPILER, "task", "seed", "evaluate"),
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --workers {threads} "
        "--shipped {output.shipped}"


# By rule: folder of the policy, and tables by option of the program.
EVALUATIONS = {
    "evaluate_policy": (
        "policies/{policy}",
        {
            "output": "evaluation/parts/{policy}.parquet",
            "functions": "evaluation/parts/{policy}.functions.parquet",
            "shipped": "evaluation/parts/{policy}.shipped.parquet",
        },
    ),
    "evaluate_with": (
        "generalisation/policies/{learnt}-{train_set}-s{seed}",
        {
            "output": "generalisation/parts/{learnt}-{train_set}-s{seed}.{tested}.parquet"
        },
    ),
    "evaluate_cse": (
        "cse/policies/{policy}",
        {"output": "cse/evaluation/{policy}.parquet"},
    ),
    "evaluate_point": (
        "sweep/policies/{point}-s{seed}",
        {"output": "sweep/results/{point}-s{seed}/results.parquet"},
    ),
}

for name, (folder, tables) in EVALUATIONS.items():
    # A policy of a sweep may be a message instead, and so may its results: what fails counts as done, others go on.
    in_sweep = name == "evaluate_point"
    policy, output = f"data/{folder}", Path("data", tables["output"])
    named = output.parent.name if in_sweep else output.stem

    rule:
        name:
            name
        input:
            evaluation_input,
            script=evaluation_script,
            code=evaluation_code,
            policy=policy if in_sweep else [f"{policy}/{file}" for file in POLICY],
        output:
            (
                directory(str(output.parent))
                if in_sweep
                else [
                    f"data/{path}" if name == "evaluate_cse" else temp(f"data/{path}")
                    for path in tables.values()
                ]
            ),
        log:
            f"data/work/logs/{name}/{named}.log",
        threads: MANY_CORES
        resources:
            mem_mb=memory(1000, 300),
            runtime=minutes(240),
            disk_mb=2000,
        params:
            config=evaluation_settings,
            policy=lambda wildcards, input: folder_of(input.policy),
            home=lambda wildcards: f"data/{tested_at(wildcards)}",
            work=timings_at,
            tables=" ".join(f"--{one} 'data/{path}'" for one, path in tables.items()),
            asked="--every-language" if name == "evaluate_with" else "",
            failure=f"{output.parent}/failure.json" if in_sweep else "",
        shell:
            "MLGO_LOG={log:q} MLGO_FAILURE={params.failure:q} exec python {input.script:q} --config {params.config} "
            "--policy {params.policy:q} --home {params.home:q} --workers {threads} --work {params.work:q} {params.tables} "
            "{params.asked}"


rule merge_evaluation:
    input:
        script=source("scripts/merge_evaluation.py"),
        code=code("scripts/merge_evaluation.py"),
        parts=expand("data/evaluation/parts/{policy}.parquet", policy=POLICIES),
        functions=expand(
            "data/evaluation/parts/{policy}.functions.parquet", policy=POLICIES
        ),
        sizes=expand(
            "data/evaluation/parts/{contender}.shipped.parquet",
            contender=["heuristic", *POLICIES],
        ),
    output:
        "data/evaluation/results.parquet",
        "data/evaluation/functions.parquet",
        "data/evaluation/shipped.parquet",
    log:
        "data/work/logs/merge_evaluation.log",
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime=minutes(15),
    params:
        policies=POLICIES,
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --parts data/evaluation/parts --policies {params.policies} "
        "--output data/evaluation"
