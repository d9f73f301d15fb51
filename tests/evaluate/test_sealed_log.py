"""The log of looks at the sealed test set."""

from dataclasses import replace
from pathlib import Path

import pytest

from mlgo.base.files import write_json
from mlgo.errors import ArtifactError, ConfigError
from mlgo.evaluate.sealed_log import SealedEvaluation, log_evaluation, log_if_sealed, sealed_evaluation
from mlgo.policy.stored import load_policy, save_policy
from tests.conftest import REPOSITORY
from tests.fakes.policies import linear_policy

LOOK = SealedEvaluation("2026-01-02 03:04", "abc", "es-s0", "12", "es, seed 0", "objects", "1, f", "why | not")


def rows(log):
    return [line for line in log.read_text().splitlines() if line.startswith("| 2026")]


def test_a_row_is_there_before_and_gets_its_headline(tmp_path):
    log = tmp_path / "looks.md"
    log_evaluation(replace(LOOK, log=log))
    begun = "| 2026-01-02 03:04 | abc | es-s0 | 12 | es, seed 0 | objects | 1, f | why / not | not finished |"
    assert rows(log) == [begun]
    log_evaluation(replace(LOOK, log=log, headline="+1.00 % in total"))
    assert rows(log) == [begun.replace("not finished", "+1.00 % in total")]
    assert log.read_text().startswith("# Looks")


def test_a_look_that_was_stopped_stays(tmp_path):
    log = tmp_path / "looks.md"
    log_evaluation(replace(LOOK, log=log))
    other = replace(LOOK, date="2026-01-02 03:05")
    log_evaluation(replace(other, log=log))
    log_evaluation(replace(other, log=log, headline="seen"))
    assert [row.split(" | ")[-1] for row in rows(log)] == ["not finished |", "seen |"]


def test_the_log_of_the_repository_takes_rows(tmp_path):
    log = tmp_path / "looks.md"
    text = (REPOSITORY / "docs/sealed-looks.md").read_text()
    log.write_text(text)
    log_evaluation(replace(LOOK, log=log))
    assert log.read_text() == f"{text.rstrip()}\n{rows(log)[-1]}\n"
    names = next(line for line in text.splitlines() if line.startswith("| date"))
    assert rows(log)[-1].count("|") == names.count("|")


def test_a_log_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(ArtifactError, match="nobody looks without a row there"):
        log_evaluation(replace(LOOK, log=tmp_path / "none/looks.md"))


def test_a_look_names_the_policy_by_its_content(tmp_path):
    origin = {"algorithm": "marginal", "seed": 3, "corpus_sha256": "c" * 64}
    policy = replace(linear_policy("inline-size", ["cost_estimate"], [0, 0]), origin=origin)
    save_policy(policy, tmp_path / "marginal-s3")
    policy = load_policy(tmp_path / "marginal-s3")
    look = sealed_evaluation(policy, tmp_path / "marginal-s3", "whole", {"b": "2", "a": "1"}, " first\n look ")
    assert (look.policy, look.form, look.reason) == ("marginal-s3", "whole", "first look")
    assert look.provenance.startswith("marginal, seed 3, corpus cccccccccccc, all ")
    assert look.projects.startswith("2, ")
    assert len(look.weights) == 12
    with pytest.raises(ConfigError, match=r"^a, b: of the sealed test set; give --reason TEXT"):
        sealed_evaluation(policy, tmp_path / "marginal-s3", "whole", {"b": "2", "a": "1"}, " ")
    assert log_if_sealed(policy, tmp_path / "marginal-s3", "whole", {"ninja": "1", "annoy": "2"}, "") == []
    with pytest.raises(ConfigError, match=r"^soxr: of the sealed test set"):
        log_if_sealed(policy, tmp_path / "marginal-s3", "whole", {"ninja": "1", "soxr": "2"}, "")


def test_each_set_has_a_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    for name, project, language in (("sealed", "one", "c"), ("sealed-rust", "two", "rust")):
        write_json(Path(f"config/{name}/{project}.yaml"), {})
        told = {"name": project, "language": language, "domain": "", "holds": ""}
        write_json(Path(f"config/{name}.yaml"), {"date": "", "criteria": [], "projects": [told]})
    save_policy(linear_policy("inline-size", ["cost_estimate"], [0, 0]), tmp_path / "p")
    looks = log_if_sealed(load_policy(tmp_path / "p"), tmp_path / "p", "objects", {"two": "2", "three": "3"}, "why")
    assert [look.projects[:2] for look in looks] == ["1,"]
    assert not Path("docs/sealed-looks.md").exists()
    assert len(rows_of(Path("docs/sealed-rust-looks.md"))) == 1
    log_if_sealed(load_policy(tmp_path / "p"), tmp_path / "p", "objects", {"two": "2", "one": "1"}, "why")
    assert [len(rows_of(Path(f"docs/{name}-looks.md"))) for name in ("sealed", "sealed-rust")] == [1, 2]


def rows_of(log):
    return [line for line in log.read_text().splitlines() if "| why |" in line]
