"""Join the projects' baselines, check the self-test, and build the vocabulary from the training trace.

Example:
    python scripts/merge_baseline.py --corpus data/corpus --parts data/baseline/parts --output data/baseline
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import (
    COPIES,
    FUNCTIONS,
    MODULES,
    SCORES,
    VOCABULARY,
    provenance,
    read_provenance,
    read_table,
    schema_of_trace,
    write_table,
)
from mlgo.base.config import Splits
from mlgo.base.files import write_record
from mlgo.cli.program import run_program, settings_of, stage_parser
from mlgo.errors import MlgoError
from mlgo.evaluate.baseline import self_test_failures
from mlgo.host.tasks.task import HEURISTIC, References, get_task
from mlgo.objects.measures import MEASURES
from mlgo.policy.vocabulary import build_vocabulary, recorded_values


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--parts", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    settings = settings_of(args)
    projects = settings.section("corpus.splits", Splits).projects
    score_paths = [args.parts / f"{name}.scores.parquet" for name in projects]
    scores = pa.concat_tables([read_table(path, SCORES) for path in score_paths])
    origin = provenance(**{k: v for k, v in read_provenance(score_paths[0]).items() if k != "package"})
    task = get_task(origin["task"])
    references = task.references
    _check_failures(scores, references, settings.value("baseline.max_failed_share"))
    functions, copies = (
        pa.concat_tables([read_table(args.parts / f"{name}.{kind}.parquet", schema) for name in projects])
        for kind, schema in (("functions", FUNCTIONS), ("copies", COPIES))
    )
    traces = [read_table(args.parts / f"{name}.trace.parquet") for name in projects]
    trace = pa.concat_tables([table for table in traces if table.num_rows] or traces[:1])
    modules = read_table(args.corpus / "modules.parquet", MODULES)
    train_projects = pc.unique(modules.filter(pc.field("split") == "train")["project"])
    train = trace.filter(pc.is_in(trace["project"], train_projects))
    vocabulary = build_vocabulary(recorded_values(train, task.actions.mask), settings.value("baseline.num_quantiles"))

    write_table(args.output / "scores.parquet", scores, SCORES, origin)
    write_table(args.output / "functions.parquet", functions, FUNCTIONS, origin)
    write_table(args.output / "copies.parquet", copies, COPIES, origin)
    write_table(args.output / "trace.parquet", trace, schema_of_trace(trace), origin)
    write_table(args.output / "vocabulary.parquet", vocabulary, VOCABULARY, origin)
    differences = self_test_failures(scores) if references.is_heuristic else []
    num_modules = _num_modules(scores)
    write_record(
        args.output / "summary.json",
        {
            "modules": num_modules,
            "questions": trace.num_rows,
            "self_test_passed": num_modules - len(differences) if references.is_heuristic else None,
            "self_test_failed": differences,
            **{
                measure.name: {name: _total(scores, name, measure.name) for name in references.needed}
                for measure in MEASURES.values()
                if measure.of_program
            },
            "truncated": {name: _total(scores, name, "truncated") for name in references.needed},
        },
    )


def _check_failures(scores: pa.Table, references: References, max_share: float) -> None:
    needed = pc.is_in(pc.field("advisor"), pa.array(references.needed))
    failed = scores.filter((pc.field("failure") != "") & needed).to_pylist()
    num_failed = len({(row["project"], row["module"]) for row in failed})
    if num_failed > max_share * _num_modules(scores):
        first = failed[0]
        raise MlgoError(
            f"{num_failed} modules cannot be compiled, more than baseline.max_failed_share allows ({max_share:g}); "
            f"the first is {first['project']}/{first['module']}: {first['failure']}: {first['message']}"
        )


def _num_modules(scores: pa.Table) -> int:
    """Modules that were tried; each has a row of the heuristic."""
    return int(pc.sum(pc.equal(scores["advisor"], HEURISTIC)).as_py() or 0)


def _total(scores: pa.Table, advisor: str, column: str) -> float:
    return pc.sum(scores.filter(pc.field("advisor") == advisor)[column]).as_py() or 0


if __name__ == "__main__":
    run_program(main)
