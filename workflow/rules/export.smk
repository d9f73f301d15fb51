# Policies -> models that LLVM can be built with, and their cards, which tell what the evaluation has shown.
if "KIND" not in globals():

    include: "common.smk"


from mlgo.deploy.export import FORMS


rule export:
    input:
        expand(
            "data/export/{policy}/{file}",
            policy=EXPORTED,
            file=["parity.json", "README.md"],
        )
        or "data/export/README.md",


rule export_nothing:
    output:
        "data/export/README.md",
    log:
        "data/work/logs/export_nothing.log",
    threads: 1
    resources:
        mem_mb=memory(500),
        runtime=minutes(30),
    shell:
        "echo 'No exported model takes embeddings (compile.ir2vec) or what LLVM itself decides (compile.tell_heuristic).' >{output} 2>{log}"


rule export_policy:
    input:
        script=source("scripts/export_policy.py"),
        code=code("scripts/export_policy.py"),
        templates=templates("deploy/export"),
        policy=expand("data/policies/{{policy}}/{file}", file=POLICY),
        trace="data/baseline/trace.parquet",
    output:
        [directory(f"data/export/{{policy}}/{form}") for form in FORMS],
        parity="data/export/{policy}/parity.json",
    log:
        "data/work/logs/export_policy/{policy}.log",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(30),
    params:
        config=settings("seed"),
        forms=list(FORMS),
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --policy data/policies/{wildcards.policy} "
        "--trace {input.trace} --output data/export/{wildcards.policy} --forms {params.forms}"


rule describe_policy:
    input:
        [PROGRAMS_TABLE] if config["evaluate"]["programs"] else [],
        script=source("scripts/describe_policy.py"),
        code=code("scripts/describe_policy.py"),
        templates=templates("deploy"),
        policy=expand("data/policies/{{policy}}/{file}", file=POLICY),
        forms=rules.export_policy.output,
        modules="data/corpus/modules.parquet",
        evaluation=expand(
            "data/evaluation/{table}.parquet", table=["results", "shipped"]
        ),
    output:
        "data/export/{policy}/README.md",
        "data/export/{policy}/card.json",
    log:
        "data/work/logs/describe_policy/{policy}.log",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(30),
    params:
        config=settings("seed", "evaluate"),
    shell:
        "MLGO_LOG={log} exec python {input.script:q} --config {params.config} --policy data/policies/{wildcards.policy} "
        "--export data/export/{wildcards.policy} --corpus {input.modules} --evaluations data/evaluation"
