# Sources -> bitcode -> corpus with splits.
include: "common.smk"


rule corpus:
    input:
        "data/corpus/modules.parquet",
        "data/corpus/summary.json",


rule build_project:
    input:
        script="scripts/build_project.py",
        code=code("corpus", "compiler"),
        recipe=config["corpus"]["recipes"] + "/{project}.yaml",
    output:
        "data/corpus/projects/{project}.parquet",
    params:
        settings(
            **COMPILER,
            seed=config["seed"],
            max_modules=config["corpus"]["max_modules_per_project"],
            max_failed_share=config["corpus"]["max_failed_share"],
        ),
    threads: 8
    log:
        "data/work/logs/build_project/{project}.log",
    shell:
        "MLGO_LOG={log} python {input.script} --project {wildcards.project} --recipe {input.recipe} {params} "
        "--threads {threads} --cache data/work --output {output}"


rule assemble_corpus:
    input:
        script="scripts/assemble_corpus.py",
        code=code("corpus"),
        projects=expand("data/corpus/projects/{project}.parquet", project=PROJECTS),
    output:
        "data/corpus/modules.parquet",
        "data/corpus/summary.json",
    params:
        settings(splits=SPLITS),
    log:
        "data/work/logs/assemble_corpus.log",
    shell:
        "MLGO_LOG={log} python {input.script} --corpus data/corpus {params}"
