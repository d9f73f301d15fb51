# corpus -> baseline -> train -> evaluate -> export -> report.
# Every stage of dvc.yaml also runs alone: snakemake -s workflow/rules/<stage>.smk
from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/common.smk"
include: "workflow/rules/corpus.smk"
include: "workflow/rules/baseline.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/export.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/trial.smk"
include: "workflow/rules/sealed.smk"
include: "workflow/rules/headroom.smk"
include: "workflow/rules/generalisation.smk"
include: "workflow/rules/sweep.smk"
include: "workflow/rules/cse.smk"


rule all:
    default_target: True
    input:
        rules.cse.input if KIND == "choices" else rules.report.input,
