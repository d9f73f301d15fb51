"""Find the functions of a corpus whose bodies are trained on, exactly or nearly.

Example:
    python scripts/find_seen.py --corpus data/corpus --threads 2
"""

from pathlib import Path

import pyarrow as pa
from tqdm import tqdm

from mlgo.base.artifacts import BODIES, SEEN, provenance, read_provenance, write_table
from mlgo.base.scratch import shared_folder
from mlgo.cli.program import compiler_of, run_program, settings_of, stage_parser
from mlgo.corpus.seen import SEEN_NAME, TRAINED_NAME, VERSION, SeenBodies, each_once, project_bodies, seen_table
from mlgo.corpus.store import load_modules, load_programs, unpack_bitcode
from mlgo.host.frontend import FrontEnd


def main() -> None:
    parser = stage_parser(__doc__, "--work")
    parser.add_argument(
        "--corpus", type=Path, required=True, help=f"folder of the corpus, gets {SEEN_NAME} and {TRAINED_NAME}"
    )
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    (toolchain, settings), shared = compiler_of(settings_of(args)), shared_folder(args.work)
    printer = FrontEnd(toolchain, settings, shared / "zig-cache").print_ir
    linked = [module for program in load_programs(args.corpus) for module in program.modules]
    every = {module.key: module for module in [*load_modules(args.corpus), *linked]}
    bodies = {"train": BODIES.empty_table(), "others": BODIES.empty_table()}
    for project in tqdm(list(dict.fromkeys(one.project for one in every.values())), "read", disable=None):
        modules = [one for one in every.values() if one.project == project]
        files = unpack_bitcode(args.corpus, modules, shared / "bitcode")
        table = project_bodies(printer, modules, files, shared / "bodies", args.threads)
        where = "train" if modules[0].split == "train" else "others"
        bodies[where] = pa.concat_tables([bodies[where], table.cast(BODIES)])
    trained = each_once(bodies["train"])
    kinds = SeenBodies.of(trained).kinds(bodies["others"])
    origin = provenance(version=VERSION, corpus=read_provenance(args.corpus / "modules.parquet"))
    write_table(args.corpus / TRAINED_NAME, trained, BODIES, origin)
    write_table(args.corpus / SEEN_NAME, seen_table(bodies["others"], kinds), SEEN, origin)


if __name__ == "__main__":
    run_program(main)
