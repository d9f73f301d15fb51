"""Search for smaller code, module by module: how much did the heuristic leave?

Example:
    python scripts/measure_headroom.py --policies data/policies/bc-s0 data/policies/es-s0 --workers 2 \
        --output data/headroom/headroom.parquet
"""

from pathlib import Path

from mlgo.base.artifacts import HEADROOM, SCORES, provenance, read_table, write_rows
from mlgo.base.config import HeadroomConfig, ReplayConfig
from mlgo.base.files import file_sha256
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.base.seeding import sample
from mlgo.cli.program import compiler_of, corpus_and_baseline, run_program, settings_of, stage_parser, workers_of
from mlgo.corpus.store import unpack_bitcode
from mlgo.evaluate import CompileHost
from mlgo.evaluate.baseline import load_scored_modules, with_questions
from mlgo.evaluate.headroom import measure_headroom
from mlgo.evaluate.training import needed_copies
from mlgo.evaluate.worker import tree_key
from mlgo.host.actions import Binary
from mlgo.host.tasks.task import get_task
from mlgo.policy.stored import load_policy
from mlgo.pool.records import prune
from mlgo.pool.tree_store import ReplayStore


def main() -> None:
    parser = stage_parser(__doc__, "--home", "--work", "--workers")
    parser.add_argument("--policies", type=Path, nargs="+", required=True, help="folders; the first ranks the flips")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    values, (corpus, baseline) = settings_of(args), corpus_and_baseline(args)
    config, replay = values.section("headroom", HeadroomConfig), values.section("replay", ReplayConfig)
    (toolchain, settings), seed, where = compiler_of(values), values.value("seed"), workers_of(values)
    copies = needed_copies(settings, baseline)
    policies = [load_policy(folder, Binary) for folder in args.policies]
    scored = [one for split in config.splits for one in load_scored_modules(corpus, baseline, split)]
    scored = with_questions(scored, config.max_questions, " or ".join(config.splits), "headroom")
    modules = sample(scored, config.modules, seed, "headroom")
    bitcode = unpack_bitcode(corpus, [one.module for one in modules], shared_folder(args.work) / "bitcode")
    scores = read_table(baseline / "scores.parquet", SCORES)
    task = get_task(policies[0].task)
    with scratch_directory() as scratch:
        folder = shared_folder(args.work) / "replay" if replay.enabled else scratch  # the search itself needs trees
        prune(folder, int(replay.max_disk_gb * 1e9))
        store = ReplayStore(folder, tree_key(toolchain, task, settings, copies))
        with CompileHost(toolchain, task.name, settings, args.workers, store, copies, workers=where) as host:
            rows = measure_headroom(host, store, modules, bitcode, scores, policies, config, settings.objective, seed)
    origin = provenance(
        **toolchain.provenance,
        compile=settings.model_dump(),
        headroom=config.model_dump(),
        seed=seed,
        policies_sha256={folder.name: file_sha256(folder / "weights.npy") for folder in args.policies},
        scores_sha256=file_sha256(baseline / "scores.parquet"),
    )
    write_rows(args.output, rows, HEADROOM, origin)


if __name__ == "__main__":
    run_program(main)
