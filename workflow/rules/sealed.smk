# A sealed test set -> its corpus; a finished policy on all of it -> tables, a page, a row in the set's log of looks.
# The policy is no input: nothing is trained, and nothing else is compiled.
if "SEALED_NAMES" not in globals():

    include: "places.smk"


wildcard_constraints:
    sealed=r"sealed(-\w+)?",
    ships=r"[\w=,-]+",


rule sealed:
    input:
        looks,


rule sealed_corpus:
    input:
        lambda wildcards: sealed_tables("projects", LOOK["set"]),
        lambda wildcards: sealed_tables("programs", LOOK["set"]),


rule look:
    input:
        lambda wildcards: sealed_tables("programs", wildcards.sealed),
        code=[source("mlgo/cli/evaluate.py"), *code("mlgo/cli/evaluate.py")],
        templates=TEMPLATES,
        projects=lambda wildcards: sealed_tables("projects", wildcards.sealed),
    output:
        "data/{sealed}/evaluation/{policy}/{ships}/report.html",
        "data/{sealed}/evaluation/{policy}/{ships}/results.parquet",
        "data/{sealed}/evaluation/{policy}/{ships}/shipped.parquet",
    log:
        "data/work/logs/look/{sealed}.{policy}.{ships}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(600),
        disk_mb=4000,
    params:
        config=settings(*EVALUATE),
        policy="data/policies/{policy}",
        languages=sealed_languages,
        sha256=policy_sha256,
        reason=f"--reason={LOOK['reason']}",
    shell:
        "MLGO_LOG={log:q} exec mlgo evaluate --config {params.config} --policy {params.policy} --ships {wildcards.ships} "
        "--languages {params.languages} --project {input.projects:q} --workers {threads} {params.reason:q} "
        "--output data/{wildcards.sealed}/evaluation/{wildcards.policy}/{wildcards.ships}"
