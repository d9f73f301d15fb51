"""Compile all units without elimination and under the built-in heuristic; choose and split those to learn from.

Example:
    python scripts/enumerate_cse.py --preset config/presets/gcc-pre.yaml --home data/cse --workers 2 \
        --output data/cse/baseline
"""

from mlgo.cli.arguments import choice_pool, cse_compiler_of, cse_parser, settings_of, unit_sources
from mlgo.cli.program import run_program
from mlgo.core.artifacts import CSE_COMPILES, CSE_UNITS, cse_candidates_schema, provenance, write_rows
from mlgo.core.config import CorpusConfig
from mlgo.core.files import file_sha256, write_json
from mlgo.problems.subset.enumeration import Tables, skip_reasons


def main() -> None:
    args = cse_parser(__doc__).parse_args()
    settings = settings_of(args)
    (config, spec), seed = cse_compiler_of(args, settings), settings.value("seed")
    corpus = settings.section("corpus", CorpusConfig)
    found = spec.find_units(lambda: choice_pool(args, settings, spec))
    skipped = skip_reasons(found, config)
    eligible = [one for one in found if not skipped[one.unit.name]]
    tables = Tables.of(found, skipped, spec.split(eligible, corpus.splits.model_dump(), seed))
    sources = unit_sources(args, settings)
    origin = provenance(
        task=settings.value("task"),
        compiler=spec.described(),
        cse=config.model_dump(exclude={"superpmi": {"core_root", "collection", "command", "jit"}}),
        seed=seed,
        **({"sources_sha256": file_sha256(sources)} if sources else {}),
    )
    write_rows(args.output / "units.parquet", tables.units, CSE_UNITS, origin)
    write_rows(args.output / "compiles.parquet", tables.compiles, CSE_COMPILES, origin)
    write_rows(args.output / "candidates.parquet", tables.candidates, cse_candidates_schema(tables.features), origin)
    write_json(args.output / "summary.json", tables.summary())


if __name__ == "__main__":
    run_program(main)
