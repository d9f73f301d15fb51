"""Function bodies of a module, from textual IR: an exact hash, and a sketch that nearly equal bodies share.

Two bodies have the same hash when their instructions are the same up to what naming and numbering decide: registers
and labels (numbered here by their first use), metadata and attribute groups, numbered private constants, and numbers
that the linker of modules or the front end appends to names. So names of callees, types and constants count.

The sketch folds these, too. Each line of a body becomes a word without identifiers and constants: opcode, types and
kinds of operands (register, global name, constant), attributes, and where blocks begin. A body is the set of its
sequences of `WORDS` words. MinHash (A. Broder, On the resemblance and containment of documents, 1997) keeps `SKETCH`
minima of hashes of this set: the share of minima that two sketches have in common estimates the sets' Jaccard index,
their intersection over their union.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mlgo.base.files import hash64

WORDS = 3
"""Length of a sequence of lines that sketches compare."""

SKETCH = 63
"""Numbers of a sketch."""

LEAST_INSTRUCTIONS = 16
"""Shorter bodies have no sketch: when constants and names are folded, most of them are equal to some other one."""

_DEFINITION = re.compile(rb'^define [^\n@]*@("[^"\n]*"|[\w.$-]+)[^\n]*\{\n(.*?)^\}', re.MULTILINE | re.DOTALL)
_INSTRUCTION = re.compile(rb"  [^ \]]")
_MOST_METADATA = re.compile(rb", ![\w.]+ !\d+| #\d+")
_METADATA = re.compile(rb"(?:, )?![\w.]+ !\d+|![0-9]+| #\d+")
_LABEL = re.compile(rb'^("[^"\n]*"|[\w.$-]+):[^\n]*', re.MULTILINE)
_REGISTER = re.compile(rb"%(?!(?:struct|class|union)\.)[\w.$-]+")
_MODULE_NAME = re.compile(rb"^(?:; ModuleID = |source_filename = )[^\n]*\n", re.MULTILINE)

_PRIVATE = re.compile(rb"@(\.str|__const|switch\.table|constinit|anon)(?:\.[\w.]*)?(?![\w.$-])")
_NUMBERED_GLOBAL = re.compile(rb"(@[\w.$-]*?)(?:\.llvm)?(?:\.\d+)+(?![\w.$-])")
_TYPE_NUMBER = re.compile(
    rb'(%(?:"(?:struct|class|union)\.[^"\n]*?|(?:struct|class|union)\.[\w.$]*?))\.\d+(?="|[^\w.$"])'
)
_NAME = re.compile(rb'[%@](?:"[^"\n]*"|[\w.$-]+)')
_TEXT = re.compile(rb'c?"[^"\n]*"')
_CONSTANT = re.compile(
    rb"(?<![\w.])-?(?:0x[0-9A-Fa-f]+|\d[\w.+-]*)|\b(?:true|false|null|undef|poison|zeroinitializer|none)\b"
)

_ODD = np.uint64(0x9E3779B97F4A7C15)
_KEYS = np.random.default_rng(20_26).integers(0, 1 << 63, (2, SKETCH), np.uint64) | np.uint64(1)


class FunctionBodies(NamedTuple):
    """All function bodies of a module: columns of ``artifacts.PROJECT``."""

    ir_sha256: str  # hash of the whole IR without the module's name, hexadecimal
    function_hashes: np.ndarray  # uint64 [num_functions], ascending
    function_sizes: np.ndarray  # int32 [num_functions], instructions of each body, in the order of the hashes


@dataclass(frozen=True)
class Function:
    """A function of a module."""

    name: str  # its symbol
    body: int  # exact hash of its body, 64 bits
    size: int  # instructions
    words: np.ndarray  # a number for each line, uint64 [num_lines]


_LINE = np.dtype([("exact", "<u8"), ("word", "<u8"), ("instructions", "u1")])


@dataclass
class Reader:
    """Reads function bodies; remembers lines, of which modules of a project have many in common."""

    _lines: dict[bytes, bytes] = field(default_factory=dict)

    def functions(self, ir: bytes) -> Iterator[Function]:
        """Functions of a module printed as textual IR, in its order."""
        for name, body in _DEFINITION.findall(ir):
            body = _LABEL.sub(rb"%\1", _MOST_METADATA.sub(b"", body))
            seen: dict[bytes, int] = {}
            registers = [seen.setdefault(one, len(seen)) for one in _REGISTER.findall(body)]
            folded = [line for line in _REGISTER.sub(b"%", body).split(b"\n") if line]
            lines = np.frombuffer(b"".join([self._lines.get(line) or self._line(line) for line in folded]), _LINE)
            content = lines["exact"].tobytes() + np.array(registers, np.uint32).tobytes()
            size, words = int(lines["instructions"].sum()), lines["word"].astype(np.uint64)
            yield Function(name.strip(b'"').decode(errors="replace"), hash64(content), size, words)

    def _line(self, line: bytes) -> bytes:
        """A `_LINE`: hashes with names and constants, and without; and whether an instruction begins there."""
        plain = _METADATA.sub(b"", line)
        exact = _TYPE_NUMBER.sub(rb"\1", _NUMBERED_GLOBAL.sub(rb"\1", _PRIVATE.sub(rb"@\1", plain)))
        word = _CONSTANT.sub(b"#", _TEXT.sub(b"S", _NAME.sub(b"N", plain)))
        hashes = b"".join(hash64(one).to_bytes(8, "little") for one in (exact, word))
        self._lines[line] = hashed = hashes + bytes([bool(_INSTRUCTION.match(line))])
        return hashed


def hash_functions(ir: bytes) -> FunctionBodies:
    """Hash a module printed as textual IR before optimization."""
    functions = list(Reader().functions(ir))
    hashes = np.array([one.body for one in functions], np.uint64)
    order = np.argsort(hashes, kind="stable")
    sizes = np.array([one.size for one in functions], np.int32)
    return FunctionBodies(hashlib.sha256(_MODULE_NAME.sub(b"", ir)).hexdigest(), hashes[order], sizes[order])


def sketches(functions: Sequence[Function]) -> np.ndarray:
    """Sketches of functions that have `LEAST_INSTRUCTIONS` or more, uint32 [num_functions, `SKETCH`]."""
    if not functions:
        return np.zeros((0, SKETCH), np.uint32)
    sequences = [_sequences(one.words) for one in functions]
    starts = np.cumsum([0, *map(len, sequences)])[:-1]
    every = np.concatenate(sequences)
    minima = [np.minimum.reduceat((every * factor + term) >> np.uint64(32), starts) for factor, term in _KEYS.T]
    return np.stack(minima, axis=1).astype(np.uint32)


def _sequences(words: np.ndarray) -> np.ndarray:
    """A hash of each sequence of `WORDS` words, uint64; of all words where there are fewer."""
    length = min(WORDS, len(words))
    hashes = np.zeros(len(words) - length + 1, np.uint64)
    for place in range(length):
        at = words[place : len(words) - length + 1 + place]
        hashes = hashes * _ODD + (at ^ (at >> np.uint64(29)))
    return hashes ^ (hashes >> np.uint64(31))


OWN, STANDARD, BINDINGS = "own", "standard", "bindings"
"""Families of functions: a project's own code, the standard library, and code that binds C and C++ to Python.

Inline code of the last two is in nearly every project, instantiated with the project's own types. So it is seen in
training whatever the projects are, and counts by itself: neither as seen nor as unseen.
"""

# Thunks and local names are of the function that they name; [rVKRO]* are qualifiers of a member function. St, Sa, Ss,
# Sb, Si, So and Sd are std and its best-known members. The operators new and delete are those that are given a place.
_SCOPE = r"_Z(?:T[hvc][\dn_hv]*_)*Z*(?:N[rVKRO]*)?"
_STANDARD = re.compile(
    rf"{_SCOPE}(?:S[tabsiod]|9__gnu_cxx|10__cxxabiv1)|_Z(?:n[wa][mj]Pv|d[la]PvS_)$|__clang_call_terminate$"
    r"|_mm\d*_|__bswap_\d|__uint\d+_identity$"
)
_BINDINGS = re.compile(
    rf"{_SCOPE}(?:8pybind11|8nanobind|\d+__Pyx_)"
    # What is left out, such as __pyx_pf_ and _cffi_f_, does what the project's own declarations say.
    r"|__Pyx_|CYTHON_|__pyx_(?![a-z]{1,2}_|[gs]etprop_|specialmethod_|fuse_)|_cffi_(?!f_|d_|const_|var_)"
    r"|_?Py(?:|Bytes|ByteArray|Cell|CFunction|DateTime|Dict|Float|List|Long|Mapping|Mem|Module|Object|Set|Tuple|Type"
    r"|Unicode|Vectorcall|Weakref)_[A-Za-z_]+$"
)
_SIMPLE = re.compile(r"_ZZ*L?(\d+)")  # L: internal linkage


def family_of(name: str) -> str:
    """Family of a function by its symbol.

    Names of C++ are mangled as the Itanium ABI says (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling): an
    entity's own scope comes first, template arguments later. A function of a user's type in a container of the standard
    library is of the library; a user's function that takes such a container is not; a lambda is of the function that it
    is in.
    """
    if simple := _SIMPLE.match(name):  # in no class and no namespace: helpers of a header are in both languages
        name = name[simple.end() : simple.end() + int(simple[1])]
    if _STANDARD.match(name):
        return STANDARD
    return BINDINGS if _BINDINGS.match(name) else OWN
