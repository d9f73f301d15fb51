"""A compile logged in one file, with all that is needed to do it again, and whether it comes out the same."""

import hashlib
import itertools
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mlgo.base.artifacts import EPISODE, provenance, provenance_in, read_table, write_rows
from mlgo.base.config import CompileConfig, parse_section
from mlgo.base.files import write_bytes
from mlgo.base.types import TensorSpec
from mlgo.corpus.store import load_modules, unpack_bitcode
from mlgo.errors import ArtifactError, ConfigError, CorpusError, ProtocolError, ReplayMismatch, ToolchainError
from mlgo.host.log import Header, parse_header, write_context, write_header, write_observation, write_outcome
from mlgo.host.session import CompileResult, compile_under_advice
from mlgo.host.tasks.task import Advisor, RecordedAdvisor, Responder, get_task
from mlgo.host.toolchain import Toolchain
from mlgo.objects.measures import DEFAULT, MEASURES, Measure, scores_of
from mlgo.objects.remarks import SpillCosts

_NOTHING_ASKED = "the compiler asked nothing, so there is nothing to log; compile another module"


@dataclass(frozen=True)
class LoggedEpisode:
    """One compile under advice."""

    module: str  # as the user named it; project and source path for a module of the corpus
    bitcode_sha256: str
    bitcode: bytes | None  # the bitcode itself; None for a module of the corpus
    task: str
    policy: str  # what answered, in words
    policy_sha256: str  # hash of the policy's weights; empty when it has none
    compiler: str
    compiler_sha256: str
    target: str
    settings: CompileConfig
    with_heuristic_feature: bool  # whether the heuristic's decision was asked for as a feature
    # What the compile gave, without its wall time; observations are empty when they were not logged.
    result: CompileResult


_IN_ROW = ("module", "bitcode_sha256", "bitcode")
_IN_PROVENANCE = ("task", "policy", "policy_sha256", "compiler", "compiler_sha256", "target")


def write_episode(path: Path, episode: LoggedEpisode) -> None:
    """Write an episode as one row of ``artifacts.EPISODE``; the same episode gives the same bytes."""
    result = episode.result
    if result.header is None:
        raise ArtifactError(_NOTHING_ASKED)
    row = {
        **{name: getattr(episode, name) for name in _IN_ROW},
        "with_default": episode.with_heuristic_feature,
        "header": write_header(result.header),
        "answers": result.answers,
        "observations": result.observations or None,
        "truncated": result.truncated,
        **{name: result.scores[name] for name, measure in MEASURES.items() if measure.is_of_object},
        "object_sha256": result.object_sha256,
    }
    origin = {name: getattr(episode, name) for name in _IN_PROVENANCE}
    write_rows(path, [row], EPISODE, provenance(**origin, compile=episode.settings.model_dump()))


def read_episode(path: Path) -> LoggedEpisode:
    """Read what `write_episode` wrote."""
    if not path.is_file():
        raise ArtifactError(f"{path} is missing; log a compile with: mlgo compile MODULE --log FILE")
    table = read_table(path, EPISODE)
    origin = provenance_in(path, table.schema)
    try:
        (row,) = table.to_pylist()
        header, num_bytes = parse_header(row["header"].rstrip(b"\n")), len(row["answers"])
        width = header.advice.num_bytes if header.advice else 0
        if not width or num_bytes % width:
            raise ValueError(f"{num_bytes} bytes of answers of {width} bytes each")
        result = CompileResult(
            scores_of(row),
            row["object_sha256"],
            seconds=0.0,
            truncated=row["truncated"],
            header=header,
            contexts=(("", num_bytes // width),),
            answers=row["answers"],
            observations=row["observations"] or b"",
        )
        if result.observations and len(result.observations) != result.num_questions * header.payload_bytes:
            raise ValueError(f"{len(result.observations)} bytes of observations for {result.num_questions} answers")
        if row["bitcode"] is not None and hashlib.sha256(row["bitcode"]).hexdigest() != row["bitcode_sha256"]:
            raise ValueError("the bitcode does not have the hash it was logged with")
        older = {"ir2vec": "", "tell_heuristic": False}  # settings that episodes of before do not have
        return LoggedEpisode(
            **{name: row[name] for name in _IN_ROW},
            **{name: origin[name] for name in _IN_PROVENANCE},
            settings=parse_section(CompileConfig, older | origin["compile"]),
            with_heuristic_feature=row["with_default"],
            result=result,
        )
    except (AttributeError, KeyError, TypeError, ValueError, ConfigError, ProtocolError) as error:
        raise ArtifactError(f"{path} is damaged or no logged episode ({error}); log the compile again") from error


def write_training_log(path: Path, result: CompileResult, measure: Measure) -> None:
    """Write a compile in the format of LLVM's training logs, for readers of others.

    The answer follows the features as one more tensor. The reward is what the compile came to, so less is better. As in
    LLVM it stands at the last question, and all others have 0. A measure that is a sum over functions is told for each
    function, at the last question of its context.
    """
    header = result.header
    if header is None or header.advice is None or not result.num_questions:
        raise ArtifactError(_NOTHING_ASKED)
    rewards = _final_rewards(result, measure)
    score = TensorSpec("reward", np.dtype(np.float32), (1,))
    parts = [write_header(Header((*header.features, header.advice), score=score))]
    questions = zip(
        _cut(result.observations, header.payload_bytes), _cut(result.answers, header.advice.num_bytes), strict=True
    )
    begun, left = Counter[str](), Counter(name for name, count in result.contexts for _ in range(count))
    for name, count in result.contexts:
        if count:
            parts.append(write_context(name))  # LLVM's own reader expects a question after it
        for payload, answer in itertools.islice(questions, count):
            left[name] -= 1
            reward = np.float32(0.0 if left[name] else rewards[name])
            parts += [write_observation(begun[name], payload + answer), write_outcome(begun[name], reward.tobytes())]
            begun[name] += 1
    write_bytes(path, b"".join(parts))


def _cut(data: bytes, width: int) -> list[bytes]:
    return [data[start : start + width] for start in range(0, len(data), width)]


def _final_rewards(result: CompileResult, measure: Measure) -> dict[str, float]:
    """Reward at the last question of each context, by its name."""
    asked = [name for name, count in result.contexts if count]
    if measure.is_by_function and result.spills is not None:
        costs: dict[str, list[SpillCosts]] = {name: [] for name in asked}
        for one in result.spills:
            costs.get(one.function, []).append(one)
        return {name: measure.of_functions(some) for name, some in costs.items()}
    value = result.scores[measure.name]
    if value is None:
        raise ArtifactError(f"{measure.name} of this compile is not known; set compile.objective to another measure")
    return {**dict.fromkeys(asked, 0.0), asked[-1]: float(value)}


def find_logged_bitcode(episode: LoggedEpisode, corpus_dir: Path, folder: Path) -> Path:
    """Lay an episode's bitcode into ``folder``, from its own file or from the corpus."""
    if episode.bitcode is not None:
        path = folder / f"{episode.bitcode_sha256}.bc"
        write_bytes(path, episode.bitcode)
        return path
    modules = load_modules(corpus_dir) if (corpus_dir / "modules.parquet").exists() else []
    found = [module for module in modules if module.sha256 == episode.bitcode_sha256]
    if not found:
        changed = any(module.key == episode.module for module in modules)
        raise CorpusError(
            f"{episode.module} was compiled from bitcode {episode.bitcode_sha256[:16]}, which {corpus_dir} does not "
            f"hold{' (it has other bitcode of that name)' if changed else ''}; name the right folder with --corpus"
        )
    return unpack_bitcode(corpus_dir, found[:1], folder)[found[0].key]


def replay_episode(
    toolchain: Toolchain,
    episode: LoggedEpisode,
    bitcode: Path,
    advisor: Advisor | None = None,
    object_path: Path | None = None,
) -> tuple[str, CompileResult | None]:
    """Do a logged compile again and compare questions, answers and the object file; CompileError where it fails.

    Gives the first difference in words, empty when there is none; and what the compile gave, None when it was ended at
    a question that differed.
    """
    check_compiler(toolchain, episode)
    follower = _Follower(episode.result, advisor or RecordedAdvisor(episode.result.answers))
    task, settings, asked = get_task(episode.task), episode.settings, episode.with_heuristic_feature
    try:
        result = compile_under_advice(
            toolchain, task, bitcode, follower, settings, with_heuristic_feature=asked, object_path=object_path
        )
    except ReplayMismatch as mismatch:
        return str(mismatch), None
    return _difference(result, episode.result), result


def check_compiler(toolchain: Toolchain, episode: LoggedEpisode) -> None:
    """Refuse a compiler that is not the logged one: others ask otherwise and write other code."""
    if toolchain.name != episode.compiler:
        raise ToolchainError(
            f"the episode was logged with {episode.compiler}, this is {toolchain.name}; name that one with --toolchain"
        )
    if toolchain.sha256 != episode.compiler_sha256:
        raise ToolchainError(
            f"the episode was logged with another build of {episode.compiler} (SHA-256 "
            f"{episode.compiler_sha256[:16]}, this is {toolchain.sha256[:16]}); name that one with --toolchain"
        )


@dataclass(frozen=True)
class _Follower:
    """Passes an advisor's answers on as long as questions and answers are those of the log."""

    logged: CompileResult
    advisor: Advisor

    def respond_to(self, header: Header) -> Responder:
        result, kind = self.logged, header.advice
        if header != result.header or kind is None:
            raise ReplayMismatch("the compiler announces other features or another answer than it did for the log")
        respond, answers = self.advisor.respond_to(header), _cut(result.answers, kind.num_bytes)
        observations = _cut(result.observations, header.payload_bytes) or [b""] * len(answers)
        questions = enumerate(zip(observations, answers, strict=True))

        def follow(payload: bytes) -> bytes:
            number, (known, wanted) = next(questions, (0, (b"", b"")))
            if not wanted:
                raise ReplayMismatch(f"the compiler asks a question after the {len(answers)} of the log")
            if known and known != payload:
                raise ReplayMismatch(f"question {number}: {_feature_difference(header, payload, known)}")
            advice = respond(payload)
            if advice != wanted:
                answered, logged = (np.frombuffer(one, kind.dtype).tolist()[0] for one in (advice, wanted))
                raise ReplayMismatch(f"question {number}: answered {answered}, logged {logged}")
            return advice

        return follow


def _feature_difference(header: Header, payload: bytes, known: bytes) -> str:
    asked, logged = header.unpack(payload), header.unpack(known)
    first, *others = [name for name in asked if asked[name].tobytes() != logged[name].tobytes()]
    value, before = (" ".join(map(str, one[first].ravel().tolist())) for one in (asked, logged))
    return f"{first} is {value}, logged {before}" + (f"; {len(others)} more features differ" if others else "")


def _difference(result: CompileResult, logged: CompileResult) -> str:
    if result.num_questions < logged.num_questions:
        return f"the compiler asks only {result.num_questions} of the {logged.num_questions} questions of the log"
    if result.object_sha256 != logged.object_sha256:
        return (
            f"same answers, but another object file: {result.object_sha256[:16]} with "
            f"{DEFAULT.describe(result.scores)}, logged {logged.object_sha256[:16]} with "
            f"{DEFAULT.describe(logged.scores)}"
        )
    measured = replace(result, seconds=0.0, observations=b"", num_remarks=0, contexts=())
    if measured != replace(logged, observations=b"", contexts=()):
        return "same object file, but other sizes or another early end: this version measures otherwise"
    return ""
