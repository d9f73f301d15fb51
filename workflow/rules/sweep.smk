# Trainings under settings that vary, side by side. Not part of the default run: make sweep, or snakemake sweep.
include: "points.smk"


rule sweep:
    input:
        "data/sweep/sweep.html",
        "data/sweep/sweep.json",


rule build_project_of:
    input:
        lambda wildcards: local_sources(
            wildcards, home_config(wildcards)["corpus"]["recipes"]
        ),
        script="scripts/build_project.py",
        code=code("corpus", "compiler", "tasks", "wire"),
        recipe=lambda wildcards: f"{home_config(wildcards)['corpus']['recipes']}/{wildcards.project}.yaml",
    output:
        "data/sweep/homes/{home}/corpus/projects/{project}.parquet",
    log:
        "data/work/logs/build_project/{home}/{project}.log",
    threads: 8
    resources:
        mem_mb=memory(300, 200),
        runtime=minutes(30),
    params:
        lambda wildcards: compiler_settings(
            home_config(wildcards),
            task=home_config(wildcards)["task"],
            seed=home_config(wildcards)["seed"],
            max_modules=home_config(wildcards)["corpus"]["max_modules_per_project"],
            max_failed_share=home_config(wildcards)["corpus"]["max_failed_share"],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --project {wildcards.project} --recipe {input.recipe} {params} "
        "--threads {threads} --work data/work --output {output}"


rule assemble_corpus_of:
    input:
        script="scripts/assemble_corpus.py",
        code=code("corpus"),
        projects=lambda wildcards: expand(
            "data/sweep/homes/{home}/corpus/projects/{project}.parquet",
            home=wildcards.home,
            project=projects_of(home_config(wildcards)),
        ),
    output:
        "data/sweep/homes/{home}/corpus/modules.parquet",
        "data/sweep/homes/{home}/corpus/summary.json",
    log:
        "data/work/logs/assemble_corpus/{home}.log",
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime=minutes(15),
    params:
        lambda wildcards: settings(splits=home_config(wildcards)["corpus"]["splits"]),
    shell:
        "MLGO_LOG={log} exec python {input.script} --corpus data/sweep/homes/{wildcards.home}/corpus {params}"


rule score_project_of:
    input:
        script="scripts/score_project.py",
        code=code("compiler", "corpus", "policy", "rollout", "tasks", "wire"),
        modules="data/sweep/homes/{home}/corpus/modules.parquet",
        bitcode="data/sweep/homes/{home}/corpus/projects/{project}.parquet",
    output:
        scores=temp("data/sweep/homes/{home}/baseline/parts/{project}.scores.parquet"),
        trace=temp("data/sweep/homes/{home}/baseline/parts/{project}.trace.parquet"),
        functions=temp(
            "data/sweep/homes/{home}/baseline/parts/{project}.functions.parquet"
        ),
        copies=temp("data/sweep/homes/{home}/baseline/parts/{project}.copies.parquet"),
    log:
        "data/work/logs/score_project/{home}/{project}.log",
    threads: 8
    resources:
        mem_mb=memory(500, 300),
        runtime=minutes(60),
    params:
        lambda wildcards: compiler_settings(
            home_config(wildcards),
            task=home_config(wildcards)["task"],
            seed=home_config(wildcards)["seed"],
            random_inline_share=home_config(wildcards)["baseline"][
                "random_inline_share"
            ],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --project {wildcards.project} "
        "--corpus data/sweep/homes/{wildcards.home}/corpus {params} --workers {threads} "
        "--work data/work/sweep/{wildcards.home} --scores {output.scores} --trace {output.trace} "
        "--functions {output.functions} --copies {output.copies}"


rule merge_baseline_of:
    input:
        script="scripts/merge_baseline.py",
        code=code("policy", "rollout"),
        modules="data/sweep/homes/{home}/corpus/modules.parquet",
        parts=lambda wildcards: expand(
            "data/sweep/homes/{home}/baseline/parts/{project}.{kind}.parquet",
            home=wildcards.home,
            project=projects_of(home_config(wildcards)),
            kind=["scores", "functions", "trace", "copies"],
        ),
    output:
        "data/sweep/homes/{home}/baseline/scores.parquet",
        "data/sweep/homes/{home}/baseline/functions.parquet",
        "data/sweep/homes/{home}/baseline/copies.parquet",
        "data/sweep/homes/{home}/baseline/trace.parquet",
        "data/sweep/homes/{home}/baseline/vocabulary.parquet",
        "data/sweep/homes/{home}/baseline/summary.json",
    log:
        "data/work/logs/merge_baseline/{home}.log",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(15),
    params:
        lambda wildcards: settings(
            projects=projects_of(home_config(wildcards)),
            num_quantiles=home_config(wildcards)["baseline"]["num_quantiles"],
            max_failed_share=home_config(wildcards)["baseline"]["max_failed_share"],
        ),
    shell:
        "MLGO_LOG={log} exec python {input.script} --corpus data/sweep/homes/{wildcards.home}/corpus "
        "--parts data/sweep/homes/{wildcards.home}/baseline/parts {params} "
        "--output data/sweep/homes/{wildcards.home}/baseline"


# A training that fails leaves its message instead of a policy, and counts as done: others go on, and the page tells.
rule clone_point:
    input:
        lambda wildcards: needs_of(swept().trainings[f"bc,{wildcards.rest}"]),
        script="scripts/train_bc.py",
        code=code("corpus", "learn", "policy"),
    output:
        directory("data/sweep/policies/bc,{rest}-s{seed}"),
    log:
        "data/work/logs/train_bc/bc,{rest}-s{seed}.log",
    threads: 1
    resources:
        mem_mb=memory(3000),
        runtime=minutes(60),
    params:
        folder=lambda wildcards: home_folder(
            swept().trainings[f"bc,{wildcards.rest}"].home
        ),
        settings=lambda wildcards: settings(
            **{
                name: swept().trainings[f"bc,{wildcards.rest}"].config[name]
                for name in ["task", "bc", "policy"]
            }
        ),
    shell:
        "MLGO_LOG={log:q} MLGO_FAILURE={output:q}/failure.json exec python {input.script} --seed {wildcards.seed} "
        "{params.settings} --corpus {params.folder}/corpus --baseline {params.folder}/baseline --work data/work "
        "--output {output:q}"


rule train_point:
    input:
        lambda wildcards: needs_of(swept().trainings[wildcards.compiling]),
        start_of,
        script=lambda wildcards: f"scripts/train_{swept().trainings[wildcards.compiling].learner}.py",
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
    output:
        directory("data/sweep/policies/{compiling}-s{seed}"),
    log:
        "data/work/logs/train_point/{compiling}-s{seed}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(3000, 300),
        runtime=minutes(720),
    params:
        folder=lambda wildcards: home_folder(
            swept().trainings[wildcards.compiling].home
        ),
        settings=training_settings,
    shell:
        "MLGO_LOG={log:q} MLGO_FAILURE={output:q}/failure.json exec python {input.script} --seed {wildcards.seed} "
        "{params.settings} --corpus {params.folder}/corpus --baseline {params.folder}/baseline --workers {threads} "
        "--work data/work --output {output:q}"


rule evaluate_point:
    input:
        lambda wildcards: needs_of(swept().trainings[wildcards.point]),
        script="scripts/evaluate_policy.py",
        code=code("compiler", "corpus", "wire", "tasks", "policy", "rollout"),
        policy="data/sweep/policies/{point}-s{seed}",
    output:
        directory("data/sweep/results/{point}-s{seed}"),
    log:
        "data/work/logs/evaluate_policy/{point}-s{seed}.log",
    threads: MANY_CORES
    resources:
        mem_mb=memory(1000, 300),
        runtime=minutes(240),
    params:
        folder=lambda wildcards: home_folder(swept().trainings[wildcards.point].home),
        settings=lambda wildcards: compiler_settings(
            swept().trainings[wildcards.point].config,
            seed=config["seed"],
            evaluate=config["evaluate"] | {"splits": ["test", "validation"]},
        ),
    shell:
        "MLGO_LOG={log:q} MLGO_FAILURE={output:q}/failure.json exec python {input.script} {params.settings} "
        "--policy {input.policy:q} --corpus {params.folder}/corpus --baseline {params.folder}/baseline "
        "--workers {threads} --work data/work/sweep --output {output:q}/results.parquet"


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
        # What the configuration says of other stages changes nothing here.
        lambda wildcards: settings(config=config),
    shell:
        "MLGO_LOG={log} exec python {input.script} {params} --work data/work --output data/sweep"
