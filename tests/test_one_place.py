"""Each dangerous thing is done in one place; what is elsewhere is listed with its reason, and the lists only shrink."""

import re
from collections import Counter

import pytest

from tests.conftest import REPOSITORY

PROGRAMS = {
    "mlgo/host/process.py": "the one way to start a program",
    "mlgo/cli/cc.py": "becomes the driver, whose command line is the caller's",
    "mlgo/evaluate/sealed_log.py": "git, on a file of ours",
    "mlgo/pool/local.py": "this package as a worker",
    "mlgo/research/lit_standins.py": "LLVM's own tests, which run tools of LLVM's build",
}
DELETIONS = {
    "mlgo/base/files.py": "drafts of ours",
    "mlgo/base/output.py": "folders that a marker of ours names",
    "mlgo/base/scratch.py": "scratch folders of ours",
    "mlgo/learn/es/__init__.py": "snapshots of a training, in its own folder",
    "mlgo/pool/cluster.py": "the session of a Ray cluster that was started here",
    "mlgo/research/commands/lit.py": "its own folder of results",
}
UNPICKLING = {
    "mlgo/base/config.py": "a loader that makes plain values only",
    "mlgo/corpus/build.py": "an archive whose hash a recipe pins, by the filter `data`",
    "mlgo/pool/nested.py": "what a worker of ours has written for its parent",
}


def users(pattern: str) -> Counter[str]:
    """Files of the package in which a pattern occurs, comments and docstrings left out as far as lines tell."""
    found: Counter[str] = Counter()
    for path in sorted((REPOSITORY / "mlgo").rglob("*.py")):
        code = re.sub(r'"""(?:.|\n)*?"""|#.*', "", path.read_text())
        if number := len(re.findall(pattern, code)):
            found[path.relative_to(REPOSITORY).as_posix()] = number
    return found


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        (
            r"\bPopen\(|\bsubprocess\.(?:run|call|check_\w+|getoutput)\(|\bos\.(?:exec\w+|spawn\w+|system|popen)\(",
            PROGRAMS,
        ),
        (r"\brmtree\(", DELETIONS),
        (
            r"\bpickle\.loads?\(|\byaml\.(?:unsafe_|full_)?load\(|\.extract(?:all)?\(|\beval\(|\btempfile\.mktemp\(",
            UNPICKLING,
        ),
        (r"allow_pickle=True|shell=True", {}),
    ],
    ids=["programs", "deletions", "unpickling", "shells"],
)
def test_nothing_goes_around_the_one_place(pattern, allowed):
    assert set(users(pattern)) == set(allowed), "use the one place; shorten the list where it is no longer needed"


READING = r"(?<![\w.])open\(|\.open\(\s*[\"']r|\.read_(?:text|bytes)\(|\bnp\.load\(|\bjson\.load\("


def test_files_are_read_by_the_functions_of_files_py():
    """Which bound kind and size. What reads otherwise reads files of ours; the numbers can only shrink."""
    most = dict(line.split() for line in LIMITS.strip().splitlines())
    found = users(READING)
    more = {path: number for path, number in found.items() if number > int(most.get(path, 0))}
    assert not more, "use read_input, read_json, read_array or open_input of mlgo/base/files.py"


LIMITS = """
mlgo/base/checksum.py 1
mlgo/cli/configure.py 2
mlgo/cli/leftovers.py 1
mlgo/cli/show_report.py 1
mlgo/corpus/build.py 1
mlgo/corpus/capture/llvm_corpora.py 1
mlgo/corpus/capture/objects.py 3
mlgo/corpus/capture/options.py 2
mlgo/corpus/capture/project.py 6
mlgo/corpus/capture/wheels.py 3
mlgo/corpus/link_time.py 6
mlgo/corpus/recipe.py 3
mlgo/corpus/seen.py 1
mlgo/deploy/drivers.py 2
mlgo/deploy/export/form.py 1
mlgo/deploy/export/tensorflow_forms.py 2
mlgo/deploy/export/tosa.py 1
mlgo/deploy/import_model.py 2
mlgo/deploy/installed.py 1
mlgo/deploy/linking.py 3
mlgo/deploy/release.py 1
mlgo/evaluate/baseline.py 3
mlgo/evaluate/evaluation.py 1
mlgo/evaluate/sealed_log.py 1
mlgo/evaluate/worker.py 1
mlgo/host/frontend.py 2
mlgo/host/linker.py 2
mlgo/host/program.py 4
mlgo/host/session.py 4
mlgo/host/toolchain.py 1
mlgo/jit/client.py 1
mlgo/jit/compiler.py 1
mlgo/learn/checkpoint.py 1
mlgo/objects/archives.py 1
mlgo/pool/nested.py 1
mlgo/pool/ray_worker.py 2
mlgo/report/pages.py 1
mlgo/research/commands/lit.py 2
mlgo/research/lit_host.py 2
mlgo/research/lit_standins.py 1
"""
"""How often each file reads otherwise: what it has written itself, what a compiler has just made, its own sources."""
