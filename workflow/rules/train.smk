# Trace -> cloned policy -> policies that learned from compiles.
include: "common.smk"


rule train:
    input:
        expand(
            "data/policies/{policy}/{file}",
            policy=POLICIES,
            file=["policy.json", "weights.npy", "history.csv"],
        ),
        [
            f"data/policies/{policy}/failures.parquet"
            for policy in POLICIES
            if not policy.startswith("bc-")
        ],


rule train_bc:
    input:
        script="scripts/train_bc.py",
        code=code("corpus", "learn", "policy"),
        modules="data/corpus/modules.parquet",
        trace="data/baseline/trace.parquet",
        vocabulary="data/baseline/vocabulary.parquet",
    output:
        "data/policies/bc-s{seed}/policy.json",
        "data/policies/bc-s{seed}/weights.npy",
        "data/policies/bc-s{seed}/history.csv",
    log:
        "data/work/logs/train_bc/s{seed}.log",
    threads: 1
    resources:
        mem_mb=memory(3000),
        runtime=minutes(60),
    params:
        settings(task=config["task"], bc=config["bc"], policy=config["policy"]),
    shell:
        "MLGO_LOG={log} exec python {input.script} --seed {wildcards.seed} {params} --corpus data/corpus "
        "--baseline data/baseline --work data/work --output data/policies/bc-s{wildcards.seed}"


rule train_bcmax:
    input:
        script="scripts/train_bcmax.py",
        code=code(
            "compiler",
            "corpus",
            "wire",
            "tasks",
            "policy",
            "execution/trees",
            "rollout",
            "learn",
        ),
        modules="data/corpus/modules.parquet",
        bitcode=expand("data/corpus/projects/{project}.parquet", project=PROJECTS),
        scores="data/baseline/scores.parquet",
        copies="data/baseline/copies.parquet",
        trace="data/baseline/trace.parquet",
        start=expand(
            "data/policies/bc-s{{seed}}/{file}", file=["policy.json", "weights.npy"]
        ),
        earlier=[
            f"{folder}/{file}"
            for folder in config["bcmax"]["policies"]
            for file in ["policy.json", "weights.npy"]
        ],
    output:
        "data/policies/bcmax-s{seed}/policy.json",
        "data/policies/bcmax-s{seed}/weights.npy",
        "data/policies/bcmax-s{seed}/history.csv",
        "data/policies/bcmax-s{seed}/failures.parquet",
    log:
        "data/work/logs/train_bcmax/s{seed}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(3000, 300),
        runtime=minutes(720),
    params:
        settings(**COMPILER, bcmax=config["bcmax"], replay=config["replay"]),
    shell:
        "MLGO_LOG={log} exec python {input.script} --seed {wildcards.seed} {params} --start data/policies/bc-s{wildcards.seed} "
        "--corpus data/corpus --baseline data/baseline --workers {threads} --work data/work "
        "--output data/policies/bcmax-s{wildcards.seed}"


rule train_es:
    input:
        script="scripts/train_es.py",
        code=code(
            "compiler",
            "corpus",
            "wire",
            "tasks",
            "policy",
            "execution/trees",
            "rollout",
            "learn",
        ),
        modules="data/corpus/modules.parquet",
        bitcode=expand("data/corpus/projects/{project}.parquet", project=PROJECTS),
        scores="data/baseline/scores.parquet",
        copies="data/baseline/copies.parquet",
        start=expand(
            "data/policies/{start}-s{{seed}}/{file}",
            start=config["es"]["start"],
            file=["policy.json", "weights.npy"],
        ),
    output:
        "data/policies/es-s{seed}/policy.json",
        "data/policies/es-s{seed}/weights.npy",
        "data/policies/es-s{seed}/history.csv",
        "data/policies/es-s{seed}/failures.parquet",
    log:
        "data/work/logs/train_es/s{seed}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(3000, 300),
        runtime=minutes(720),
    params:
        start=config["es"]["start"],
        settings=settings(**COMPILER, es=config["es"], replay=config["replay"]),
    shell:
        "MLGO_LOG={log} exec python {input.script} --seed {wildcards.seed} {params.settings} --start data/policies/{params.start}-s{wildcards.seed} "
        "--corpus data/corpus --baseline data/baseline --workers {threads} --work data/work "
        "--output data/policies/es-s{wildcards.seed}"


rule train_marginal:
    input:
        script="scripts/train_marginal.py",
        code=code(
            "compiler",
            "corpus",
            "wire",
            "tasks",
            "policy",
            "execution/trees",
            "rollout",
            "learn",
        ),
        modules="data/corpus/modules.parquet",
        bitcode=expand("data/corpus/projects/{project}.parquet", project=PROJECTS),
        scores="data/baseline/scores.parquet",
        copies="data/baseline/copies.parquet",
        trace="data/baseline/trace.parquet",
        vocabulary="data/baseline/vocabulary.parquet",
    output:
        "data/policies/marginal-s{seed}/policy.json",
        "data/policies/marginal-s{seed}/weights.npy",
        "data/policies/marginal-s{seed}/history.csv",
        "data/policies/marginal-s{seed}/failures.parquet",
    log:
        "data/work/logs/train_marginal/s{seed}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(3000, 300),
        runtime=minutes(720),
    params:
        settings(
            **COMPILER,
            task=config["task"],
            bc=config["bc"],
            marginal=config["marginal"],
            replay=config["replay"],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --seed {wildcards.seed} {params} --corpus data/corpus "
        "--baseline data/baseline --workers {threads} --work data/work "
        "--output data/policies/marginal-s{wildcards.seed}"


rule train_ppo:
    input:
        script="scripts/train_ppo.py",
        code=code(
            "compiler",
            "corpus",
            "wire",
            "tasks",
            "policy",
            "execution/trees",
            "rollout",
            "learn",
        ),
        modules="data/corpus/modules.parquet",
        bitcode=expand("data/corpus/projects/{project}.parquet", project=PROJECTS),
        scores="data/baseline/scores.parquet",
        functions="data/baseline/functions.parquet",
        copies="data/baseline/copies.parquet",
        start=expand(
            "data/policies/{start}-s{{seed}}/{file}",
            start=config["ppo"]["start"],
            file=["policy.json", "weights.npy"],
        ),
    output:
        "data/policies/ppo-s{seed}/policy.json",
        "data/policies/ppo-s{seed}/weights.npy",
        "data/policies/ppo-s{seed}/history.csv",
        "data/policies/ppo-s{seed}/failures.parquet",
    log:
        "data/work/logs/train_ppo/s{seed}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(3000, 300),
        runtime=minutes(720),
    params:
        start=config["ppo"]["start"],
        settings=settings(**COMPILER, ppo=config["ppo"], replay=config["replay"]),
    shell:
        "MLGO_LOG={log} exec python {input.script} --seed {wildcards.seed} {params.settings} --start data/policies/{params.start}-s{wildcards.seed} "
        "--corpus data/corpus --baseline data/baseline --workers {threads} --work data/work "
        "--output data/policies/ppo-s{wildcards.seed}"
