"""Fetch the crates of a Debian release, as a folder of vendored sources that cargo takes offline; needs no root.

These are all packages librust-*-dev, each verified by the hash in the release's list, which is trusted: 180 MB for
Debian 13, 1 GB unpacked. What is there stays. `cargo vendor` makes such a folder of a project's own crates.

Example:
    python scripts/fetch_crates.py --output crates --mirror URL
    python scripts/fetch_crates.py --output crates --mirror URL --suite bookworm
"""

import argparse
import hashlib
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import requests
from tqdm import tqdm

from mlgo.base.files import joined, write_json
from mlgo.base.threads import in_threads
from mlgo.cli.program import positive, run_program
from mlgo.corpus.build import unpack_all
from mlgo.errors import ArtifactError, CorpusError, PackageError
from mlgo.objects.archives import read_members

_LIST = "dists/{suite}/main/binary-{machine}/Packages.xz"
_REGISTRY = "usr/share/cargo/registry"
_SUMS = ".cargo-checksum.json"
_FETCHED = ".packages"
"""Folder in the output with an empty file for each package that is unpacked, named by its hash."""
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class DebianPackage:
    """A package of a release's list."""

    name: str
    path: str  # on the mirror
    sha256: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="the folder of crates")
    parser.add_argument("--suite", default="trixie", help="release of Debian (default: %(default)s)")
    parser.add_argument("--machine", default="amd64", help="Debian's name of it (default: %(default)s)")
    parser.add_argument("--mirror", required=True, metavar="URL", help="of Debian, such as /etc/apt names")
    parser.add_argument("--jobs", type=positive, default=8, help="downloads at a time (default: %(default)s)")
    args = parser.parse_args()
    address = f"{args.mirror}/{_LIST.format(suite=args.suite, machine=args.machine)}"
    try:
        packages = list(crate_packages(lzma.decompress(download(address)).decode()))
    except (lzma.LZMAError, UnicodeDecodeError, KeyError) as error:
        raise PackageError(f"{address} is no list of packages: {error}") from error
    if not packages:
        raise PackageError(f"{args.suite} has no package librust-*-dev; name a release of Debian from 9 on")
    done = args.output / _FETCHED
    done.mkdir(parents=True, exist_ok=True)

    def fetch(package: DebianPackage) -> None:
        if not (done / package.sha256).exists():
            content = download(f"{args.mirror}/{package.path}")
            if hashlib.sha256(content).hexdigest() != package.sha256:
                raise PackageError(f"{package.name} is not what the list of {args.suite} says; run again")
            try:
                unpack_crates(content, args.output)
            except (ArtifactError, CorpusError, OSError) as error:
                raise PackageError(f"{package.name}: {error}") from error
            (done / package.sha256).touch()

    for _ in tqdm(in_threads(fetch, packages, args.jobs), "crates", len(packages), unit="package", disable=None):
        pass
    print(f"{len(list(args.output.glob('*/Cargo.toml'))):,} crates in {args.output}")


def download(url: str) -> bytes:
    """What is at an address."""
    try:
        answer = requests.get(url, timeout=_TIMEOUT_S)
        answer.raise_for_status()
        return answer.content
    except requests.RequestException as error:
        why = error.response.status_code if error.response is not None else type(error).__name__
        raise PackageError(f"{url} cannot be fetched ({why}); connect, or name another --mirror") from error


def crate_packages(listed: str) -> Iterator[DebianPackage]:
    """Packages with a crate, of a list of Debian; those with ``+`` are features of one, and empty."""
    for entry in listed.split("\n\n"):
        fields = dict(re.findall(r"^(\S+): (.*)$", entry, re.MULTILINE))
        if re.fullmatch(r"librust-[^+]*-dev", fields.get("Package", "")):
            yield DebianPackage(fields["Package"], fields["Filename"], fields["SHA256"])


def unpack_crates(package: bytes, output: Path) -> None:
    """Put the crates of a package into a folder, each whole or not at all."""
    with TemporaryDirectory(dir=output / _FETCHED) as name:
        folder = Path(name)
        (folder / "package.deb").write_bytes(package)
        for member in read_members(folder / "package.deb"):
            if re.fullmatch(r"data\.tar(\.\w+)?", member.name):
                (folder / member.name).write_bytes(package[member.offset : member.offset + member.size])
                unpack_all(folder / member.name, folder)
        crates = [one for one in (folder / _REGISTRY).glob("[!.]*") if one.is_dir() and not one.is_symlink()]
        if not crates:
            raise CorpusError("it holds no crate")
        for crate in crates:
            if not (sums := crate / _SUMS).exists():  # one crate of Debian 13 has none, and cargo would read no other
                write_json(sums, {"files": {}})
            target = joined(output, crate.name)
            if target.exists():  # of an older package
                target.rename(folder / f"old-{crate.name}")
            crate.rename(target)


if __name__ == "__main__":
    run_program(main)
