# Runnable programs -> what is executed under each policy. With evaluate.programs it is part of every evaluation, else it is on
# request: make programs. Needs valgrind.
if "KIND" not in globals():

    include: "common.smk"


rule programs:
    input:
        PROGRAMS_TABLE,


rule measure_programs:
    input:
        script=source("scripts/measure_programs.py"),
        code=code("scripts/measure_programs.py"),
        recipes=sorted(str(path) for path in Path(PROGRAM_RECIPES).glob("*.yaml")),
        sources=sorted(str(path) for path in Path("data/programs").rglob("*.*")),
        policies=expand("data/policies/{policy}/{file}", policy=POLICIES, file=POLICY),
    output:
        PROGRAMS_TABLE,
    log:
        "data/work/logs/measure_programs.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
    params:
        config=settings(
            *COMPILER,
            "task",
            "seed",
            "baseline.random_inline_share",
            "corpus.own_profile",
            "corpus.splits.train",
            "corpus.splits.validation",
        ),
        policies=expand("data/policies/{policy}", policy=POLICIES),
        recipes=lambda wildcards: PROGRAM_RECIPES,
        # Where it is missing, the table says so; it is made anew once it is there.
        valgrind=shutil.which("valgrind") is not None,
        needed="" if config["evaluate"]["programs"] else "--needs-valgrind",
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --recipes {params.recipes} "
        "--policies {params.policies} --workers {threads} {params.needed} --output {output}"
