"""The logs of evaluations on sealed test sets: of which policy, why, and with which headline.

An evaluation makes a row before anything is compiled and gets its headline at the end, so one that was stopped is in
the log, too. The log is a Markdown table in the repository, which is committed with what was concluded from it.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from mlgo.base.files import content_hash, locked, write_text
from mlgo.base.sealed import SEALED, load_sealed, sealed_sets
from mlgo.errors import ArtifactError, ConfigError
from mlgo.policy.stored import StoredPolicy, model_sha256

LOG = "docs/{}-looks.md"
"""The log of a set, in a working copy."""

UNFINISHED = "not finished"
"""Headline of an evaluation that has not ended."""

_TO_GIT_S = 20.0


@dataclass(frozen=True)
class SealedEvaluation:
    """One row of the log."""

    date: str
    commit: str  # of the working copy, with a plus where files differ from it
    policy: str
    weights: str  # first digits of the SHA-256 of its weights
    provenance: str  # who trained it with which seed, on which corpus, and the hash of all of its provenance
    form: str
    projects: str  # how many projects, and the hash of their modules and links
    reason: str
    headline: str = UNFINISHED
    log: Path = field(default=Path(LOG.format(SEALED.stem)), kw_only=True)  # which it is a row of


_NAMES = [one.name for one in fields(SealedEvaluation) if one.name != "log"]
_HEAD = f"""# Looks at the sealed test set

One row for each look ([sealed.md](sealed.md)), the first one first.

| {" | ".join(_NAMES)} |
|{"---|" * len(_NAMES)}
"""


def sealed_evaluation(
    policy: StoredPolicy, folder: Path, form: str, contents: dict[str, str], reason: str, sealed: str = SEALED.stem
) -> SealedEvaluation:
    """An evaluation on a set that begins now."""
    log = Path(LOG.format(sealed))
    if not reason.strip():
        raise ConfigError(
            f"{', '.join(sorted(contents))}: of the sealed test set; give --reason TEXT, which {log} keeps with the "
            "result"
        )
    origin = policy.origin
    details = [str(origin.get("algorithm", "unknown")), f"seed {origin.get('seed', 'unknown')}"]
    if corpus := origin.get("corpus_sha256"):
        details.append(f"corpus {str(corpus)[:12]}")
    return SealedEvaluation(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        commit=_commit(),
        policy=folder.resolve().name,
        weights=model_sha256(folder)[:12],
        provenance=", ".join([*details, f"all {content_hash(origin)[:12]}"]),
        form=form,
        projects=f"{len(contents)}, {content_hash(contents)[:12]}",
        reason=" ".join(reason.split()),
        log=log,
    )


def log_if_sealed(
    policy: StoredPolicy, folder: Path, form: str, contents: Mapping[str, str], reason: str
) -> list[SealedEvaluation]:
    """Log the start of an evaluation, for each set that it has projects of; contents are hashes by project."""
    evaluations = []
    for name, path in sealed_sets().items():
        sealed = load_sealed(path)
        if held := {project: content for project, content in contents.items() if sealed.holds(project)}:
            evaluations.append(sealed_evaluation(policy, folder, form, held, reason, name))
    for evaluation in evaluations:
        log_evaluation(evaluation)
    return evaluations


def log_evaluation(evaluation: SealedEvaluation) -> None:
    """Write the row of an evaluation; the row that it made when it began is replaced."""
    log = evaluation.log
    try:
        with locked(log.parent, os.O_DIRECTORY):
            text = log.read_text() if log.exists() else _HEAD
            begun = f"{_row(replace(evaluation, headline=UNFINISHED))}\n"
            if evaluation.headline != UNFINISHED and begun in text:
                text = f"{_row(evaluation)}\n".join(text.rsplit(begun, 1))
            else:
                text = f"{text.rstrip()}\n{_row(evaluation)}\n"
            write_text(log, text)
    except OSError as error:
        raise ArtifactError(f"cannot write {log}: {error.strerror}; nobody looks without a row there") from error


def _row(evaluation: SealedEvaluation) -> str:
    return f"| {' | '.join(str(getattr(evaluation, name)).replace('|', '/') for name in _NAMES)} |"


def _commit() -> str:
    """The commit of the working copy."""
    try:
        head, changed = (
            subprocess.run(
                ["git", *words], capture_output=True, text=True, timeout=_TO_GIT_S, check=True
            ).stdout.strip()
            for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{head}+" if changed else head
