# Policies on other languages and under other compilers. Not part of the default run: make generalisation.
include: "compilers.smk"


TRAIN_SETS = config["generalisation"]["train_sets"]
LINEAGES = [
    (learnt, train_set, tested)
    for learnt in COMPILERS
    for train_set in TRAIN_SETS
    for tested in COMPILERS
    if train_set == config["generalisation"]["across"] or learnt == tested == "main"
]


wildcard_constraints:
    train_set=r"[a-z0-9+]+",


rule generalisation:
    input:
        "data/generalisation/results.parquet",


rule fetch_compiler:
    input:
        script="scripts/fetch_compiler.py",
        code=["mlgo/compiler/wheel.py", "mlgo/core/packages.py"],
    output:
        "data/work/compilers/{wheel}/ziglang/zig",
    log:
        "data/work/logs/fetch_compiler/{wheel}.log",
    threads: 1
    resources:
        mem_mb=memory(500),
        runtime=minutes(30),
        disk_mb=2000,
    params:
        lambda wildcards: settings(compiler=WHEELS[wildcards.wheel]),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params} --downloads data/work/sdists --output {output}"


rule build_project_with:
    input:
        local_sources,
        lambda wildcards: needed(wildcards.wheel),
        script="scripts/build_project.py",
        code=code("corpus", "compiler", "tasks", "wire"),
        recipe=f"{config['corpus']['recipes']}/{{project}}.yaml",
    output:
        "data/generalisation/{wheel}/corpus/projects/{project}.parquet",
    log:
        "data/work/logs/build_project/{wheel}/{project}.log",
    threads: 8
    resources:
        mem_mb=memory(300, 200),
        runtime=minutes(30),
        disk_mb=2000,
    params:
        lambda wildcards: compiled_by(
            wildcards.wheel,
            task=config["task"],
            seed=config["seed"],
            max_modules=config["corpus"]["max_modules_per_project"],
            max_failed_share=config["corpus"]["max_failed_share"],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --project {wildcards.project} --recipe {input.recipe} {params} "
        "--threads {threads} --work data/work --output {output}"


rule assemble_corpus_with:
    input:
        script="scripts/assemble_corpus.py",
        code=code("corpus"),
        projects=expand(
            "data/generalisation/{{wheel}}/corpus/projects/{project}.parquet",
            project=PROJECTS,
        ),
    output:
        "data/generalisation/{wheel}/corpus/modules.parquet",
        "data/generalisation/{wheel}/corpus/summary.json",
    log:
        "data/work/logs/assemble_corpus/{wheel}.log",
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime=minutes(15),
    params:
        settings(splits=SPLITS),
    shell:
        "MLGO_LOG={log} exec python {input.script} --corpus data/generalisation/{wildcards.wheel}/corpus {params}"


rule score_project_with:
    input:
        lambda wildcards: needed(wildcards.wheel),
        script="scripts/score_project.py",
        code=code("compiler", "corpus", "policy", "rollout", "tasks", "wire"),
        modules="data/generalisation/{wheel}/corpus/modules.parquet",
        bitcode="data/generalisation/{wheel}/corpus/projects/{project}.parquet",
    output:
        scores=temp(
            "data/generalisation/{wheel}/baseline/parts/{project}.scores.parquet"
        ),
        trace=temp("data/generalisation/{wheel}/baseline/parts/{project}.trace.parquet"),
        functions=temp(
            "data/generalisation/{wheel}/baseline/parts/{project}.functions.parquet"
        ),
        copies=temp(
            "data/generalisation/{wheel}/baseline/parts/{project}.copies.parquet"
        ),
    log:
        "data/work/logs/score_project/{wheel}/{project}.log",
    threads: 8
    resources:
        mem_mb=memory(500, 300),
        runtime=minutes(60),
    params:
        lambda wildcards: compiled_by(
            wildcards.wheel,
            task=config["task"],
            seed=config["seed"],
            random_inline_share=config["baseline"]["random_inline_share"],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --project {wildcards.project} "
        "--corpus data/generalisation/{wildcards.wheel}/corpus {params} --workers {threads} "
        "--work data/work/generalisation/{wildcards.wheel} --scores {output.scores} --trace {output.trace} "
        "--functions {output.functions} --copies {output.copies}"


rule merge_baseline_with:
    input:
        script="scripts/merge_baseline.py",
        code=code("policy", "rollout"),
        modules="data/generalisation/{wheel}/corpus/modules.parquet",
        parts=expand(
            "data/generalisation/{{wheel}}/baseline/parts/{project}.{kind}.parquet",
            project=PROJECTS,
            kind=["scores", "functions", "trace", "copies"],
        ),
    output:
        "data/generalisation/{wheel}/baseline/scores.parquet",
        "data/generalisation/{wheel}/baseline/functions.parquet",
        "data/generalisation/{wheel}/baseline/copies.parquet",
        "data/generalisation/{wheel}/baseline/trace.parquet",
        "data/generalisation/{wheel}/baseline/vocabulary.parquet",
        "data/generalisation/{wheel}/baseline/summary.json",
    log:
        "data/work/logs/merge_baseline/{wheel}.log",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(15),
    params:
        folder=lambda wildcards: home(wildcards.wheel),
        settings=settings(
            projects=PROJECTS,
            num_quantiles=config["baseline"]["num_quantiles"],
            max_failed_share=config["baseline"]["max_failed_share"],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --corpus {params.folder}/corpus "
        "--parts {params.folder}/baseline/parts {params.settings} --output {params.folder}/baseline"


rule train_with:
    input:
        lambda wildcards: needed(wildcards.learnt),
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
        modules=lambda wildcards: f"{home(wildcards.learnt)}/corpus/modules.parquet",
        bitcode=lambda wildcards: expand(
            "{home}/corpus/projects/{project}.parquet",
            home=home(wildcards.learnt),
            project=PROJECTS,
        ),
        baseline=lambda wildcards: expand(
            "{home}/baseline/{table}.parquet",
            home=home(wildcards.learnt),
            table=["scores", "copies", "trace", "vocabulary"],
        ),
    output:
        expand(
            "data/generalisation/policies/{{learnt}}-{{train_set}}-s{{seed}}/{file}",
            file=["policy.json", "weights.npy", "history.csv", "failures.parquet"],
        ),
    log:
        "data/work/logs/train_marginal/{learnt}-{train_set}-s{seed}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(3000, 300),
        runtime=minutes(720),
    params:
        folder=lambda wildcards: home(wildcards.learnt),
        settings=lambda wildcards: compiled_by(
            wildcards.learnt,
            task=config["task"],
            bc=config["bc"],
            marginal=config["marginal"]
            | {"modules": TRAIN_SETS[wildcards.train_set]["modules"]},
            replay=config["replay"],
            languages=TRAIN_SETS[wildcards.train_set]["languages"],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --seed {wildcards.seed} {params.settings} "
        "--corpus {params.folder}/corpus --baseline {params.folder}/baseline --workers {threads} --work data/work "
        "--output data/generalisation/policies/{wildcards.learnt}-{wildcards.train_set}-s{wildcards.seed}"


rule evaluate_with:
    input:
        lambda wildcards: needed(wildcards.tested),
        script="scripts/evaluate_policy.py",
        code=code("compiler", "corpus", "wire", "tasks", "policy", "rollout"),
        policy=expand(
            "data/generalisation/policies/{{learnt}}-{{train_set}}-s{{seed}}/{file}",
            file=["policy.json", "weights.npy"],
        ),
        modules=lambda wildcards: f"{home(wildcards.tested)}/corpus/modules.parquet",
        bitcode=lambda wildcards: expand(
            "{home}/corpus/projects/{project}.parquet",
            home=home(wildcards.tested),
            project=PROJECTS,
        ),
        scores=lambda wildcards: f"{home(wildcards.tested)}/baseline/scores.parquet",
        copies=lambda wildcards: f"{home(wildcards.tested)}/baseline/copies.parquet",
    output:
        temp("data/generalisation/parts/{learnt}-{train_set}-s{seed}.{tested}.parquet"),
    log:
        "data/work/logs/evaluate_policy/{learnt}-{train_set}-s{seed}.{tested}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
        disk_mb=2000,
    params:
        folder=lambda wildcards: home(wildcards.tested),
        settings=lambda wildcards: compiled_by(
            wildcards.tested, seed=config["seed"], evaluate=config["evaluate"]
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params.settings} "
        "--policy data/generalisation/policies/{wildcards.learnt}-{wildcards.train_set}-s{wildcards.seed} "
        "--corpus {params.folder}/corpus --baseline {params.folder}/baseline --workers {threads} "
        "--work data/work/generalisation/{wildcards.tested} --output {output}"


rule merge_generalisation:
    input:
        script="scripts/merge_generalisation.py",
        code=code(),
        parts=[
            f"data/generalisation/parts/{learnt}-{train_set}-s{seed}.{tested}.parquet"
            for learnt, train_set, tested in LINEAGES
            for seed in config["train"]["seeds"]
        ],
    output:
        "data/generalisation/results.parquet",
    log:
        "data/work/logs/merge_generalisation.log",
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime=minutes(15),
    params:
        settings(evaluate=config["evaluate"], seed=config["seed"]),
    shell:
        "MLGO_LOG={log} exec python {input.script} --parts {input.parts} --policies data/generalisation/policies "
        "{params} --output {output}"
