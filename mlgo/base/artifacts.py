"""Tables the pipeline leaves behind: Parquet with a written schema and provenance.

Every writer is atomic (see ``mlgo/base/files.py``) and deterministic (same content, same bytes). Readers compare a file
with its checksum. Wall-clock figures never enter an artifact, because two runs would differ; they go to
``data/work/timings``.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from mlgo import __version__
from mlgo.base.checksum import add_checksum, verify_checksum
from mlgo.base.files import MAX_FILE_BYTES, Draft, canonical_json, open_input, readable, write_atomically
from mlgo.base.types import TensorSpec
from mlgo.errors import ArtifactError
from mlgo.objects.measures import MEASURES, Measure

Row = dict[str, Any]
"""A row of a table, by column."""
RowView = Mapping[str, Any]
"""The same, not to be changed."""

_METADATA_KEY = b"mlgo"
_MAX_GROWTH, _MAX_BYTES = 256, 1 << 30
"""What a table may unpack to: so many times its file, or so many bytes if that is more."""
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 1 << 17, 1 << 28
_DAMAGES = (OSError, pa.ArrowException, ValueError, KeyError)
"""What reading a damaged Parquet file raises."""


def _field(name: str, kind: pa.DataType, meaning: str, unit: str = "", nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable, {"meaning": meaning, "unit": unit})


def _schema(*fields: pa.Field) -> pa.Schema:
    return pa.schema(fields)


def _score(measure: Measure, meaning: str, name: str = "", nullable: bool = True) -> pa.Field:
    return _field(name or measure.name, score_type(measure), meaning, measure.unit, nullable)


def score_type(measure: Measure) -> pa.DataType:
    """Type of a measure's columns."""
    return pa.int64() if measure.is_integer else pa.float64()


def column_type(spec: TensorSpec) -> pa.DataType:
    """Type of a feature's column: a number, or a list of fixed size."""
    number = pa.from_numpy_dtype(spec.dtype)
    return number if spec.num_elements == 1 else pa.list_(number, spec.num_elements)


def feature_array(spec: TensorSpec, payloads: np.ndarray, start: int = 0) -> pa.Array:
    """One feature of many observations: numbers, or lists of them.

    Args:
        payloads: raw observations, uint8 [num, payload_bytes].
        start: first byte of the feature in each.
    """
    numbers = np.ascontiguousarray(payloads[:, start : start + spec.num_bytes]).view(spec.dtype)
    flat = pa.array(numbers.ravel())
    return flat if spec.num_elements == 1 else pa.FixedSizeListArray.from_arrays(flat, spec.num_elements)


_MODULE_KEY = [
    _field("project", pa.string(), "project the module belongs to"),
    _field("module", pa.string(), "source path within the project"),
]
_MODULE = [
    *_MODULE_KEY,
    _field("language", pa.string(), "c or c++"),
    _field("split", pa.string(), "train, validation or test"),
]
_SUCCESS = [
    _field("failure", pa.string(), "kind of failure; empty on success"),
    _field("message", pa.string(), "what went wrong; empty on success"),
]

PROJECT = _schema(
    *_MODULE_KEY,
    _field("language", pa.string(), "c or c++"),
    _field("licence", pa.string(), "SPDX identifier"),
    _field("ir_sha256", pa.string(), "hash of the module's IR without its name; empty without bitcode"),
    _field("skip_reason", pa.string(), "why the source did not become a module; empty if it did"),
    _field("bitcode", pa.binary(), "LLVM bitcode; optimized for tasks in code generation", nullable=True),
    _field("function_hashes", pa.list_(pa.uint64()), "hash of each function body, ascending"),
    _field("function_sizes", pa.list_(pa.int32()), "length of each function body, in hash order", "instructions"),
)
"""One project's sources: what became of each, with bitcode."""

OBJECTS_OF_BUILD = _schema(
    *_MODULE_KEY,
    _field("language", pa.string(), "as in the project's table"),
    _field("compiler", pa.string(), "what the build's compiler says it is"),
    _field("compiler_sha256", pa.string(), "hash of its executable; empty where it could not be asked"),
    _field("driver", pa.string(), "kind of its command line: zig, clang, or other"),
    _field("folder", pa.string(), "where it ran"),
    _field("source", pa.string(), "as it was given"),
    _field("source_sha256", pa.string(), "hash of the source; empty if it was gone"),
    _field("options", pa.list_(pa.string()), "all but source, output, warnings, dependency files and the link"),
    _field("level", pa.string(), "optimization level; empty for the compiler's own"),
    _field("text_bytes", pa.int64(), "text of the build's object, as corpora measure it", "bytes", nullable=True),
    _field("object_sha256", pa.string(), "hash of the object's file; empty without one"),
    _field("contents_sha256", pa.string(), "hash of what is loaded of it; empty without one"),
    _field("missing", pa.string(), "why there is no object to compare with; empty if there is"),
)
"""What a build's own compiler made of each source, read right after the build."""

VERIFIED = _schema(
    *_MODULE_KEY,
    _field("compiler", pa.string(), "what the build's compiler says it is"),
    _field("level", pa.string(), "optimization level of the build; empty for the compiler's own"),
    _field("text_bytes", pa.int64(), "text of the build's object", "bytes", nullable=True),
    _field("recompiled_bytes", pa.int64(), "text of the object made anew", "bytes", nullable=True),
    _field("same_contents", pa.bool_(), "what is loaded of both is the same, byte for byte"),
    _field("reason", pa.string(), "kind of the reason why the sizes differ or are not known; empty if equal"),
    _field("message", pa.string(), "the reason in full"),
    _field("other_profile", pa.string(), "what LLVM warns first if the profile is of another source, else empty"),
)
"""Modules of a captured project, compiled again as their build did."""

PROGRAMS_OF_PROJECT = _schema(
    _field("project", pa.string(), "project the program belongs to"),
    _field("program", pa.string(), "path within the project's build"),
    _field("kind", pa.string(), "program or shared"),
    _field(
        "parts",
        pa.list_(pa.struct([("kind", pa.string()), ("modules", pa.list_(pa.string()))])),
        "objects, and archives of which a linker takes what is needed, in the order of linking",
    ),
    _field(
        "foreign",
        pa.list_(pa.string()),
        "inputs of the link that are no modules: not compiled by the build, left out, or sampled away",
    ),
    _field("libraries", pa.list_(pa.string()), "libraries that the link names"),
    _field("options", pa.list_(pa.string()), "further options of the linker"),
    _field("version_script", pa.string(), "text of the file that says what is exported; empty without one"),
    _field("export_dynamic", pa.bool_(), "a program that exports its symbols"),
    _field("entry", pa.string(), "entry point; empty for the usual one"),
)
"""Linked files of one project's build: which modules make them, and how."""

PROGRAMS_OF_CORPUS = _schema(
    *PROGRAMS_OF_PROJECT,
    _field("split", pa.string(), "train, validation or test"),
    _field(
        "duplicates",
        pa.list_(pa.struct([("module", pa.string()), ("language", pa.string()), ("bitcode_sha256", pa.string())])),
        "modules of it that the corpus leaves out, as their code is that of others; a link needs them all the same",
    ),
)
"""The linked files of all projects of a corpus."""

SHIPPED_SIZES = _schema(
    _field("project", pa.string(), "project the program belongs to"),
    _field("split", pa.string(), "train, validation or test"),
    _field("program", pa.string(), "path within the project's build"),
    _field("kind", pa.string(), "program or shared"),
    _field("language", pa.string(), "rust if any of its modules is, c++ likewise, else c"),
    _field("contender", pa.string(), "heuristic, a policy with its seed, another reference, or another level"),
    _field("folded", pa.bool_(), "functions with identical code were folded into one"),
    _field("text", pa.int64(), "executable sections of the linked file", "bytes", nullable=True),
    _field("read_only", pa.int64(), "its constants", "bytes", nullable=True),
    _field("unwind", pa.int64(), "its unwind tables", "bytes", nullable=True),
    _field("total", pa.int64(), "all three", "bytes", nullable=True),
    _field("compressed", pa.int64(), "the stripped file, compressed by zstd", "bytes", nullable=True),
    _field(
        "kinds",
        pa.list_(pa.struct([("kind", pa.string()), ("text", pa.int64()), ("unwind", pa.int64())])),
        "code and unwind entries of its functions by what training has seen of them, see mlgo/corpus/seen.py",
        "bytes",
        nullable=True,
    ),
    _field("num_modules", pa.int64(), "modules of the project in it"),
    _field("num_foreign", pa.int64(), "further inputs of the build's link that are not in it, see PROGRAMS_OF_PROJECT"),
    *_SUCCESS,
)
"""Linked files as they ship, one row for each, contender and kind of folding."""

SEARCH_COURSE = _schema(
    _field("project", pa.string(), "name of the project"),
    _field("num_compiles", pa.int32(), "compiles of each module so far, at most"),
    _field("total", pa.int64(), "least total of the project's linked files so far", "bytes"),
)
"""How far the search of a project had come after so many compiles."""

MODULES = _schema(
    *_MODULE_KEY,
    _field("language", pa.string(), "c or c++"),
    _field("licence", pa.string(), "SPDX identifier"),
    _field("split", pa.string(), "train, validation or test"),
    _field("bitcode_sha256", pa.string(), "hash of the bitcode, names its unpacked file; empty without bitcode"),
    _field("bitcode_bytes", pa.int64(), "size of the bitcode", "bytes"),
    _field("num_functions", pa.int32(), "defined functions"),
    _field("num_instructions", pa.int64(), "instructions in all function bodies"),
    _field("shared_functions", pa.int32(), "functions whose body also occurs in another split"),
    _field("shared_instructions", pa.int64(), "instructions in those functions"),
    _field("skip_reason", pa.string(), "why the source is not a module of the corpus; empty if it is"),
)
"""The corpus manifest: one row per source, modules and skipped ones alike."""

BODIES = _schema(
    *_MODULE_KEY,
    _field("function", pa.string(), "symbol of the function"),
    _field("family", pa.string(), "own, standard or bindings, see mlgo/corpus/functions.py"),
    _field("body", pa.uint64(), "exact hash of its body, see mlgo/corpus/functions.py"),
    _field("instructions", pa.int32(), "length of its body", "instructions"),
    _field("sketch", pa.binary(), "MinHash of its body; null for short ones and other families", nullable=True),
)
"""The functions of a project's modules before optimization: one row for each function of each module."""

SEEN = _schema(
    *(BODIES.field(name) for name in BODIES.names if name not in ("family", "sketch")),
    _field("kind", pa.string(), "unseen, near, exact, standard or bindings, see mlgo/corpus/seen.py"),
)
"""What training has seen of the functions of other projects: one row for each function of each module."""

SCORES = _schema(
    *_MODULE_KEY,
    _field("advisor", pa.string(), "heuristic, or another reference of the task"),
    *(_score(one, one.meaning) for one in MEASURES.values()),
    _field("num_questions", pa.int64(), "questions the compiler asked", nullable=True),
    _field("truncated", pa.bool_(), "the size stop ended the questions early", nullable=True),
    _field("object_sha256", pa.string(), "hash of the object file; empty on failure"),
    _field("failure", pa.string(), "kind of failure; empty on success"),
    _field("message", pa.string(), "what went wrong, or why the echo differs from the plain compile; else empty"),
)
"""Compiles under fixed advisors, one row per module and advisor."""

FUNCTIONS = _schema(
    *_MODULE_KEY,
    _field("advisor", pa.string(), "heuristic, another reference of the task, or a policy with its seed"),
    _field("function", pa.string(), "symbol of the function"),
    _field("num_questions", pa.int64(), "questions about it; 0 under the heuristic"),
    _field("num_spills", pa.int64(), "stores of values that got no register"),
    _field("spills_cost", pa.float64(), "the same, weighted by how often their blocks run per call"),
    _field("num_folded_spills", pa.int64(), "spills done by an instruction that is there anyway"),
    _field("folded_spills_cost", pa.float64(), "the same, weighted"),
    _field("num_reloads", pa.int64(), "loads of such values"),
    _field("reloads_cost", pa.float64(), "the same, weighted"),
    _field("num_folded_reloads", pa.int64(), "reloads done by an instruction that is there anyway"),
    _field("folded_reloads_cost", pa.float64(), "the same, weighted"),
    _field("num_free_reloads", pa.int64(), "folded reloads that cost nothing"),
    _field("num_copies", pa.int64(), "copies between registers"),
    _field("copies_cost", pa.float64(), "the same, weighted"),
)
"""What register allocation cost each function, as the compiler reports it: one row per module, advisor and function
that was asked about or costs anything. The score is derived, see mlgo/objects/measures/built_in.py. Empty for other
tasks."""

COPIES = _schema(
    _field("project", pa.string(), "project of the modules"),
    _field("signature", pa.binary(), "symbol that names the COMDAT group"),
    _field("num_modules", pa.int64(), "modules that carry the group under the heuristic; at least 2"),
)
"""What several modules of a project carry, of which a linker keeps one copy. Text "by shares" counts such a group by
its share: one part in as many as modules carry it."""

RESULTS = _schema(
    *_MODULE,
    _field("policy", pa.string(), "name of the policy"),
    _field("seed", pa.int64(), "seed it was trained with"),
    *(_score(one, f"{one.quantity} under the policy") for one in MEASURES.values()),
    *(
        _score(one, f"{one.quantity_of_baseline or one.quantity} under the heuristic", f"baseline_{one.name}")
        for one in MEASURES.values()
    ),
    _field("num_questions", pa.int64(), "questions the compiler asked", nullable=True),
    _field("num_inlined", pa.int64(), "questions answered with inlining; null for other tasks", nullable=True),
    _field("truncated", pa.bool_(), "the size stop ended the questions early", nullable=True),
    *_SUCCESS,
)
"""Evaluation: one row per module, policy and seed."""

GENERALISATION = _schema(
    *_MODULE,
    _field("trained_with", pa.string(), "compiler of the policy's training"),
    _field("train_set", pa.string(), "what it was trained on"),
    _field("seed", pa.int64(), "seed it was trained with"),
    _field("tested_with", pa.string(), "compiler of this row, whose own front end made the module"),
    *(RESULTS.field(name) for name in RESULTS.names[RESULTS.names.index("seed") + 1 :]),
)
"""Policies on other languages and under other compilers: one row per module, policy, seed and compiler."""

HEADROOM = _schema(
    *_MODULE,
    _field("variant", pa.string(), "heuristic, never, always, random, single-call or search"),
    *(_score(one, one.meaning) for one in MEASURES.values() if not one.is_by_function),
    _field("num_compiles", pa.int64(), "compiles asked for; 0 when the size was known from an earlier stage"),
    *_SUCCESS,
)
"""How small a module can be made: one row per module and way of answering."""

PROGRAMS = _schema(
    _field("program", pa.string(), "name of the program"),
    _field("contender", pa.string(), "heuristic, another reference, or a policy with its seed"),
    *(_score(one, one.of_program) for one in MEASURES.values() if one.of_program),
    _field("instructions", pa.int64(), "executed instructions", nullable=True),
    _field("reads", pa.int64(), "loads from memory", nullable=True),
    _field("writes", pa.int64(), "stores to memory", nullable=True),
    _field("right", pa.bool_(), "printed what it should and ended with status 0", nullable=True),
    *_SUCCESS,
)
"""Programs that were built and run: one row per program and contender."""

FAILURES = _schema(
    _field("module", pa.string(), "project and source path"),
    _field("compiles", pa.int64(), "compiles of the module that a training asked for"),
    _field("failures", pa.int64(), "those that failed"),
    _field("reason", pa.string(), "kind and message of the last failure"),
    _field("quarantined", pa.bool_(), "failed too often and was left out from then on"),
)
"""Modules on which a training met failures."""

VOCABULARY = _schema(
    _field("feature", pa.string(), "feature name"),
    _field("quantiles", pa.list_(pa.float64()), "quantiles 0 to 1 in equal steps over the training trace"),
    _field("num_distinct", pa.int64(), "distinct values in the training trace"),
)
"""Per-feature quantiles of the default policy's questions."""

EPISODE = _schema(
    _field("module", pa.string(), "as the user named it; project and source path for a module of the corpus"),
    _field("bitcode_sha256", pa.string(), "hash of the bitcode"),
    _field("bitcode", pa.binary(), "the bitcode; null for a module of the corpus", nullable=True),
    _field("with_default", pa.bool_(), "the heuristic's decision was asked for as a feature"),
    _field("header", pa.binary(), "what the compiler announced, as on the wire"),
    _field("answers", pa.binary(), "raw answers, concatenated"),
    _field("observations", pa.binary(), "raw observations, concatenated; null when not logged", nullable=True),
    _field("truncated", pa.bool_(), "the size stop ended the questions early"),
    *(_score(one, one.meaning, nullable=False) for one in MEASURES.values() if one.is_of_object),
    _field("object_sha256", pa.string(), "hash of the object file"),
)
"""One logged compile, in one row. Task, policy, compiler and settings are in the provenance."""

TIMINGS = _schema(
    *_MODULE_KEY,
    _field("advisor", pa.string(), "advisor or policy that answered"),
    _field("seconds", pa.float64(), "wall time of the compile", "s"),
)
"""Measured compile times. Not reproducible, so never an input or output of a stage."""


def steps_schema(features: Mapping[str, pa.DataType], action: pa.DataType) -> pa.Schema:
    """Schema of recorded episodes of an environment: one row for each question, in the order in which they were asked.

    An episode whose compile asks nothing is one row, too, its features 0; features of several columns are lists. Task,
    compiler, flags, settings and the compiler's header are in the provenance.
    """
    return _schema(
        _field("episode", pa.int64(), "number of the episode in this file, from 0"),
        _field("module", pa.string(), "as the environment names it"),
        _field("bitcode_sha256", pa.string(), "hash of its bitcode"),
        _field("baseline", pa.float64(), "its score under the heuristic"),
        _field("context", pa.string(), "function or module that is asked about; empty for a whole module"),
        _field("question", pa.int64(), "number in the compile; null where nothing was asked", nullable=True),
        _field("heuristic", pa.int64(), "the built-in decision; null where it is not told", nullable=True),
        *(_field(name, kind, "feature") for name, kind in features.items()),
        _field("action", action, "the answer; null where the episode was left", nullable=True),
        _field("reward", pa.float64(), "for this answer; with the last one, also what the end brought"),
        _field("terminated", pa.bool_(), "the compile ended with this answer"),
        _field("truncated", pa.bool_(), "the compile failed after this answer"),
        _field("score", pa.float64(), "what the compile came to; null but at its end", nullable=True),
        _field("object_sha256", pa.string(), "hash of the object file; empty but at the end, and where not known"),
        _field("failure", pa.string(), "kind of failure; else empty"),
        _field("message", pa.string(), "what went wrong; else empty"),
    )


def trace_schema(features: Iterable[str] | Mapping[str, pa.DataType], answer: pa.DataType | None = None) -> pa.Schema:
    """Schema of a trace: key, step, the features, and the answer.

    The answer is the heuristic's own where the compiler tells it, else that of the reference that is traced.

    Args:
        features: their names, or also their types, lists for those of several columns; int64 if not given.
        answer: its type; int64 if not given.
    """
    types = features if isinstance(features, Mapping) else dict.fromkeys(features, pa.int64())
    return _schema(
        *_MODULE_KEY,
        _field("context", pa.string(), "scope of the decision; empty for a whole module"),
        _field("step", pa.int32(), "number of the question within its context, from 0"),
        *(_field(name, kind, "feature") for name, kind in types.items()),
        _field("answer", answer or pa.int64(), "what the traced reference decided"),
    )


def label_schema(features: Iterable[str]) -> pa.Schema:
    """Schema of labels: one row for each question that a flip has answered otherwise, the features, and the answer."""
    return _schema(
        _field("project", pa.string(), "name of the project"),
        _field("round", pa.int32(), "number of the compile whose answers were turned round, from 0"),
        _field("flip", pa.int32(), "number of the flip, from 0; its questions were answered otherwise together"),
        _field("saved", pa.float64(), "what the flip has saved", "bytes"),
        _field("caller_bytes", pa.float32(), "size of the caller before; null where it is gone", "bytes", True),
        _field("callee_bytes", pa.float32(), "size of the callee before; null where it is gone", "bytes", True),
        _field("callee_calls", pa.int32(), "questions about the callee in that compile"),
        *(_field(name, pa.int64(), "feature") for name in features),
        _field("answer", pa.int64(), "what was decided before the flip"),
    )


def trace_features(trace: pa.Table) -> dict[str, pa.DataType]:
    """Types of a trace's features by name, in their order."""
    return {field.name: field.type for field in trace.schema if field.name not in trace_schema([]).names}


def schema_of_trace(trace: pa.Table) -> pa.Schema:
    """The `trace_schema` that a trace with these columns has."""
    return trace_schema(trace_features(trace), trace.schema.field("answer").type)


_UNIT = _field("unit", pa.string(), "number of a method in its collection")

_CHOICE = [
    _field("score", pa.float64(), "what is to be small: PerfScore", nullable=True),
    _field("code_bytes", pa.int64(), "size of the code", "bytes", nullable=True),
    _field("requested", pa.list_(pa.int32()), "candidates to eliminate, by position; empty where the heuristic chose"),
    _field("num_performed", pa.int64(), "eliminations done", nullable=True),
    _field("failure", pa.string(), "kind of failure; empty on success"),
    _field("message", pa.string(), "what went wrong; else empty"),
]

CSE_UNITS = _schema(
    _UNIT,
    _field("split", pa.string(), "train, validation or test"),
    _field("body_sha256", pa.string(), "equal for units that are the same but for their name"),
    _field("num_candidates", pa.int64(), "candidates without any elimination", nullable=True),
    _field("num_viable", pa.int64(), "of these, those that the compiler would eliminate", nullable=True),
    _field("skip_reason", pa.string(), "why the unit is not learnt from or judged; empty if it is"),
)
"""Units whose eliminations are chosen, and those that are left out."""

CSE_COMPILES = _schema(
    _UNIT,
    _field("way", pa.string(), "who chose: none (no elimination) or heuristic (the compiler itself)"),
    *_CHOICE,
)
"""Units under the two baselines."""

CSE_LABELS = _schema(
    _UNIT,
    *_CHOICE,
    _field("exhaustive", pa.bool_(), "every subset of the viable candidates was tried, so there is nothing better"),
    _field("num_tried", pa.int64(), "choices tried"),
    _field("num_failed", pa.int64(), "of these, compiles that failed"),
)
"""The best choice known for each unit."""

CSE_EFFECTS = _schema(
    _UNIT,
    _field("position", pa.int64(), "a viable candidate"),
    _field("mean_change", pa.float64(), "of the score, between choices that differ in it alone", nullable=True),
    _field("num_pairs", pa.int64(), "such pairs of choices that were tried"),
)
"""What eliminating each candidate does to the score of its unit, whatever else is eliminated."""

CSE_RESULTS = _schema(
    _UNIT,
    _field("split", pa.string(), "train, validation or test"),
    _field("policy", pa.string(), "name of the policy"),
    _field("seed", pa.int64(), "seed it was trained with"),
    *_CHOICE,
)
"""Units under trained policies."""


def cse_candidates_schema(features: list[str]) -> pa.Schema:
    """Candidates of all units without any elimination: one row each, one column per feature."""
    return _schema(
        _UNIT,
        _field("position", pa.int64(), "place in the compiler's table, from 0"),
        _field("viable", pa.bool_(), "the compiler would eliminate it"),
        *(_field(f"f_{name}", pa.int64(), f"feature {name} as the compiler tells it") for name in features),
    )


def provenance(**inputs: Any) -> dict[str, Any]:
    """Describe where an artifact comes from; pass plain JSON values (compiler, flags, seed, hashes of inputs)."""
    return {"package": f"mlgo {__version__}", **inputs}


def write_table(path: Path, table: pa.Table, schema: pa.Schema, origin: Mapping[str, Any]) -> None:
    """Write a table as Parquet, checked against its schema, provenance in the file's metadata.

    Args:
        table: rows, columns in any order.
        schema: required columns; also fixes their order.
    """
    try:
        table = table.select(schema.names).cast(schema.remove_metadata())
    except (KeyError, pa.ArrowInvalid, ValueError) as error:
        raise ArtifactError(f"rows for {path} do not fit their schema: {error}") from error
    metadata = {_METADATA_KEY: canonical_json(origin).encode()}
    table = pa.Table.from_arrays(table.columns, schema=schema.with_metadata(metadata))

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # closed also where the disk is full
            pq.write_table(table, file, compression="zstd", compression_level=6, row_group_size=1 << 17)
        add_checksum(temporary)

    write_atomically(path, write)


def write_rows(path: Path, rows: list[dict[str, Any]], schema: pa.Schema, origin: Mapping[str, Any]) -> None:
    """Write dictionaries as Parquet; see `write_table`."""
    try:
        table = pa.Table.from_pylist(rows, schema=schema.remove_metadata())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ArtifactError(f"rows for {path} do not fit their schema: {error}") from error
    write_table(path, table, schema, origin)


class TableWriter:
    """Writes a table part by part, each a row group; the file gets its name when it is closed, whole or not at all."""

    def __init__(self, path: Path, schema: pa.Schema, origin: Mapping[str, Any]) -> None:
        self._path, self._schema = path, schema.remove_metadata()
        described = schema.with_metadata({_METADATA_KEY: canonical_json(origin).encode()})
        self._writer: pq.ParquetWriter | None = None
        self._draft = Draft(path)
        with self._draft.filling():
            self._writer = pq.ParquetWriter(self._draft.path, described, compression="zstd", compression_level=6)

    def write(self, columns: Mapping[str, Any]) -> None:
        """Add rows, given by columns."""
        assert self._writer is not None
        try:
            table = pa.table(dict(columns), schema=self._schema)
        except (KeyError, pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
            raise ArtifactError(f"rows for {self._path} do not fit their schema: {error}") from error
        with self._draft.filling():
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        """Give the file its name; a second call does nothing."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with self._draft.filling():
                writer.close()
                add_checksum(self._draft.path)
            self._draft.place()

    def __del__(self) -> None:
        if getattr(self, "_writer", None) is not None:  # never closed: nothing half-written stays behind
            self._writer = None
            self._draft.discard()


def read_table(
    path: Path, schema: pa.Schema | None = None, columns: list[str] | None = None, filters: list[Any] | None = None
) -> pa.Table:
    """Read a Parquet artifact; ArtifactError where it is damaged or lacks what is asked for.

    Args:
        schema: when given, every column of it must be there with its type, and without nulls if it may have none.
        filters: when given, read only rows that fit, and of row groups only those that may hold some, see
            `pyarrow.parquet.read_table`.
    """
    with _opened(path) as file:
        names = columns and list(dict.fromkeys([*columns, *(name for name, _, _ in filters or ())]))
        table = pa.concat_tables(_parts(file, names, filters))
        table.validate(full=True)
        table = table.select(columns) if columns else table
    wanted = [field for field in schema or () if columns is None or field.name in columns]
    _check_columns(path, wanted, table.schema)
    for field in wanted:
        if not field.nullable and table[field.name].null_count:
            raise ArtifactError(f"{path} has rows without {field.name!r}; run its stage again")
    return table


def table_rows(path: Path, schema: pa.Schema, columns: list[str]) -> Iterator[dict[str, Any]]:
    """Rows of a Parquet artifact, few of them in memory at a time.

    Args:
        schema: every column of it must be there with its type.
    """
    with _opened(path) as file:
        _check_columns(path, schema, pq.read_schema(file))
        for part in _parts(file, columns):
            yield from part.to_pylist()


def _parts(file: BinaryIO, columns: list[str] | None, filters: list[Any] | None = None) -> Iterator[pa.Table]:
    """Rows of a Parquet file, a first part without any; ValueError where they are far more than the file is long.

    A footer says how much its pages unpack to, but not how often one text stands in the rows. So texts are read as
    dictionaries, and become columns of texts when their lengths are known.
    """
    footer, limit = pq.read_metadata(file), max(_MAX_BYTES, _MAX_GROWTH * file.seek(0, os.SEEK_END))
    leaves = [footer.schema.column(number) for number in range(footer.num_columns)]
    schema, wanted, groups = footer.schema.to_arrow_schema(), None, [*range(footer.num_row_groups)]
    if columns is not None:
        schema = pa.schema(map(schema.field, columns), schema.metadata)
    if filters is not None:
        wanted, fragment = pq.filters_to_expression(filters), ds.ParquetFileFormat().make_fragment(file)
        groups = [group.id for group in fragment.subset(wanted).row_groups]
    chosen = [footer.row_group(number) for number in groups]
    lists = [number for number, leaf in enumerate(leaves) if leaf.max_repetition_level]
    numbers = sum(group.column(leaf).num_values for group in chosen for leaf in lists)
    _check_size(8 * numbers + sum(group.total_byte_size for group in chosen), limit)
    yield schema.empty_table()
    texts, found = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"], 0
    stored = pq.ParquetFile(file, metadata=footer, read_dictionary=texts)
    # Each group by itself, as a batch of several would have as many dictionaries.
    for batch in chain.from_iterable(stored.iter_batches(_ROWS_AT_ONCE, [group], columns) for group in groups):
        size = batch.nbytes + sum(map(_text_bytes, batch))
        _check_size(found := found + size, limit)
        step = max(1, batch.num_rows * _BYTES_AT_ONCE // (size + 1))
        for start in range(0, batch.num_rows, step):
            part = pa.Table.from_batches([batch.slice(start, step)]).cast(schema)
            yield part if wanted is None else part.filter(wanted)


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise ValueError(f"it unpacks to more than {limit:,} bytes")


def _text_bytes(array: pa.Array) -> int:
    """Bytes of all texts in an array of dictionaries, or of lists and structures of them, as often as each is there."""
    if pa.types.is_dictionary(array.type):
        return pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    if pa.types.is_struct(array.type):
        return sum(map(_text_bytes, array.flatten()))
    return _text_bytes(array.flatten()) if pa.types.is_nested(array.type) else 0


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A table's file that has the checksum it was written with."""
    with readable(path, "a readable Parquet file", *_DAMAGES), open_input(path, MAX_FILE_BYTES) as file:
        verify_checksum(file)
        yield file


def _check_columns(path: Path, fields: Iterable[pa.Field], found: pa.Schema) -> None:
    for field in fields:
        if found.names.count(field.name) != 1 or found.field(field.name).type != field.type:
            raise ArtifactError(f"{path} has no column {field.name!r} of type {field.type}; run its stage again")


def read_provenance(path: Path) -> dict[str, Any]:
    """Return the provenance stored in a Parquet artifact; ArtifactError without one."""
    with _opened(path) as file:
        return provenance_in(path, pq.read_schema(file))


def provenance_in(path: Path, schema: pa.Schema) -> dict[str, Any]:
    """The same for the schema of a table that has been read from there."""
    try:
        return dict(json.loads((schema.metadata or {})[_METADATA_KEY]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} carries no provenance of this package; run its stage again") from error
