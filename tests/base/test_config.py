"""The configuration: mistakes are named, presets are laid over it."""

import copy
import json
import re
from functools import reduce

import pytest
import yaml

from mlgo.base.config import (
    CompileConfig,
    default_compile,
    json_schema,
    load_config,
    merge,
    parse_config,
    parse_section,
    read_settings,
    write_settings,
)
from mlgo.corpus.recipe import load_recipe
from mlgo.errors import ConfigError
from mlgo.learn.bcmax.explorers import BCMaxConfig
from mlgo.learn.cloning import BCConfig
from mlgo.learn.es.config import ESConfig
from mlgo.learn.marginal.config import MarginalConfig
from mlgo.learn.ppo.config import PPOConfig
from tests.conftest import REPOSITORY

PATH = REPOSITORY / "config" / "config.yaml"


@pytest.fixture
def values():
    return copy.deepcopy(yaml.safe_load(PATH.read_text()))


def test_the_repositorys_configuration_is_valid_and_stays_as_it_is():
    config = load_config(PATH)
    assert config.task == "inline-size"
    assert config.compile.optimization == "-Oz"
    assert config.compile == default_compile()  # what runs without the file compiles as the file says
    with pytest.raises(ValueError, match="frozen"):
        config.es.pairs = 9


SCOREBOARD = {"marginal": 2858, "es": 3056, "ppo": 3204, "bcmax": 2855}
CONTEST = {"marginal": 9834, "es": 9776, "ppo": 10080}


@pytest.mark.parametrize(("over", "seeds", "budgets"), [((), 1, SCOREBOARD), (("contest",), 5, CONTEST)])
def test_learners_of_the_scoreboard_get_about_the_same_number_of_compiles(over, seeds, budgets):
    presets = [REPOSITORY / f"config/presets/{name}.yaml" for name in ("scoreboard", *over)]
    config = load_config(PATH, *presets)
    assert set(config.train.algorithms) == {"bc", *budgets}
    assert len(config.train.seeds) == seeds
    assert {name: budget(getattr(config, name)) for name in budgets} == budgets


def budget(learner) -> int:
    """Compiles that a training asks for, with validations of 44 modules."""
    match learner:
        case MarginalConfig():
            assert learner.compiles == learner.max_compiles
            rounds, per_round = learner.rounds, learner.modules * learner.compiles
            return rounds * per_round + 44 * (rounds + 1)
        case ESConfig():
            steps, per_step = learner.generations, 2 * learner.pairs * learner.modules_per_pair
        case PPOConfig():
            steps, per_step = learner.iterations, learner.modules * learner.episodes
        case BCMaxConfig():
            per_round = learner.modules * (1 + learner.flipped + learner.perturbed)
            first = learner.modules * (1 + len(learner.references))
            return first + learner.rounds * per_round + 44 * (learner.rounds + 1)
    return steps * per_step + 44 * len({*range(0, steps + 1, learner.validate_every), steps})


def test_all_train_sets_get_the_same_number_of_compiles():
    config = load_config(PATH, REPOSITORY / "config/presets/generalisation.yaml")
    assert config.marginal.compiles == config.marginal.max_compiles
    assert {one.modules for one in config.generalisation.train_sets.values()} == {170}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("es.pears", 3, r"unknown key 'es\.pears'; known here: .*generations.*pairs.*step_size"),
        ("sede", 3, r"unknown key 'sede'; known here: .*seed, sweep, target"),
        ("corpus.splits.training", [], r"unknown key 'corpus\.splits\.training'; known here: test, train, validation"),
        ("es.pairs", "8", r"es\.pairs: .*integer.*'8'"),
        ("es.pairs", 8.5, r"es\.pairs: .*integer"),
        ("es.pairs", True, r"es\.pairs: "),
        ("es.pairs", None, r"es\.pairs: "),
        ("es.pairs", 0, r"es\.pairs: .*greater than or equal to 1, got 0"),
        ("es.step_decay", 0.0, r"es\.step_decay: .*greater than 0"),
        ("es.step_decay", 1.1, r"es\.step_decay: .*less than or equal to 1"),
        ("es.flip_share", 1.0, r"es\.flip_share: .*less than 1"),
        ("es.modules_per_pair", -1, r"es\.modules_per_pair: .*greater than or equal to 0"),
        ("es.save_every", -1, r"es\.save_every: .*greater than or equal to 0"),
        ("seed", -1, r"seed: .*greater than or equal to 0"),
        ("seed", "0", r"seed: "),
        ("corpus.max_failed_share", 1.5, r"corpus\.max_failed_share: .*less than or equal to 1"),
        ("corpus.max_failed_share", -0.1, r"corpus\.max_failed_share: "),
        ("compile.compile_timeout_s", 0.0, r"compile\.compile_timeout_s: .*greater than 0"),
        ("compile.compile_timeout_s", float("nan"), r"compile\.compile_timeout_s: "),
        ("compile.compile_timeout_s", float("inf"), r"compile\.compile_timeout_s: "),
        ("compile.answer_timeout_s", float("inf"), r"compile\.answer_timeout_s: "),
        ("compile.size_stop_factor", float("inf"), r"compile\.size_stop_factor: "),
        ("compile.size_stop_factor", 1.0, r"compile\.size_stop_factor: .*greater than 1"),
        ("compile.objective", "speed", r"compile\.objective: .*text_bytes"),
        ("compile.optimization", "-O1", r"compile\.optimization: "),
        ("task", "regalloc", r"task: .*inline-size"),
        ("toolchain", "", r"toolchain: "),
        ("train.algorithms", ["dqn"], r"train\.algorithms\.0: "),
        ("train.algorithms", [], r"train\.algorithms: "),
        ("bcmax.references", ["never", "heuristic"], r"bcmax\.references\.1: .*random"),
        ("bcmax.policies", ["a", "a"], r"bcmax\.policies: .*twice"),
        ("bcmax.flip_share", 1.5, r"bcmax\.flip_share: "),
        ("bc.weighting", "modules", r"bc\.weighting: .*sqrt"),
        ("bc.balance", 1, r"bc\.balance: "),
        ("train.seeds", [0, -1], r"train\.seeds\.1: "),
        ("train.seeds", 0, r"train\.seeds: "),
        ("train.seeds", [2**40], r"train\.seeds\.0: "),  # Keras takes 32 bits
        ("policy.hidden", [32, 0], r"policy\.hidden\.1: "),
        ("evaluate.confidence", 1.0, r"evaluate\.confidence: "),
        ("evaluate.splits", ["train"], "must contain test"),
        ("evaluate.splits", ["test", "test"], "twice"),
        ("evaluate.splits", ["tset"], r"evaluate\.splits\.0: "),
        ("corpus", 3, r"corpus: "),
        (
            "generalisation.compilers.llvm19.versoin",
            "1",
            r"key 'generalisation\.compilers\.llvm19\.versoin'; known here: s",
        ),
        ("generalisation.compilers.llvm19.sha256.x86_64", "9fcd", r"llvm19\.sha256\.x86_64: .*pattern"),
        ("generalisation.compilers.main", {}, r"generalisation\.compilers\.main\.\[key\]: .*pattern"),
        ("generalisation.train_sets.c.languages", ["c", "d"], r"train_sets\.c\.languages\.1: .*'c\+\+', 'c' or 'rust'"),
        ("ppo.baseline", "none", r"ppo\.baseline: .*'siblings' or 'functions'"),
        ("generalisation.across", "d", r"generalisation: .*across must name one of train_sets \(both, c, c\+\+\)"),
    ],
)
def test_mistakes_name_their_key(key, value, message, values):
    *path, last = key.split(".")
    reduce(dict.get, path, values)[last] = value
    with pytest.raises(ConfigError, match=message):
        parse_config(values)


@pytest.mark.parametrize(
    ("ppo", "es", "message"),
    [
        ({"baseline": "siblings", "episodes": 1}, {}, r"ppo\.episodes: .* greater than or equal to 2"),
        ({"start": "es"}, {"start": "ppo"}, r"es\.start and ppo\.start name each other"),
    ],
)
def test_settings_that_contradict_each_other(ppo, es, message, values):
    with pytest.raises(ConfigError, match=message):
        parse_config(values | {"ppo": values["ppo"] | ppo, "es": values["es"] | es})


def test_missing_keys_are_named(values):
    del values["es"]["pairs"]
    del values["seed"]
    with pytest.raises(ConfigError) as caught:
        parse_config(values, "my.yaml")
    assert "key 'es.pairs' is missing" in str(caught.value)
    assert "key 'seed' is missing" in str(caught.value)
    assert str(caught.value).startswith("my.yaml: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second"), [("train", "test"), ("train", "validation"), ("validation", "test"), ("train", "train")]
)
def test_a_project_in_two_splits(first, second, values):
    project = values["corpus"]["splits"][first][0]
    values["corpus"]["splits"][second].append(project)
    with pytest.raises(ConfigError, match=f"'{project}' is named twice in corpus.splits \\({first} and {second}\\)"):
        parse_config(values)


@pytest.mark.parametrize(
    ("split", "project", "form", "message"),
    [
        ("train", "a@program", "objects", "a@program: no such form; a project may have the forms whole, thin"),
        ("train", "a@", "objects", "a@: no such form"),
        ("validation", "a@whole", "objects", "a@whole: projects that judge have the form of compile.ships.form"),
        ("test", "a@thin", "objects", "a@thin: projects that judge have the form of compile.ships.form"),
        ("train", "a@whole", "program", "a@whole: with form program all projects are programs"),
    ],
)
def test_forms_that_a_project_may_not_have(split, project, form, message, values):
    values["corpus"]["splits"][split].append(project)
    values["compile"]["ships"]["form"] = form
    with pytest.raises(ConfigError, match=message):
        parse_config(values)


def test_presets_are_laid_over_in_order(tmp_path, values):
    forms = "[a, a@whole, a@thin]"  # a project may be there in several
    (tmp_path / "one.yaml").write_text(f"es: {{pairs: 2, modules: 3}}\ncorpus: {{splits: {{train: {forms}}}}}\n")
    (tmp_path / "two.yaml").write_text("es: {modules: 5}\ncompile: {compile_timeout_s: 90}\n")
    config = load_config(PATH, tmp_path / "one.yaml", tmp_path / "two.yaml")
    assert (config.es.pairs, config.es.modules) == (2, 5)
    assert config.es.generations == values["es"]["generations"]
    assert config.compile.compile_timeout_s == 90.0
    assert config.corpus.splits.train == ["a", "a@whole", "a@thin"]  # lists are replaced, not joined
    assert config.corpus.splits.test == values["corpus"]["splits"]["test"]
    (tmp_path / "bad.yaml").write_text("es: {pairz: 2}\n")
    with pytest.raises(ConfigError, match=r"config\.yaml \+ .*bad\.yaml: unknown key 'es\.pairz'"):
        load_config(PATH, tmp_path / "bad.yaml")


def test_unreadable_files(tmp_path):
    for path in (tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(ConfigError, match=f"cannot read .*{path.name}"):
            load_config(path)
    for data in (b"a: [", b"\xff\xfe\xfa", b"a: b: c", b"\0"):
        (tmp_path / "x.yaml").write_bytes(data)
        with pytest.raises(ConfigError, match=r"x\.yaml"):
            load_config(tmp_path / "x.yaml")
    for value in (None, [], 3, "text"):
        with pytest.raises(ConfigError):
            parse_config(value)
    (tmp_path / "list.yaml").write_text("[1, 2]")
    with pytest.raises(ConfigError, match=r"list\.yaml is no mapping of sections"):
        read_settings(tmp_path / "list.yaml")


def test_merge_by_hand():
    base = {"a": 1, "b": {"c": 2, "d": [1, 2]}, "e": {"f": 3}}
    merged = merge(base, {"b": {"d": [9], "new": 5}, "e": 7, "g": 8})
    assert merged == {"a": 1, "b": {"c": 2, "d": [9], "new": 5}, "e": 7, "g": 8}
    assert base == {"a": 1, "b": {"c": 2, "d": [1, 2]}, "e": {"f": 3}}


def test_sections_as_workflow_rules_hand_them_over(values):
    assert parse_section(ESConfig, values["es"]).pairs == values["es"]["pairs"]
    for wrong in ([], "", None, {"pairs": 1}):
        with pytest.raises(ConfigError, match="ESConfig"):
            parse_section(ESConfig, wrong)
    with pytest.raises(ConfigError, match="unknown key 'extra'"):
        parse_section(CompileConfig, values["compile"] | {"extra": 1})


def test_every_preset_is_named_in_the_readme_and_every_setting_is_explained():
    _, _, part = (REPOSITORY / "config/README.md").read_text().partition("\n## Presets\n")
    rows = [line for line in part.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert named == {path.stem for path in (REPOSITORY / "config/presets").glob("*.yaml")}
    settings = [(n, one) for kind in json_schema()["$defs"].values() for n, one in kind["properties"].items()]
    assert [name for name, setting in settings if not setting.get("description")] == []
    assert json_schema()["$schema"].startswith("https://json-schema.org/")


def test_a_program_gets_the_settings_of_its_rule_and_no_others(tmp_path, values):
    values["bc"]["learning_rate"], values["es"]["step_size"] = 0.00001, 1e300  # small and large numbers survive
    both = read_settings(write_settings(tmp_path, values, "bc", "es"))
    assert both.section("bc", BCConfig).learning_rate == 0.00001
    assert both.section("es", ESConfig).step_size == 1e300
    path = write_settings(tmp_path, values, "seed", "compile.objective", "evaluate.splits")
    assert json.loads(path.read_text()) == {
        "seed": 0,
        "compile": {"objective": "text_bytes"},
        "evaluate": {"splits": ["test", "validation", "train"]},
    }
    settings = read_settings(path)
    assert settings.value("compile.objective") == "text_bytes"
    assert "compile.optimization" not in settings
    for key in ("es", "compile.optimization", "seed.more"):
        with pytest.raises(ConfigError, match=rf"\.json: key '{key}' is missing"):
            settings.value(key)
    with pytest.raises(ConfigError, match=r"section compile: key 'optimization' is missing"):
        settings.section("compile", CompileConfig)


def test_the_file_of_settings_has_another_name_when_one_of_them_changes(tmp_path, values):
    first = write_settings(tmp_path, values, "bc", "seed")
    values["es"]["pairs"] = 99
    assert write_settings(tmp_path, values, "seed", "bc") == first
    values["seed"] = 1
    assert write_settings(tmp_path, values, "bc", "seed") != first
    assert len(list(tmp_path.iterdir())) == 2
    assert read_settings(first).value("seed") == 0
    first.write_text(first.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(ConfigError, match=r"\.json is not what its name says; delete it"):
        read_settings(first)
    with pytest.raises(ConfigError, match=r"key 'bc\.pairs' is missing"):
        write_settings(tmp_path, values, "bc.pairs")


def test_the_default_corpus_is_large_enough_to_learn_from_and_to_decide_by():
    corpus = load_config(PATH).corpus
    assert len(corpus.splits.train) >= 40
    assert len(corpus.splits.validation) >= 10
    recipes = {name: load_recipe(REPOSITORY / corpus.recipes / f"{name}.yaml") for name in corpus.splits.projects}
    decide = [any(unit.language == "c++" for unit in recipes[name].units) for name in corpus.splits.validation]
    assert 2 * sum(decide) >= len(decide)
    assert not corpus.splits.test
