"""Embeddings of caller and callee: numbers that the inliner adds to each question, by a vocabulary that we choose.

IR2Vec (VenkataKeerthy et al., ACM TACO 17, 2020) gives each opcode, type and kind of operand a vector. The symbolic
embedding of a function is a sum over its instructions in reachable blocks: the vector of the opcode, 0.5 times that of
the type and, for each operand, 0.2 times that of its kind (llvm/lib/Analysis/IR2Vec.cpp). LLVM 22 and newer send it
with each question about a call, as ``callee_embedding`` and ``caller_embedding``, float32 [dim].

Here each of these numbers is a feature of its own, whose name tells the vocabulary: ``callee_counts[Load]``,
``caller_random-8[3]``, ``callee_1f0c93aa20e1[0]``. So a policy that was trained with another vocabulary finds none of
its features, and nothing else has to know that a compiler sends vectors.
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

from mlgo.base.files import MAX_TEXT_BYTES, parse_json, place, read_input
from mlgo.base.types import TensorSpec
from mlgo.errors import ConfigError, ProtocolError
from mlgo.host.log import Header

VECTORS = ("callee_embedding", "caller_embedding")
"""Tensors of the inliner, float32 [dim]."""

OLDEST_LLVM = 22
"""The first that sends them."""

_WORDS = {
    "Opcodes": """
        Ret Br Switch IndirectBr Invoke Resume Unreachable CleanupRet CatchRet CatchSwitch CallBr FNeg Add FAdd Sub FSub
        Mul FMul UDiv SDiv FDiv URem SRem FRem Shl LShr AShr And Or Xor Alloca Load Store GetElementPtr Fence
        AtomicCmpXchg AtomicRMW Trunc ZExt SExt FPToUI FPToSI UIToFP SIToFP FPTrunc FPExt PtrToInt PtrToAddr IntToPtr
        BitCast AddrSpaceCast CleanupPad CatchPad ICmp FCmp PHI Call Select VAArg ExtractElement InsertElement
        ShuffleVector ExtractValue InsertValue LandingPad Freeze""",
    "Types": """
        FloatTy VoidTy LabelTy MetadataTy VectorTy TokenTy IntegerTy FunctionTy PointerTy StructTy ArrayTy UnknownTy""",
    "Arguments": "Function Pointer Constant Variable",
}
_ENTITIES = {section: words.split() for section, words in _WORDS.items()}
"""What LLVM 22 looks up, by section of the file (llvm/include/llvm/IR/Instruction.def, llvm/Analysis/IR2Vec.h)."""

_ONE = {"Opcodes": 1.0, "Types": 2.0, "Arguments": 5.0}
"""What times LLVM's weight is 1, so that occurrences are counted; float32 sums of it are whole numbers."""

_KIND = re.compile(r"counts|random-([1-9][0-9]{0,2})")
_FEATURE = re.compile(r"(?:callee|caller)_(counts|random-[0-9]+|[0-9a-f]{12})\[.+\]")


@dataclass(frozen=True)
class IR2VecVocabulary:
    """What the embeddings are made with."""

    name: str  # `counts`, `random-N`, or the first 12 digits of the SHA-256 of a file
    dimensions: tuple[str, ...]  # what each number of a vector is called, [dim]
    content: bytes  # the file that LLVM reads

    @staticmethod
    def flags(path: Path) -> tuple[str, ...]:
        """Options of LLVM that make it send embeddings by the vocabulary in a file; both are needed."""
        return f"-ml-inliner-ir2vec-vocab-file={path}", f"-ir2vec-vocab-path={path}"

    def write(self, folder: Path) -> Path:
        """Write what LLVM reads, and return its path."""
        (path := folder / "ir2vec.json").write_bytes(self.content)
        return path

    def split(self, header: Header) -> Header:
        """The same observations with a feature for each number of the embeddings; ProtocolError without those."""
        found = {spec.name: spec for spec in header.features if spec.name in VECTORS}
        for name in VECTORS:
            if name not in found or found[name].shape != (len(self.dimensions),):
                raise ProtocolError(f"the compiler does not send {name} of {len(self.dimensions)} numbers")
        features: list[TensorSpec] = []
        for spec in header.features:
            if spec.name in VECTORS:
                names = (f"{spec.name.removesuffix('_embedding')}_{self.name}[{one}]" for one in self.dimensions)
                features += (TensorSpec(name, spec.dtype, (1,)) for name in names)
            else:
                features.append(spec)
        return replace(header, features=tuple(features))


def find_vocabulary(setting: str) -> IR2VecVocabulary | None:
    """The vocabulary that ``compile.ir2vec`` names: ``counts``, ``random-N`` or a file; None where it is empty.

    ``counts`` has a row of one 1 for each entity, so the embedding is how often each occurs. ``random-N`` has rows of N
    signs, a random projection of the counts to N numbers (Achlioptas, Journal of Computer and System Sciences 66,
    2003); they are the same everywhere and for ever.
    """
    if not setting:
        return None
    return _made(setting) if _KIND.fullmatch(setting) else _read(Path(setting))


def keep_vocabulary(setting: str, folder: Path) -> str:
    """Copy a file that ``compile.ir2vec`` names to ``folder``, named by its content; gives the setting to use then."""
    vocabulary = find_vocabulary(setting)
    if vocabulary is None or _KIND.fullmatch(setting):
        return setting
    path = folder / f"{vocabulary.name}.json"
    if not path.exists():
        place(path, vocabulary.content)
    return str(path)


def vocabulary_of(features: Iterable[str]) -> str:
    """The name of the vocabulary that a policy's features are made with; empty where they need none."""
    return next((found[1] for name in features if (found := _FEATURE.fullmatch(name))), "")


def made_vocabulary(features: Iterable[str]) -> str:
    """The setting that makes a policy's features; empty where they need none, or one from a file."""
    made = _KIND.fullmatch(vocabulary_of(features))
    return made[0] if made else ""


@cache
def _made(kind: str) -> IR2VecVocabulary:
    num = 0 if kind == "counts" else int(kind.removeprefix("random-"))
    entities = [name for names in _ENTITIES.values() for name in names]
    dimensions = entities if kind == "counts" else [str(number) for number in range(num)]

    def row(section: str, name: str) -> list[float]:
        if kind == "counts":
            return [_ONE[section] * (name == one) for one in dimensions]
        digests = (blake2b(f"{name} {i}".encode(), digest_size=1).digest() for i in range(num))
        return [_ONE[section] if digest[0] & 1 else -_ONE[section] for digest in digests]

    rows = {section: {name: row(section, name) for name in names} for section, names in _ENTITIES.items()}
    return IR2VecVocabulary(kind, tuple(dimensions), json.dumps(rows).encode())


def _read(path: Path) -> IR2VecVocabulary:
    try:
        content = read_input(path, MAX_TEXT_BYTES)
        dim = _dimension(parse_json(content))
    except OSError as error:
        raise ConfigError(
            f"compile.ir2vec: {path} cannot be read ({error.strerror}); name counts, random-N or a vocabulary of IR2Vec"
        ) from error
    except ValueError as error:
        raise ConfigError(f"compile.ir2vec: {path} is not a vocabulary of IR2Vec ({error})") from error
    return IR2VecVocabulary(sha256(content).hexdigest()[:12], tuple(map(str, range(dim))), content)


def _dimension(record: Any) -> int:
    """The one length of all vectors of a vocabulary."""
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")
    lengths = set()
    for section in _ENTITIES:
        rows = record.get(section)
        if not isinstance(rows, dict) or not rows:
            raise ValueError(f"it has no section {section}")
        for name, row in rows.items():
            if not isinstance(row, list) or not all(type(one) in (int, float) and math.isfinite(one) for one in row):
                raise ValueError(f"{section}.{name} is not a list of numbers")
            lengths.add(len(row))
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"its vectors have lengths {', '.join(map(str, sorted(lengths)))}; all must have the same")
    return lengths.pop()
