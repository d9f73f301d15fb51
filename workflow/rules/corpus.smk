# Sources -> bitcode -> corpus with splits.
include: "common.smk"


rule corpus:
    input:
        "data/corpus/modules.parquet",
        "data/corpus/summary.json",


rule build_project:
    input:
        local_sources,
        script="scripts/build_project.py",
        code=code("corpus", "compiler", "tasks", "wire"),
        recipe=f"{config['corpus']['recipes']}/{{project}}.yaml",
    output:
        "data/corpus/projects/{project}.parquet",
    log:
        "data/work/logs/build_project/{project}.log",
    threads: 8
    resources:
        mem_mb=memory(300, 200),
        runtime=minutes(30),
        disk_mb=2000,
    params:
        settings(
            **COMPILER,
            task=config["task"],
            seed=config["seed"],
            max_modules=config["corpus"]["max_modules_per_project"],
            max_failed_share=config["corpus"]["max_failed_share"],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --project {wildcards.project} --recipe {input.recipe} {params} "
        "--threads {threads} --work data/work --output {output}"


rule assemble_corpus:
    input:
        script="scripts/assemble_corpus.py",
        code=code("corpus"),
        projects=expand("data/corpus/projects/{project}.parquet", project=PROJECTS),
    output:
        "data/corpus/modules.parquet",
        "data/corpus/summary.json",
    log:
        "data/work/logs/assemble_corpus.log",
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime=minutes(15),
    params:
        settings(splits=SPLITS),
    shell:
        "MLGO_LOG={log} exec python {input.script} --corpus data/corpus {params}"
