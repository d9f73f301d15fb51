"""Projects on which a finished policy is tried: what is taken, and what an interrupted run need not do again."""

import pytest

from mlgo.base.artifacts import PROGRAMS_OF_CORPUS, PROGRAMS_OF_PROJECT, PROJECT, write_rows
from mlgo.corpus.build import program_of_all
from mlgo.errors import CorpusError
from mlgo.evaluate.evaluation import Evaluation
from mlgo.evaluate.targets import corpus_projects, evaluate_targets, one_project
from mlgo.objects.measures import MEASURES
from tests.corpus.test_assemble import PROJECTS, corpus, projects

__all__ = ["corpus", "projects"]


@pytest.fixture
def subjects(corpus, tmp_path):
    return corpus_projects(corpus, tmp_path / "bitcode", None, None)


def shipped(subject) -> Evaluation:
    """As if something had been measured."""
    names = [*MEASURES, *(f"baseline_{name}" for name in MEASURES)]
    unknown = dict.fromkeys([*names, "num_questions", "num_inlined", "truncated"])
    rows = [
        {"project": one.project, "module": one.name, "language": "c", "split": one.split, "policy": "es", "seed": 0}
        | unknown
        | {"failure": "", "message": ""}
        for one in subject.modules
    ]
    return Evaluation(rows)


def test_projects_of_a_corpus(subjects):
    assert [(one.project, [module.name for module in one.modules]) for one in subjects] == [
        ("alpha", ["a.c", "b.c"]),
        ("beta", ["y.c"]),
        ("gamma", ["z.c"]),
    ]
    beta = subjects[1]
    assert [program.names for program in beta.programs] == [("x.c", "y.c")]
    assert sorted(beta.unpack()) == ["beta/x.c", "beta/y.c"]  # x.c is a duplicate, and linked all the same


def test_a_split_or_a_project_of_a_corpus(corpus, tmp_path):
    assert [one.project for one in corpus_projects(corpus, tmp_path, "test", None)] == ["gamma"]
    assert [one.project for one in corpus_projects(corpus, tmp_path, None, "beta")] == ["beta"]
    with pytest.raises(CorpusError, match="holds no module of split train project beta"):
        corpus_projects(corpus, tmp_path, "train", "beta")


def test_a_table_of_a_corpus_is_a_project(corpus, tmp_path):
    write_rows(corpus / "programs/beta.parquet", program_of_all("beta", PROJECTS["beta"]), PROGRAMS_OF_PROJECT, {})
    found = one_project(corpus / "projects/beta.parquet", tmp_path / "bitcode")
    assert (found.project, [module.name for module in found.modules]) == ("beta", ["x.c", "y.c"])
    assert [program.row["program"] for program in found.programs] == ["beta.so"]
    assert {module.split for module in found.modules} == {"test"}


def test_a_project_for_something_else_is_refused(corpus, tmp_path):
    write_rows(corpus / "projects/beta.parquet", PROJECTS["beta"], PROJECT, {"task": "t", "optimization": "-Oz"})
    (found,) = corpus_projects(corpus, tmp_path, None, "beta")
    found.check("t", "-Oz")
    with pytest.raises(CorpusError, match=r"beta\.parquet was made for optimization -Oz, .* for -O2; name a --preset"):
        found.check("t", "-O2")
    with pytest.raises(CorpusError, match="was made for task t, this is an evaluation for other"):
        found.check("other", "-Oz")


def test_what_a_run_has_finished_is_not_done_again(subjects, tmp_path):
    done = []

    def until_gamma(subject):
        if subject.project == "gamma":
            raise KeyboardInterrupt
        done.append(subject.project)
        return shipped(subject)

    with pytest.raises(KeyboardInterrupt):
        evaluate_targets(subjects, until_gamma, tmp_path / "parts", {"policy": "p"})
    assert done == ["alpha", "beta"]

    def again(subject):
        done.append(f"again {subject.project}")
        return shipped(subject)

    said = []
    results, sizes, course = evaluate_targets(subjects, again, tmp_path / "parts", {"policy": "p"}, said.append)
    assert done == ["alpha", "beta", "again gamma"]
    assert said == ["alpha (1 of 3), known", "beta (2 of 3), known", "gamma (3 of 3)"]
    assert results["module"].to_pylist() == ["a.c", "b.c", "y.c", "z.c"]
    assert sizes.num_rows == course.num_rows == 0
    evaluate_targets(subjects, again, tmp_path / "parts", {"policy": "another"})
    assert done[3:] == ["again alpha", "again beta", "again gamma"]


def test_other_modules_or_links_are_another_content(corpus, subjects, tmp_path):
    before = [one.content for one in subjects]
    assert len(set(before)) == 3
    rows = [program.row | {"options": ["--gc-sections"]} for one in subjects[:1] for program in one.programs]
    rows += [program.row for one in subjects[1:] for program in one.programs]
    write_rows(corpus / "programs.parquet", rows, PROGRAMS_OF_CORPUS, {})
    after = [one.content for one in corpus_projects(corpus, tmp_path / "bitcode", None, None)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True, True]
