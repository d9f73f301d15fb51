"""Make the page about the headroom: what the search found, and what share of it each policy captured.

Example:
    python scripts/report_headroom.py --headroom data/headroom/headroom.parquet --evaluation data/evaluation \
        --output data/headroom/headroom.html
"""

from pathlib import Path

from mlgo.base.artifacts import read_provenance
from mlgo.base.files import write_text
from mlgo.cli.program import run_program, settings_of, stage_parser
from mlgo.report.headroom_page import read_headroom, render_headroom


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--headroom", type=Path, required=True)
    parser.add_argument("--evaluation", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    objective = settings_of(args).value("compile.objective")
    rows = read_headroom(args.headroom, args.evaluation / "results.parquet", objective)
    write_text(args.output, render_headroom(rows, objective, read_provenance(args.headroom)["headroom"]))


if __name__ == "__main__":
    run_program(main)
