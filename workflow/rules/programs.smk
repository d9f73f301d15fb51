# Runnable programs -> what is executed under each policy. Not part of the default run: make programs. Needs valgrind.
include: "common.smk"


rule programs:
    input:
        "data/execution/programs.parquet",


rule measure_programs:
    input:
        script="scripts/measure_programs.py",
        code=code("compiler", "corpus", "wire", "tasks", "policy", "rollout"),
        recipes=sorted(str(path) for path in Path("config/programs").glob("*.yaml")),
        sources=sorted(str(path) for path in Path("data/programs").rglob("*.*")),
        policies=expand(
            "data/policies/{policy}/{file}",
            policy=POLICIES,
            file=["policy.json", "weights.npy"],
        ),
    output:
        "data/execution/programs.parquet",
    log:
        "data/work/logs/measure_programs.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
    params:
        settings(
            **COMPILER,
            task=config["task"],
            seed=config["seed"],
            random_inline_share=config["baseline"]["random_inline_share"],
            policies=[f"data/policies/{policy}" for policy in POLICIES],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --recipes config/programs {params} --workers {threads} "
        "--work data/work --output {output}"
