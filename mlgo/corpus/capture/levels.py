"""Modules of another level than the one that they were made for."""

from pathlib import Path

from mlgo.base.files import write_bytes
from mlgo.corpus.build import ir_of
from mlgo.corpus.capture.ir_text import with_level
from mlgo.host.frontend import FrontEnd
from mlgo.host.module_file import bitcode_of, generation_of, with_options


def mark_anew(front_end: FrontEnd, ir: bytes, level: str, bitcode: Path) -> None:
    """Write bitcode of textual IR, its functions marked as a compile at a level marks them.

    Args:
        front_end: reads the IR.
        ir: of the module.
        level: for example ``-Os``.
        bitcode: file to write.

    Raises:
        CompileError: the IR cannot be read.
    """
    text = bitcode.with_suffix(".level.ll")
    try:
        text.write_bytes(with_level(ir, level))
        front_end.assemble_ir(text, bitcode)
    finally:
        text.unlink(missing_ok=True)


def module_at_level(front_end: FrontEnd, module: Path, level: str, output: Path) -> None:
    """Write a module's file as another level wants it; how its code is generated stays the same.

    Args:
        front_end: reads the module.
        module: bitcode before optimization, with or without options around it.
        level: for example ``-Os``.
        output: file to write, in a folder for nothing else.

    Raises:
        CompileError: the module cannot be read.
        ConfigError: its options could run or load other code.
    """
    generation = generation_of(module)
    plain = output.with_suffix(".plain.bc")
    try:
        plain.write_bytes(bitcode_of(module.read_bytes()))
        mark_anew(front_end, ir_of(front_end, plain), level, plain)
        write_bytes(output, with_options(plain.read_bytes(), generation.options, generation.index, generation.profile))
    finally:
        plain.unlink(missing_ok=True)
