# Trainings under settings that vary, side by side. Not part of the default run: make sweep, or snakemake sweep.
include: "places.smk"


rule sweep:
    input:
        "data/sweep/sweep.html",
        "data/sweep/sweep.json",


rule report_sweep:
    input:
        script="scripts/report_sweep.py",
        code=code("experiments", "report"),
        templates=TEMPLATES,
        policies=lambda wildcards: expand(
            "data/sweep/policies/{policy}", policy=swept().policies
        ),
        results=lambda wildcards: expand(
            "data/sweep/results/{policy}", policy=swept().policies
        ),
        choices=lambda wildcards: [
            path
            for place in {
                place_of(home=one.home, values=one.config) for one in swept().points
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
    shell:
        "MLGO_LOG={log} exec python {input.script} --config {params.config} --work data/work --output data/sweep"
