"""The log of looks at the sealed test set."""

from dataclasses import replace

import pytest

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
    log_evaluation(LOOK, log)
    begun = "| 2026-01-02 03:04 | abc | es-s0 | 12 | es, seed 0 | objects | 1, f | why / not | not finished |"
    assert rows(log) == [begun]
    log_evaluation(replace(LOOK, headline="+1.00 % in total"), log)
    assert rows(log) == [begun.replace("not finished", "+1.00 % in total")]
    assert log.read_text().startswith("# Looks")


def test_a_look_that_was_stopped_stays(tmp_path):
    log = tmp_path / "looks.md"
    log_evaluation(LOOK, log)
    other = replace(LOOK, date="2026-01-02 03:05")
    log_evaluation(other, log)
    log_evaluation(replace(other, headline="seen"), log)
    assert [row.split(" | ")[-1] for row in rows(log)] == ["not finished |", "seen |"]


def test_the_log_of_the_repository_takes_rows(tmp_path):
    log = tmp_path / "looks.md"
    text = (REPOSITORY / "docs/sealed-looks.md").read_text()
    log.write_text(text)
    log_evaluation(LOOK, log)
    assert log.read_text() == f"{text.rstrip()}\n{rows(log)[-1]}\n"
    names = next(line for line in text.splitlines() if line.startswith("| date"))
    assert rows(log)[-1].count("|") == names.count("|")


def test_a_log_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(ArtifactError, match="nobody looks without a row there"):
        log_evaluation(LOOK, tmp_path / "none/looks.md")


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
    assert log_if_sealed(policy, tmp_path / "marginal-s3", "whole", {"ninja": "1", "annoy": "2"}, "") is None
    with pytest.raises(ConfigError, match=r"^soxr: of the sealed test set"):
        log_if_sealed(policy, tmp_path / "marginal-s3", "whole", {"ninja": "1", "soxr": "2"}, "")
