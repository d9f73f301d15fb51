# A finished policy on one more project -> tables and a page. The policy is no input: nothing is trained, and no other project is
# compiled.
if "SEALED_NAMES" not in globals():

    include: "places.smk"


wildcard_constraints:
    tried=r"(?!data/).+|data/trial/[\w.+-]+",


rule try_policy:
    input:
        code=[source("mlgo/cli/evaluate.py"), *code("mlgo/cli/evaluate.py")],
        templates=TEMPLATES,
        project=tried_tables,
    output:
        "{tried}/evaluation/{policy}/report.html",
        "{tried}/evaluation/{policy}/results.parquet",
        "{tried}/evaluation/{policy}/shipped.parquet",
    log:
        "data/work/logs/try_policy/{tried}.{policy}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
        disk_mb=2000,
    params:
        config=settings(*COMPILER, "seed", "evaluate"),
        policy="data/policies/{policy}",
        sha256=policy_sha256,
    shell:
        "MLGO_LOG={log:q} exec mlgo evaluate --config {params.config} --policy {params.policy} "
        "--project {input.project[0]:q} --workers {threads} --output {wildcards.tried:q}/evaluation/{wildcards.policy}"
