"""Which compiles are done around a policy."""

from pathlib import Path

import pytest

from mlgo.corpus.store import Module
from mlgo.evaluate.baseline import ScoredModule
from mlgo.evaluate.training import exploring_jobs
from mlgo.policy.policy import ExploringAdvisor
from tests.fakes.policies import linear_policy
from tests.fakes.scores import scores

POLICY, *VARIANTS = (linear_policy("inline-size", ["a"], [i, 0]) for i in range(3))


def scored(name: str, num_questions: int) -> ScoredModule:
    module = Module("p", name, "c", "train", name * 8)
    return ScoredModule(module, scores(1000, 2000, 2000), num_questions)


MODULES = [scored("small", 4), scored("middle", 100), scored("large", 2000)]
BITCODE = {one.module.key: Path(one.module.name) for one in MODULES}


def planned(modules=MODULES, round_number=1):
    return exploring_jobs(POLICY, VARIANTS, modules, BITCODE, (3, 12), 800, 0.1, 1.5, 2.0, 0, "test", round_number)


@pytest.fixture
def jobs():
    return planned()


def of(jobs, name):
    return [job for job in jobs if job.module == f"p/{name}"]


def test_small_modules_are_compiled_more_often(jobs):
    # 800 / 4 = 200, at most 12; 800 / 100 = 8; 800 / 2000 = 0, at least 3.
    assert [len(of(jobs, name)) for name in ("small", "middle", "large")] == [12, 8, 3]
    assert all(job.record and job.sha256 for job in jobs)


def test_first_the_policy_then_its_variants_in_turn(jobs):
    first, *others = of(jobs, "middle")
    assert first.advisor is POLICY
    assert [job.advisor.policy for job in others[:4]] == [VARIANTS[1], VARIANTS[0], VARIANTS[1], VARIANTS[0]]


def test_flips_and_temperatures_stay_within_their_bounds(jobs):
    for name, least in (("small", 0.375), ("middle", 0.015), ("large", 0.00075)):  # 1.5 answers of all
        advisors = [job.advisor for job in of(jobs, name)[1:]]
        assert all(isinstance(advisor, ExploringAdvisor) for advisor in advisors)
        assert all(least <= advisor.flip_share <= max(least, 0.1) for advisor in advisors)
        assert all(0.0 <= advisor.temperature <= 2.0 for advisor in advisors)


def test_the_same_purpose_gives_the_same_plan_and_another_one_another(jobs):
    again, later = planned(), planned(round_number=2)
    luck = [[job.advisor.seed for job in plan if job.advisor is not POLICY] for plan in (jobs, again, later)]
    assert luck[0] == luck[1] != luck[2]
    assert len(set(luck[0])) == len(luck[0])
    assert planned(MODULES[1:2]) == of(jobs, "middle")  # whatever else is compiled
