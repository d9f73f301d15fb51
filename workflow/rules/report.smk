# Results -> one page for people, metrics and plot data for DVC.
if "KIND" not in globals():

    include: "common.smk"


rule report:
    input:
        "data/report/report.html",
        "data/report/comparisons.json",
        "data/report/metrics.json",
        "data/report/learning.csv",
        "data/report/projects.csv",
        "data/report/ratios.csv",
        expand("data/export/{policy}/README.md", policy=EXPORTED),


rule make_report:
    input:
        script=source("scripts/make_report.py"),
        code=code("scripts/make_report.py"),
        templates=TEMPLATES,
        results="data/evaluation/results.parquet",
        functions="data/evaluation/functions.parquet",
        shipped="data/evaluation/shipped.parquet",
        programs=[PROGRAMS_TABLE] if config["evaluate"]["programs"] else [],
        scores="data/baseline/scores.parquet",
        referred="data/baseline/functions.parquet",
        trace="data/baseline/trace.parquet",
        baseline="data/baseline/summary.json",
        modules="data/corpus/modules.parquet",
        corpus="data/corpus/summary.json",
        policies=expand(
            "data/policies/{policy}/{file}",
            policy=POLICIES,
            file=["policy.json", "weights.npy", "history.csv"],
        ),
        failures=[
            f"data/policies/{policy}/failures.parquet"
            for policy in POLICIES
            if KIND in LEARNERS.get(policy.split("-")[0]).compiles
        ],
    output:
        "data/report/report.html",
        "data/report/comparisons.json",
        "data/report/metrics.json",
        "data/report/learning.csv",
        "data/report/projects.csv",
        "data/report/ratios.csv",
    log:
        "data/work/logs/make_report.log",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(30),
    params:
        programs=programs_sha256,
        table=lambda wildcards: PROGRAMS_TABLE,
        config=settings("task", "evaluate", "seed", "compile.objective"),
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --corpus data/corpus --baseline data/baseline "
        "--policies data/policies --evaluation data/evaluation --programs {params.table} "
        "--work data/work --output data/report"
