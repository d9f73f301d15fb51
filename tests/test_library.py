"""The names that `import mlgo` offers, as docs/library.md shows them."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import mlgo
from mlgo.errors import PolicyError
from tests.conftest import REPOSITORY
from tests.fakes.policies import linear_policy

PAGE = (REPOSITORY / "docs/library.md").read_text()


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Names that the code of the page defines, run where configuration, sample, released policy and a capture are."""
    folder = tmp_path_factory.mktemp("library")
    for name in ("config", "data"):
        (folder / name).symlink_to(REPOSITORY / name)
    command = {"directory": str(REPOSITORY / "data/sample/lz"), "file": "match.c", "command": "cc -Oz -c match.c"}
    (folder / "compile_commands.json").write_text(json.dumps([command]))
    capture = [sys.executable, "-m", "mlgo", "capture", "-o", "captured/app", "--from", "compile_commands.json"]
    subprocess.run(capture, cwd=folder, check=True, capture_output=True)
    names: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile("\n".join(blocks()), "docs/library.md", "exec"), names)
        yield names


def test_a_function_and_a_policy_decide(shown):
    assert [shown[name].score("text_bytes") for name in ("plain", "small", "advised")] == [5854, 6345, 5103]
    assert round(shown["gain"], 3) == 0.128
    assert shown["answer"] == 1


def test_a_policy_answers_an_observation_as_it_answers_a_compiler(shown):
    policy = shown["policy"]
    task, module, toolchain, settings = (shown[name] for name in ("task", "module", "toolchain", "config"))
    asked = mlgo.FunctionAdvisor(lambda observation: mlgo.decide(policy, observation))
    result = mlgo.compile_under_advice(toolchain, task, module, asked, settings.compile)
    assert result.answers == shown["advised"].answers
    assert result.object_sha256 == shown["advised"].object_sha256
    with pytest.raises(PolicyError, match="the observation lacks 1 of the policy's features"):
        mlgo.decide(policy, dict.fromkeys(policy.features[1:], 0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "features"),
    [("regalloc-evict", ["is_free", "nr_urgent", "is_hint"]), ("regalloc-priority", ["li_size", "stage", "weight"])],
)
def test_policies_of_registers_answer_observations_as_they_answer_a_compiler(name, features, toolchain, tmp_path):
    task = mlgo.get_task(name)
    settings = mlgo.load_config().compile.model_copy(update={"objective": "spill_cost", "optimization": "-O2"})
    front_end = mlgo.FrontEnd(toolchain, settings, tmp_path, task)
    module = front_end.module_of(REPOSITORY / "data/sample/matrix/lu.cpp", tmp_path / "lu.bc")
    weights = np.random.default_rng(0).normal(size=task.actions.num_inputs(len(features)) + 1)
    policy = linear_policy(name, features, weights)
    asked = mlgo.FunctionAdvisor(lambda observation: mlgo.decide(policy, observation))
    wanted, found = (mlgo.compile_under_advice(toolchain, task, module, one, settings) for one in (policy, asked))
    assert wanted.num_questions > 500
    assert len(set(wanted.answers)) > 2
    assert found.answers == wanted.answers


@pytest.mark.parametrize("answer", ["yes", None, 0.5, float("nan"), [1, 0]])
def test_a_function_must_answer_a_number_of_the_type_that_is_expected(shown, answer):
    advisor = mlgo.FunctionAdvisor(lambda observation: answer)
    with pytest.raises(PolicyError, match=r"the function answered .*, the compiler expects one int64"):
        mlgo.compile_under_advice(shown["toolchain"], shown["task"], shown["module"], advisor, shown["config"].compile)


def test_an_error_of_the_function_ends_the_compile(shown, leaves_nothing):
    def fails(observation):
        raise ZeroDivisionError("of the function")

    with leaves_nothing(), pytest.raises(ZeroDivisionError, match="of the function"):
        mlgo.compile_under_advice(
            shown["toolchain"], shown["task"], shown["module"], mlgo.FunctionAdvisor(fails), shown["config"].compile
        )


def test_two_builds_an_environment_and_a_capture(shown):
    assert shown["after"] < shown["before"]
    assert shown["difference"].sections["text"] == (3617, 3418)
    assert shown["largest"].growth != 0
    assert shown["terminated"]
    assert shown["by_language"] == [{"language": "c", "module_count": 1}]
    assert shown["table"]["skip_reason"].to_pylist() == [""]


def test_the_page_lists_all_names():
    listed = re.findall(r"`(\w+)[(`]", "".join(line.split(" | ")[0] for line in PAGE.splitlines() if line[:3] == "| `"))
    assert sorted(listed) == mlgo.__all__
    for name in mlgo.__all__:
        assert callable(getattr(mlgo, name))
        assert name in dir(mlgo)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mlgo.nothing


def test_the_import_loads_nothing_heavy():
    code = "import sys, mlgo; sys.exit(any(name in sys.modules for name in ('numpy', 'pyarrow', 'mlgo.errors')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
