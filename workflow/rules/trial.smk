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
        config=settings(*EVALUATE),
        policy="data/policies/{policy}",
        sha256=policy_sha256,
    shell:
        "MLGO_LOG={log:q} exec mlgo evaluate --config {params.config} --policy {params.policy} "
        "--project {input.project[0]:q} --workers {threads} --output {wildcards.tried:q}/evaluation/{wildcards.policy}"


# What the forms of a build save before any policy, and what a policy adds to each: judged projects, as they ship.
WAYS_TO_SHIP = [
    "objects",
    "objects,sections=yes",
    "thin,sections=yes",
    "whole,sections=yes",
    "whole,sections=yes,folding=all",
]


rule composition:
    input:
        code=[source("mlgo/cli/evaluate.py"), *code("mlgo/cli/evaluate.py")],
        templates=TEMPLATES,
        projects=expand(
            "data/trial/corpus/projects/{project}.parquet",
            project=config["corpus"]["splits"]["validation"],
        ),
        programs=expand(
            "data/trial/corpus/programs/{project}.parquet",
            project=config["corpus"]["splits"]["validation"],
        ),
    output:
        "data/composition/{policy}.txt",
    log:
        "data/work/logs/composition/{policy}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(600),
        disk_mb=4000,
    params:
        config=settings(*EVALUATE),
        policy=shown_policy,
        sha256=lambda wildcards: sha256_of(f"{shown_policy(wildcards)}/weights.npy"),
        ships=[word for one in WAYS_TO_SHIP for word in ("--ships", one)],
    shell:
        "MLGO_LOG={log:q} exec mlgo evaluate --config {params.config} --policy {params.policy} --languages c,c++ "
        "--project {input.projects:q} --workers {threads} {params.ships:q} "
        "--output data/composition/{wildcards.policy} > {output:q}"
