"""Rules say what they need, and profiles say nothing that nobody reads."""

import re
import shutil
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from snakemake.cli import get_argument_parser

from benchmarks.cores import watch_cores
from tests.conftest import REPOSITORY as ROOT

PROFILES = sorted((ROOT / "workflow/profiles").glob("*/config.yaml"))
PLUGINS = {
    "slurm": "snakemake_executor_plugin_slurm",
    "kubernetes": "snakemake_executor_plugin_kubernetes",
}
BY_RULE = ("set-resources", "set-threads", "groups", "set-resource-scopes")
"""Keys whose entries name rules."""


def rules() -> dict[str, str]:
    """Texts of all rules that run a program, by name."""
    texts = {}
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        for part in re.split(r"(?m)^(?:rule|checkpoint) (?=\w+:)", path.read_text())[1:]:
            if "\n    shell:" in part:
                texts[part[: part.index(":")]] = part
        for part in path.read_text().split("\n    rule:\n")[1:]:  # one text for several rules, named by a table
            names = re.findall(r'(?m)^ +f?"((?:train|evaluate)_[\w{}]+)": ', path.read_text())
            own = part.split("\nrule ")[0].splitlines()
            texts.update(dict.fromkeys(names, "\n".join(line[4:] for line in own) + "\n"))
    return texts


RULES = rules()


def options() -> set[str]:
    return {name for action in get_argument_parser()._actions for name in action.option_strings}


def test_there_are_rules_and_profiles():
    assert len(RULES) >= 25
    assert {"train_{one}", "train_point", "evaluate_policy", "evaluate_point"} <= set(RULES)
    assert {path.parent.name for path in PROFILES} >= {"default", "slurm", "kubernetes"}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_says_how_many_cores_how_much_memory_and_how_long(rule):
    text = RULES[rule]
    threads = r"(?m)^    threads:(?: \d+| (?:MANY|PROJECT)_CORES|\n        lambda wildcards: \()$"
    assert len(re.findall(threads, text)) == 1
    assert len(re.findall(r"(?m)^        mem_mb=memory\(\d+(, \d+)?\),$", text)) == 1
    assert len(re.findall(r"(?m)^        runtime=minutes\(\d+\),$", text)) == 1
    starts_workers = "{threads}" in text
    assert starts_workers == ("threads: 1\n" not in text)
    assert starts_workers == bool(re.search(r"mem_mb=memory\(\d+, \d+\)", text))


def test_the_table_of_the_docs_is_what_the_rules_say():
    row = re.compile(r"(?m)^\| (`\w+`(?:, `\w+`)*) \| (\d+) \| (\d+)(?: \+ (\d+) per thread)? \| (\d+) \|")
    said = {
        name: (threads, memory, per_thread, minutes)
        for names, threads, memory, per_thread, minutes in row.findall((ROOT / "docs/clusters.md").read_text())
        for name in re.findall(r"\w+", names)
    }
    figures = re.compile(r"(?s)    threads: (\w+)\n.*?memory\((\d+)(?:, (\d+))?\).*?minutes\((\d+)\)")
    most = {"MANY_CORES": "32", "PROJECT_CORES": "8"}
    plain = {name: re.sub("|".join(most), lambda one: most[one[0]], text) for name, text in RULES.items()}
    found = {name: figures.search(text) for name, text in plain.items()}
    assert said == {name: one.groups("") for name, one in found.items() if one}
    assert {name for name, one in found.items() if not one} == {"train_with", "train_point", "train_{one}"}


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.parent.name)
def test_each_key_of_a_profile_is_read_by_snakemake_or_by_its_executor(path):
    profile = yaml.safe_load(path.read_text())
    executor = profile.get("executor", "")
    known = options()
    for key in profile:
        assert f"--{key}" in known or key.startswith(f"{executor}-"), f"{path}: nobody reads {key}"
    for key in BY_RULE:
        assert set(profile.get(key, {})) <= set(RULES)


@pytest.mark.parametrize("executor", PLUGINS)
def test_each_key_for_an_executor_is_one_of_its_settings(executor):
    pytest.importorskip(PLUGINS[executor], reason=f"extra {executor} is not installed")
    settings = {one.name.replace("_", "-") for one in fields(import_module(PLUGINS[executor]).ExecutorSettings)}
    profile = yaml.safe_load((ROOT / f"workflow/profiles/{executor}/config.yaml").read_text())
    assert {key.removeprefix(f"{executor}-") for key in profile if key.startswith(f"{executor}-")} <= settings


def test_figures_of_rules_follow_threads_and_attempts():
    common = (ROOT / "workflow/rules/common.smk").read_text()
    helpers = "".join(re.findall(r"(?ms)^def (?:memory|minutes).*?(?=^\S)", common + "\nend"))
    names: dict = {}
    exec(helpers, names)
    assert names["memory"](500, 300)(None, threads=8, attempt=1) == 500 + 8 * 300
    assert names["memory"](500, 300)(None, threads=8, attempt=2) == 2 * (500 + 8 * 300)
    assert names["memory"](500)(None, threads=1, attempt=3) == 1500
    assert names["minutes"](30)(None, attempt=2) == 60


def test_other_figures_make_nothing_anew(finished):
    files = [finished.root / "workflow/rules" / path.name for path in (ROOT / "workflow/rules").glob("*.smk")]
    before = {path: path.read_text() for path in files}
    try:
        for path, text in before.items():
            text = text.replace("MANY_CORES = 32", "MANY_CORES = 3").replace("    threads: 8\n", "    threads: 2\n")
            text = re.sub(r"memory\(\d+", "memory(77", text)
            path.write_text(re.sub(r"minutes\(\d+", "minutes(7", text))
        assert {path.read_text() for path in files} != set(before.values())
        assert finished.is_done(*finished.snakemake("--cores", "5"))
    finally:
        for path, text in before.items():
            path.write_text(text)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_with_one_core_nothing_computes_side_by_side(finished, tmp_path):
    checkout = tmp_path / "copy"
    shutil.copytree(finished.root, checkout, symlinks=True)
    command = [str(Path(sys.executable).parent / "snakemake"), "--cores", "1", "--forceall"]
    command += ["--configfile", "config/presets/tiny.yaml"]
    environment = {**finished.environment, "PYTHONPATH": str(checkout)}
    planned = [*command, "--dry-run", "--quiet", "rules"]
    plan = subprocess.run(planned, cwd=checkout, env=environment, capture_output=True, text=True, check=True)
    (total,) = set(re.findall(r"^total +(\d+)$", plan.stdout + plan.stderr, re.MULTILINE))
    status, uses = watch_cores(command, cwd=checkout, env=environment)
    assert status == 0
    assert len(uses) == int(total)  # `all` is in the plan, but runs nothing; the last of the uses is their total
    for job in uses:
        # Host and compiler hand over to each other, and a thread that wakes another one still runs for a moment.
        assert job.cores <= 1.05, job
        assert job.runnable <= 1.15 or job.seconds < 3.0, job
