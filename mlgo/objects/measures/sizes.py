"""Sizes of objects in bytes, after the section header table of the ELF specification."""

from mlgo.objects.comdat import shared_text
from mlgo.objects.elf import executable_size, text_size
from mlgo.objects.measures.base import Compiled, Measure, Words


def _shared(compiled: Compiled) -> int | None:
    if compiled.num_copies is None:
        return None
    return shared_text(text_size(compiled.sections), compiled.groups, compiled.num_copies)


EXEC = Measure(
    "exec_bytes",
    Words("executable sections", "Sections that hold instructions, in bytes."),
    quantity="executable sections",
    meaning="executable sections of the object",
    read=lambda compiled: executable_size(compiled.sections),
)

TEXT = Measure(
    "text_bytes",
    Words(
        "text",
        "What the Berkeley format of size calls text: code and read-only data of the object file, in bytes.",
    ),
    quantity="Berkeley text",
    meaning="Berkeley text of the object",
    read=lambda compiled: text_size(compiled.sections),
    of_program="Berkeley text of its objects",
)

SHARED_TEXT = Measure(
    "dedup_bytes",
    Words(
        "text by shares",
        "Text in which a function or template instance that several modules of the project hold a copy of counts one "
        "part in as many modules as hold it under the heuristic. A linker keeps one copy.",
    ),
    quantity="Berkeley text by shares",
    quantity_of_baseline="text by shares",
    meaning="Berkeley text by shares, see COPIES",
    read=_shared,
    needs_copies=True,
)

MEASURES = (EXEC, TEXT, SHARED_TEXT)
"""For the registry, see mlgo/objects/measures/__init__.py."""
