"""The page of the default run, from what is recorded of it in docs/results/run.

Corpus, references and trainings are not recorded; their sections are empty. README.md shows its first screen:

    python -m tests.report.recorded run.html
"""

import sys
from pathlib import Path

from mlgo.base.artifacts import MODULES, RESULTS, SHIPPED_SIZES, read_provenance, read_table
from mlgo.base.files import write_text
from mlgo.compare.headline import headline
from mlgo.compare.inference import POINTS_ONLY, Bootstrap
from mlgo.compare.modules import policy_scores
from mlgo.compare.programs import find_programs, read_programs
from mlgo.compare.scores import ScoreMatrix, by_contender, by_language, compare
from mlgo.report.inputs import describe_corpus, flatten
from mlgo.report.render import Report, render_page
from mlgo.report.seen_code import compare_seen
from mlgo.report.ships import compare_shipped
from tests.conftest import REPOSITORY

RUN = REPOSITORY / "docs/results/run"


def recorded_report(bootstrap: Bootstrap) -> Report:
    shipped = read_table(RUN / "evaluation/shipped.parquet", SHIPPED_SIZES)
    results = read_table(RUN / "evaluation/results.parquet", RESULTS)
    programs = read_programs(find_programs(RUN))
    modules = policy_scores(results)
    policies = modules.contenders
    origin = next(iter(read_provenance(RUN / "evaluation/results.parquet")["policies"].values()))
    return Report(
        task="inline-size",
        measure="text_bytes",
        modules=modules,
        rows=by_contender(compare(modules, by_language, bootstrap, lambda *_: {"truncated": 0})),
        project_rows=compare(modules, ScoreMatrix.by_project, POINTS_ONLY, together=False),
        ships=compare_shipped(shipped, policies, bootstrap),
        truth=headline(shipped, results, programs, bootstrap),
        seen=compare_seen(shipped, policies, bootstrap),
        functions=None,
        function_rows=[],
        programs=programs,
        bootstrap=bootstrap,
        corpus=describe_corpus(MODULES.empty_table(), {"bodies_shared_between_splits": {}}),
        self_test=None,
        curves=[],
        training_failures=[],
        measurement=flatten(origin),
        policies={one.name: {} for one in policies},
        importances={},
        hashes={},
    )


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), render_page(recorded_report(Bootstrap(10_000, 0.95, 0))))
