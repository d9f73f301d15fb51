"""Write a policy's model card beside its exported forms: card.json, and the same as README.md.

Example:
    python scripts/describe_policy.py --policy data/policies/marginal-s0 --export data/export/marginal-s0 \
        --corpus data/corpus/modules.parquet --evaluations data/evaluation
"""

from pathlib import Path

from mlgo.base.files import write_bytes
from mlgo.cli.program import run_program, settings_of, stage_parser
from mlgo.compare.inference import Bootstrap
from mlgo.deploy.card import describe, with_card
from mlgo.deploy.release import CARD, PAGE, read_release


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--policy", type=Path, required=True, help="its folder")
    parser.add_argument("--export", type=Path, required=True, help="folder of its forms, gets the card")
    parser.add_argument("--corpus", type=Path, help="modules.parquet, for the names of projects")
    parser.add_argument(
        "--evaluations", type=Path, nargs="*", default=[], metavar="DIR", help="folders of tables with its gains"
    )
    args = parser.parse_args()

    for name in (CARD, PAGE):  # of another policy, or of forms that were exported since anew
        (args.export / name).unlink(missing_ok=True)
    release = read_release(args.policy, args.export)
    files = with_card(release, describe(release, args.corpus, args.evaluations, Bootstrap.of(settings_of(args))))
    for name in (PAGE, CARD):
        write_bytes(args.export / name, files[name])


if __name__ == "__main__":
    run_program(main)
