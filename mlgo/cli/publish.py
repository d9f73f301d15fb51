"""`mlgo publish`: a policy with all of its forms and its model card, in one archive or in a Python package."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mlgo.base.files import MAX_TEXT_BYTES, file_sha256, read_input, shown
from mlgo.cli.program import add_command, add_options, say
from mlgo.deploy import release
from mlgo.deploy.card import with_card
from mlgo.errors import ArtifactError, ConfigError


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "publish", run)
    parser.add_argument("policies", nargs="*", type=Path, metavar="POLICY", help="its folder, or a folder of policies")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help=f"archive ({', '.join(release.FORMATS)}), or DIR of --wheel"
    )
    parser.add_argument("--version", metavar="X.Y.Z", help="semantic version (default: that of the cards)")
    parser.add_argument(
        "--exports",
        type=Path,
        default=Path("data/export"),
        metavar="DIR",
        help="folder with a folder of forms for each policy "
        f"that has no {release.PARITY} itself (default: %(default)s)",
    )
    parser.add_argument("--forms", nargs="+", metavar="FORM", help="only these (default: all that were exported)")
    parser.add_argument("--wheel", action="store_true", help="make the Python package; the first policy is its default")
    parser.add_argument(
        "--licence", type=Path, default=Path("LICENSE"), metavar="FILE", help="text for --wheel (default: %(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="replace an output that exists")
    parser.add_argument(
        "--check", type=Path, metavar="ARCHIVE", help="compare an archive with its cards, write nothing"
    )
    add_options(parser, "--json")


def run(args: argparse.Namespace) -> None:
    """Pack policies with their exported forms and model cards, reproducibly.

    mlgo publish data/policies/marginal-s0 --version 1.0.0 -o marginal-s0.tar.zst
    mlgo publish data/policies --version 1.0.0 -o all.zip            every policy of the run
    mlgo publish data/policies/es-s0 --version 1.0.0-rc.1 --forms cpp tosa -o es-s0.tar.gz --force
    mlgo publish data/released --wheel -o dist                       the package mlgo-policies
    mlgo publish --check marginal-s0.tar.zst --json
    """
    if args.check:
        if args.policies or args.output:
            raise ConfigError("--check ARCHIVE stands alone; leave out POLICY and -o")
        found = release.check_archive(args.check)
        lines = [f"{shown(policy)}: {count} files as the card says" for policy, count in found.items()]
        say(args, {"archive": str(args.check), "policies": found}, "\n".join(lines))
        return
    if not args.policies or not args.output:
        raise ConfigError("name a policy's folder and -o PATH, or --check ARCHIVE")
    if args.version is not None:
        release.check_version(args.version)
    if not args.wheel:
        release.format_of(args.output)  # refused before anything is read
    folders = [folder for place in args.policies for folder in release.find_policies(place)]
    bar = tqdm(folders, "read", unit="policy", disable=None)
    forms_of = {one: one if (one / release.PARITY).exists() else args.exports / one.resolve().name for one in folders}
    releases = [release.read_release(folder, forms_of[folder], args.forms) for folder in bar]
    files = _gathered(releases, args.version)
    versions = {args.version or (one.card or {}).get("version") for one in releases}
    if len(versions) != 1 or None in versions:
        raise ConfigError("the cards name no version that is the same for all; give --version X.Y.Z")
    version = release.check_version(str(versions.pop()))
    forms = {str(one.name): list(one.parity) for one in releases}
    output = args.output
    if args.wheel:
        output /= release.wheel_name(version)
        release.write_new(output, release.wheel(version, list(forms), files, _licence(args.licence)), args.force)
    else:
        release.write_archive(output, files, args.force)
    size, sha256 = output.stat().st_size, file_sha256(output)
    record = {"archive": str(output), "version": version, "bytes": size, "sha256": sha256, "policies": forms}
    packed = "; ".join(f"{name} ({', '.join(some)})" for name, some in forms.items())
    say(args, record, f"{output}: {packed}; version {version}, {size:,} bytes, SHA-256 {sha256}")


def _gathered(releases: Sequence[release.Release], version: str | None) -> dict[str, bytes]:
    """Files of all releases by path, which begins with the policy's name."""
    found: dict[str, bytes] = {}
    for one in releases:
        if one.card is None:
            raise ArtifactError(f"{one.name} has no model card; write it first: scripts/describe_policy.py")
        if any(path.startswith(f"{one.name}/") for path in found):
            raise ArtifactError(f"two policies are called {one.name}; an archive holds one of them")
        content = with_card(one, one.card, version)
        found |= {f"{one.name}/{path}": data for path, data in content.items()}
    return found


def _licence(path: Path) -> str:
    try:
        return read_input(path, MAX_TEXT_BYTES).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no UTF-8 text; give --licence FILE") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; give --licence FILE") from error
