# Trace -> cloned policy -> policies that learned from compiles; those of generalisation and of a sweep are trained by the
# same rule, at their places.
if "TRAIN_SETS" not in globals():

    include: "policies.smk"


rule train:
    input:
        [
            trained(f"data/{HOME}policies/{learner}-s{seed}", learner)
            for learner in config["train"]["algorithms"]
            for seed in config["train"]["seeds"]
        ],


# By rule: folder of the policies, and who learns.
TRAININGS = {
    "train_with": ("generalisation/policies/{learnt}-{train_set}-s{seed}", "marginal"),
    "train_point": ("sweep/policies/{point}-s{seed}", ""),
    **{
        f"train_{one}": (f"{HOME}policies/{{learner}}-s{{seed}}", one)
        for one in LEARNERS.names()
        if KIND in LEARNERS.get(one).sections
    },
}

for name, (folder, learner) in TRAININGS.items():

    rule:
        name:
            name
        input:
            training_input,
            script=source("scripts/train.py"),
            code=training_code,
        output:
            # A training of a sweep may leave a message instead of a policy: it counts as done, others go on.
            trained(f"data/{folder}", learner)
            if learner
            else directory(f"data/{folder}"),
        log:
            f"data/work/logs/{name}/{Path(folder).name}.log",
        wildcard_constraints:
            learner=learner,
        threads:
            lambda wildcards: (
                MANY_CORES
                if kind_of(training(wildcards).values)
                in LEARNERS.get(training(wildcards).learner).compiles
                else 1
            )
        resources:
            mem_mb=memory(3000, 300),
            runtime=minutes(720),
        params:
            config=training_settings,
            learner=lambda wildcards: training(wildcards).learner,
            home=lambda wildcards: f"data/{training(wildcards).place}",
            options=training_options,
            output=f"data/{folder}",
            failure="" if learner else f"data/{folder}/failure.json",
        shell:
            "MLGO_LOG={log:q} MLGO_FAILURE={params.failure:q} exec python {input.script:q} {params.learner} --config {params.config} "
            "--seed {wildcards.seed} --home {params.home:q} {params.options} --workers {threads} --output {params.output:q}"
