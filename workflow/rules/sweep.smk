# Trainings under settings that vary, side by side. Not part of the default run: make sweep, or snakemake sweep.
if "SEALED_NAMES" not in globals():

    include: "places.smk"


rule sweep:
    input:
        "data/sweep/sweep.html",
        "data/sweep/sweep.json",


# What the next trials of a study are follows from what the ones before have come to.
checkpoint ask_trials:
    input:
        trial_folders("policies"),
        trial_folders("results"),
        script=source("scripts/ask_trials.py"),
        code=code("scripts/ask_trials.py"),
    output:
        "data/sweep/study/{study}/batch-{batch}.json",
    log:
        "data/work/logs/ask_trials/{study}-{batch}.log",
    wildcard_constraints:
        batch=r"\d+",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(30),
    params:
        config=lambda wildcards: settings(*config),
        study=lambda wildcards, output: str(Path(output[0]).parent),
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --study {params.study} --batch {wildcards.batch} "
        "--output data/sweep"


rule report_sweep:
    input:
        script=source("scripts/report_sweep.py"),
        code=code("scripts/report_sweep.py"),
        templates=TEMPLATES,
        policies=point_folders("policies"),
        results=point_folders("results"),
        choices=lambda wildcards: [
            path
            for place in {
                place_of(home=one.home, values=one.config)
                for one in chosen(all_batches()).points
            }
            if place.endswith("cse/")
            for path in [*choices_at(place), *labels_at(place)]
        ],
    output:
        "data/sweep/sweep.html",
        "data/sweep/sweep.json",
        directory("data/sweep/points"),
    log:
        "data/work/logs/report_sweep.log",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(30),
    params:
        # Lazily: what the configuration says of other stages changes nothing elsewhere.
        config=lambda wildcards: settings(*config),
        study=lambda wildcards: f"--study {study()}" if is_study() else "",
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --work data/work --output data/sweep {params.study}"
