# Modules -> smaller code found by search. Not part of the default run: make headroom, or snakemake headroom.
include: "common.smk"


rule headroom:
    input:
        "data/headroom/headroom.parquet",
        "data/headroom/headroom.html",


rule measure_headroom:
    input:
        script="scripts/measure_headroom.py",
        code=code(
            "compiler",
            "corpus",
            "wire",
            "tasks",
            "policy",
            "execution/trees",
            "rollout",
        ),
        policies=expand(
            "data/policies/{policy}/{file}",
            policy=POLICIES,
            file=["policy.json", "weights.npy"],
        ),
        modules="data/corpus/modules.parquet",
        bitcode=expand("data/corpus/projects/{project}.parquet", project=PROJECTS),
        scores="data/baseline/scores.parquet",
        copies="data/baseline/copies.parquet",
    output:
        "data/headroom/headroom.parquet",
    log:
        "data/work/logs/measure_headroom.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(2000, 300),
        runtime=minutes(720),
    params:
        settings(
            **COMPILER,
            seed=config["seed"],
            headroom=config["headroom"],
            replay=config["replay"],
            policies=[f"data/policies/{policy}" for policy in POLICIES],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params} --corpus data/corpus --baseline data/baseline "
        "--workers {threads} --work data/work --output {output}"


rule report_headroom:
    input:
        script="scripts/report_headroom.py",
        code=code("experiments", "report"),
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
        settings(objective=config["compile"]["objective"]),
    shell:
        "MLGO_LOG={log} exec python {input.script} --headroom {input.headroom} --evaluation data/evaluation {params} "
        "--output {output}"
