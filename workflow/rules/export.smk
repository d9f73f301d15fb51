# Policies -> models that LLVM can be built with.
include: "common.smk"


from mlgo.export.forms import FORMS


rule export:
    input:
        expand("data/export/{policy}/parity.json", policy=POLICIES),


rule export_policy:
    input:
        script="scripts/export_policy.py",
        code=code("export", "learn", "actions", "policy", "problems/llvm", "compiler"),
        templates=templates("export"),
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
        "MLGO_LOG={log} exec python {input.script} --config {params.config} --policy data/policies/{wildcards.policy} "
        "--trace {input.trace} --output data/export/{wildcards.policy} --forms {params.forms}"
