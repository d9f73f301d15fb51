"""What environments compile: modules as files, with their scores under the heuristic."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo.compiler.frontend import FrontEnd
from mlgo.compiler.session import compile_plain
from mlgo.compiler.toolchain import Toolchain
from mlgo.config import CompileConfig
from mlgo.corpus.store import unpack_bitcode
from mlgo.errors import CorpusError
from mlgo.rollout.scored import load_scored_modules
from mlgo.tasks import Task


@dataclass(frozen=True)
class Problem:
    """A module to decide about.

    Attributes:
        name: as users call it.
        bitcode: file that is compiled.
        baseline: score under the heuristic, in the unit of the objective.
    """

    name: str
    bitcode: Path
    baseline: float


def problems_of_files(
    files: Sequence[str], toolchain: Toolchain, task: Task, settings: CompileConfig, folder: Path
) -> list[Problem]:
    """Bitcode, textual IR, or sources of C and C++, which are compiled to bitcode in ``folder``.

    Raises:
        CompileError: a source, or a module under the heuristic, does not compile.
        CorpusError: no file, no name twice.
    """
    found, front_end = [], FrontEnd(toolchain, settings, folder, task)
    for number, name in enumerate(files):
        path = Path(name)
        if not path.is_file():
            raise CorpusError(f"{name} is no file; name bitcode (.bc, .ll) or a source of C or C++")
        bitcode = front_end.module_of(path, folder / f"{number}.bc")
        plain = compile_plain(toolchain, bitcode, settings, task=task)
        found.append(Problem(name, bitcode, float(getattr(plain, settings.objective))))
    if len({one.name for one in found}) < len(found):
        raise CorpusError("a module is named twice")
    return found


def problems_of_corpus(corpus: Path, baseline: Path, split: str, objective: str, folder: Path) -> list[Problem]:
    """Modules of a split that the compiler asks something about.

    Raises:
        ArtifactError: corpus or baseline are missing.
        CorpusError: no module of the split is asked about.
    """
    scored = [one for one in load_scored_modules(corpus, baseline, split) if one.num_questions]
    if not scored:
        raise CorpusError(f"no module of split {split} in {corpus} is asked about")
    bitcode = unpack_bitcode(corpus, [one.module for one in scored], folder)
    return [Problem(one.module.key, bitcode[one.module.key], float(getattr(one, objective))) for one in scored]
