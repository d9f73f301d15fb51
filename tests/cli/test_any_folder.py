"""Any folder: which configuration is used where nobody names one, and what `mlgo init` writes."""

import json
import os
from pathlib import Path

import pytest
import yaml

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, PROJECT, provenance, write_rows
from mlgo.base.config import OF_CHECKOUT, default_config, load_config, package_config
from mlgo.corpus.build import BuildLimits, captured_project
from mlgo.corpus.recipe import load_recipe
from mlgo.errors import ConfigError
from tests.cli.conftest import run_here
from tests.conftest import REPOSITORY

OWN = REPOSITORY / "config/config.yaml"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """An empty repository of Git, in a folder whose name no shell takes for a word."""
    root = tmp_path / 'my app\'s "ü" $(false)'
    (root / ".git").mkdir(parents=True)
    (root / "src").mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(tmp_path))
    return root


def capture(folder: Path, names: list[str], task: str = "inline-size") -> Path:
    """What `mlgo capture` leaves, without bitcode."""
    empty = {"bitcode": b"", "function_hashes": [], "function_sizes": [], "skip_reason": "", "licence": "MIT"}
    rows = [{"project": "x", "module": name, "language": "c", "ir_sha256": name, **empty} for name in names]
    part = {"parts": [{"kind": "object", "modules": names}], "foreign": [], "libraries": [], "options": []}
    program = {"project": "x", "program": "x.so", "kind": "shared", "version_script": "", "export_dynamic": False}
    write_rows(folder / "project.parquet", rows, PROJECT, provenance(task=task))
    write_rows(folder / "programs.parquet", [{**program, **part, "entry": ""}], PROGRAMS_OF_PROJECT, provenance())
    return folder


def test_settings_are_found_upwards_as_far_as_the_repository_or_the_home(repository, monkeypatch, capsys):
    (repository.parent / "mlgo.yaml").write_text("seed: 3\n")
    assert default_config().samefile(OWN)  # not above .git
    (repository / "mlgo.yaml").write_text("seed: 7\ntrain: {seeds: [1, 2]}\n")
    for folder in (repository, repository / "src"):
        monkeypatch.chdir(folder)
        run_here("config", "show", "--json")
        shown = json.loads(capsys.readouterr().out)
        assert (shown["seed"], shown["train"]["seeds"]) == (7, [1, 2])
        assert shown["es"] == package_config()["es"]  # what it does not state
    (repository / ".git").rmdir()
    (repository / "mlgo.yaml").unlink()
    assert load_config(default_config()).seed == 3  # in the home
    monkeypatch.setenv("HOME", "/nowhere")
    assert default_config().samefile(OWN)  # neither home nor .git is above: only what is here counts


def test_a_named_file_wins_and_an_empty_one_changes_nothing(repository, capsys):
    (repository / "mlgo.yaml").write_text("toolchain: /bin/false\n")
    (repository / "src/mlgo.yaml").write_text("# nothing\n")
    for path, toolchain in (("mlgo.yaml", "/bin/false"), ("src/mlgo.yaml", "auto")):
        run_here("config", "show", "--json", "--config", path)
        assert json.loads(capsys.readouterr().out)["toolchain"] == toolchain


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("toolchain: ./clang", "names a program or an address by toolchain"),
        ("workers: {address: 'host:1'}", r"names a program or an address by workers\.address"),
        ("workers: {kind: nested}", r"by workers\.kind"),
        ("cse: {superpmi: {command: [sh]}}", r"by cse\.superpmi\.command"),
        ("generalisation: {compilers: {llvm9: {version: '1'}}}", r"by generalisation\.compilers\.llvm9\.version"),
        ("corpus: {recipes: /etc}", r"names a path outside of its folder by corpus\.recipes, '/etc'"),
        ("bcmax: {policies: [a, ../b]}", r"outside of its folder by bcmax\.policies, '\.\./b'"),
        ("compile: {ir2vec: away}", r"outside of its folder by compile\.ir2vec"),
        ("compile: {compile_timeout_s: .inf}", r"wait longer than 3600 s by compile\.compile_timeout_s"),
        ("sede: 3", r"mlgo\.yaml: unknown key 'sede'"),
        ("es: {pears: 3}", r"mlgo\.yaml: unknown key 'es\.pears'"),
        ("[1]", r"mlgo\.yaml is no mapping"),
        ("\0\1\2", r"mlgo\.yaml is not YAML"),
    ],
)
def test_what_was_found_names_no_program_and_nothing_outside(text, message, repository):
    (repository / "away").symlink_to("/etc")
    (repository / "mlgo.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        run_here("config", "show")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 30)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_fifo, "it is no regular file"),
        (_huge, "it has 1,073,741,824 bytes"),
        (Path.mkdir, "it is a folder"),
        (lambda path: path.symlink_to("/etc/passwd"), "leads out of its folder through a link"),
        (lambda path: path.symlink_to("gone"), "No such file"),
    ],
)
def test_what_was_found_is_a_file_of_this_folder(make, message, repository):
    make(repository / "mlgo.yaml")
    with pytest.raises(ConfigError, match=message):
        default_config()


def test_a_file_of_another_user_is_not_taken_unless_it_is_named(repository, monkeypatch):
    (repository / "mlgo.yaml").write_text("seed: 7\n")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    if os.getuid():
        with pytest.raises(ConfigError, match=rf"belongs to another user \({os.getuid()}\).* --config .* trusts it"):
            default_config()
    assert load_config(repository / "mlgo.yaml").seed == 7


def test_a_folder_that_was_deleted_has_the_package_s_settings(repository):
    (repository / "gone").mkdir()
    os.chdir(repository / "gone")
    (repository / "gone").rmdir()
    assert default_config().samefile(OWN)


def test_nothing_is_left_in_an_empty_folder(repository):
    before = sorted(repository.rglob("*"))
    with pytest.raises(ConfigError, match="there is no workflow/schemas"):
        run_here("config", "schema")
    assert sorted(repository.rglob("*")) == before


def test_a_checkout_of_others_is_checked_too(repository):
    (repository / "config/corpora").mkdir(parents=True)
    (repository / OF_CHECKOUT).write_text(OWN.read_text())
    assert default_config() == OF_CHECKOUT
    (repository / OF_CHECKOUT).write_text(OWN.read_text().replace("toolchain: auto", "toolchain: ./clang"))
    with pytest.raises(ConfigError, match="by toolchain"):
        default_config()


def test_init_holds_a_quarter_of_a_single_project_out(repository, capsys):
    names = [f"{number}.c" for number in range(20)]
    capture(repository / "captured/a b'ü${c}", names)
    run_here("init", "--project", "captured/a b'ü${c}")
    printed = capsys.readouterr().out
    assert "'captured/a b'\"'\"'ü${c}'" in printed  # as a shell takes it
    assert load_config(default_config()).corpus.splits.model_dump() == {
        "train": ["a-b-c"],
        "validation": ["a-b-c-held-out"],
        "test": [],
    }
    stages = yaml.safe_load((repository / "dvc.yaml").read_text())["stages"]
    assert "captured/a b'ü\\${c}/project.parquet" in stages["corpus"]["deps"]
    assert not [stage for stage in stages.values() if "captured" in stage["cmd"]]
    taken = []
    for name in ("a-b-c", "a-b-c-held-out"):
        recipe = load_recipe(repository / f"mlgo-projects/{name}.yaml")
        rows, programs = captured_project(name, recipe, "inline-size", BuildLimits(100, 0.1, 0, 1))
        taken.append([row["module"] for row in rows if not row["skip_reason"]])
        assert [part["modules"] for part in programs[0]["parts"]] == [sorted(taken[-1], key=names.index)]
    assert sorted([*taken[0], *taken[1]]) == sorted(names)
    assert len(taken[0]) > len(taken[1]) > 0


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("there", "arguments", "message"),
    [
        ("Snakefile", ["--project", "captured/a"], "Snakefile is there already; nothing was written"),
        ("workflow/Snakefile", ["--project", "captured/a"], "workflow/Snakefile is there already"),
        ("dvc.yaml", ["--project", "captured/a"], r"dvc\.yaml is there already"),
        ("data/corpus/mine", ["--project", "captured/a"], "data/corpus is there already"),
        ("mlgo-projects/a.yaml", ["--project", "captured/a"], r"mlgo-projects/a\.yaml is there already"),
        ("mlgo-projects", ["--project", "captured/a"], "cannot write .*mlgo-projects.*; nothing was written"),
        ("x", [], "name what to train on: mlgo capture -o captured/app"),
        ("x", ["--project", "src"], "src is no captured project .*; mlgo capture -o src -- make makes one"),
        ("x", ["--project", "captured/old"], "captured/old is no captured project of this version"),
        ("x", ["--project", "captured/one"], "too few modules to hold some out"),
        ("x", ["--project", "captured/a", "--validation", "captured/b/a"], "would have one name"),
        ("x", ["src", "--project", "captured/a"], "captured/a lies outside of"),
    ],
)
def test_init_writes_all_or_nothing(there, arguments, message, repository):
    for name in ("a", "b/a"):
        capture(repository / "captured" / name, [f"{number}.c" for number in range(20)])
    capture(repository / "captured/one", ["1.c"])
    capture(repository / "captured/old", ["1.c"])
    write_rows(repository / "captured/old/project.parquet", [], PROGRAMS_OF_PROJECT, provenance())
    (repository / there).parent.mkdir(parents=True, exist_ok=True)
    (repository / there).write_text("mine\n")
    before = contents(repository)
    with pytest.raises(ConfigError, match=message):
        run_here("init", *arguments)
    assert contents(repository) == before


def test_stages_of_init_are_those_of_the_checkout():
    """The same stages, settings and results; of the dependencies those that stages make."""
    ours = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text())
    theirs = yaml.safe_load((REPOSITORY / "workflow/own/stages.yaml").read_text())
    first = theirs["stages"].pop("settings")
    made = {Path(out).parts[:2] for stage in ours["stages"].values() for out in stage["outs"]}
    assert ours["stages"].keys() == theirs["stages"].keys()
    assert ours["plots"] == theirs["plots"]
    for name, stage in ours["stages"].items():
        (settings,) = stage.pop("params")[0].values()
        assert theirs["stages"][name].pop("params") == [{first["outs"][0]: ["installed", *settings]}]
        deps, cmd = theirs["stages"][name].pop("deps"), theirs["stages"][name].pop("cmd")
        assert cmd.startswith("snakemake --cores \\${MLGO_CORES:-all} ")
        assert cmd.endswith(f" --config stage={name}")
        assert (REPOSITORY / f"workflow/rules/{name}.smk").is_file()
        named = [one for one in stage.pop("deps") if Path(one).parts[:2] in made]
        assert deps == (["PROJECTS"] if name == "corpus" else named)
        del stage["cmd"]
        assert stage == theirs["stages"][name]
