# Policies -> models that LLVM can be built with.
include: "common.smk"


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
        model=directory("data/export/{policy}/saved_model"),
        cpp=directory("data/export/{policy}/cpp"),
        parity="data/export/{policy}/parity.json",
    log:
        "data/work/logs/export_policy/{policy}.log",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(30),
    params:
        config=settings("seed"),
    shell:
        "MLGO_LOG={log} exec python {input.script} --config {params.config} --policy data/policies/{wildcards.policy} "
        "--trace {input.trace} --model {output.model} --cpp {output.cpp} --parity {output.parity}"
