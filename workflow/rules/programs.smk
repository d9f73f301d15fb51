# Runnable programs -> what is executed under each policy. Not part of the default run: make programs. Needs valgrind.
include: "common.smk"


rule programs:
    input:
        "data/execution/programs.parquet",


rule measure_programs:
    input:
        script="scripts/measure_programs.py",
        code=code(
            "compiler",
            "corpus",
            "wire",
            "problems/llvm",
            "actions",
            "policy",
            "rollout",
        ),
        recipes=sorted(str(path) for path in Path("config/programs").glob("*.yaml")),
        sources=sorted(str(path) for path in Path("data/programs").rglob("*.*")),
        policies=expand("data/policies/{policy}/{file}", policy=POLICIES, file=POLICY),
    output:
        "data/execution/programs.parquet",
    log:
        "data/work/logs/measure_programs.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
    params:
        config=settings(*COMPILER, "task", "seed", "baseline.random_inline_share"),
        policies=expand("data/policies/{policy}", policy=POLICIES),
    shell:
        "MLGO_LOG={log} exec python {input.script} --config {params.config} --recipes config/programs "
        "--policies {params.policies} --workers {threads} --output {output}"
