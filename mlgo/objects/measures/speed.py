"""What a program executes, where a module is a whole program that is run after each compile."""

from mlgo.objects.measures.base import Measure, Words

INSTRUCTIONS = Measure(
    "instructions",
    Words(
        "executed instructions",
        "Instructions that the linked program executes from its start to its end, C library included, as valgrind "
        "counts them. A program that prints something else, does not end or becomes too large is a failed compile.",
        subject="Executed instructions",
        unit="instructions",
        smaller="programs execute fewer instructions",
        larger="programs execute more instructions",
    ),
    quantity="executed instructions",
    meaning="instructions that the program executes; null for modules that are no program, or were not run",
    read=lambda compiled: compiled.instructions,
    unit="",
    of_run=True,
)

MEASURES = (INSTRUCTIONS,)
"""For the registry, see mlgo/objects/measures/__init__.py."""
