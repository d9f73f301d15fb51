"""Corpora in the layout of LLVM's tools, as others write them."""

import json


def write_llvm_corpus(folder, modules, override=None):
    """Write modules, each given as name, bitcode, command and index; the last two may be None."""
    description = {
        "modules": [name for name, *_ in modules],
        "has_thinlto": any(index is not None for *_, index in modules),
    }
    for name, bitcode, command, index in modules:
        command = None if command is None else "".join(f"{word}\0" for word in command).encode()
        for ending, data in (("bc", bitcode), ("cmd", command), ("thinlto.bc", index)):
            path = folder / f"{name}.{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            if data is not None:
                path.write_bytes(data)
    if override is not None:
        description["global_command_override"] = list(override)
    (folder / "corpus_description.json").write_text(json.dumps(description))
