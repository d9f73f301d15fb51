"""Scores and bytes by function of merged modules: those of the file that their linked file is."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from mlgo.base.files import hash64
from mlgo.base.ships import Ships
from mlgo.corpus.build import columns_of
from mlgo.corpus.link_time import whole_programs
from mlgo.errors import LinkError
from mlgo.evaluate.worker import tree_key
from mlgo.host.linker import MERGED, LinkedFile, link_file, section_sizes
from mlgo.host.module_file import Generation, bitcode_of, generation_of, module_file
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.task import ConstantAdvisor, RandomAdvisor
from mlgo.objects.symbols import NO_FUNCTION, REFERENCES, linked_bytes_by_function
from tests.conftest import FLAGS, REPOSITORY
from tests.corpus.lto.conftest import LIBRARY, PROGRAM, program_row


@pytest.fixture
def merged(rows, tools, tmp_path):
    """Files of merged modules by name, and their linked files."""

    def merge(*programs, **limits):
        made, linked = whole_programs(rows, programs, replace(tools, **limits))
        paths = {row["module"]: tmp_path / f"{number}.bc" for number, row in enumerate(made) if not row["skip_reason"]}
        for row in made:
            if row["module"] in paths:
                paths[row["module"]].write_bytes(row["bitcode"])
        return paths, {row["program"]: LinkedFile.of_row(row) for row in linked}

    return merge


def shipping(settings, **record):
    return settings.model_copy(update={"ships": Ships(form="whole", **record)})


def test_the_score_of_a_merged_module_is_that_of_its_linked_file(merged, toolchain, task, settings, tools, tmp_path):
    paths, files = merged(PROGRAM, LIBRARY)
    for name, path in paths.items():
        compiled = compile_plain(toolchain, path, settings, task=task, object_path=tmp_path / "m.o")
        sizes = section_sizes(link_file(tools.linker, files[name], {name: tmp_path / "m.o"}, 60.0))
        scores = compiled.scores["linked_bytes"], compiled.scores["linked_code"]
        assert scores == (sizes["total"], sizes["text"])
        without = compile_plain(toolchain, path, shipping(settings, unwind=False), task=task).scores
        assert (without["linked_bytes"], without["linked_code"]) == (sizes["total"] - sizes["unwind"], sizes["text"])


def test_other_modules_have_no_linked_file(bitcode, toolchain, settings):
    compiled = compile_plain(toolchain, bitcode("int f(void) { return 1; }"), settings)
    assert compiled.scores["linked_bytes"] is compiled.scores["linked_code"] is None


def test_a_group_keeps_what_other_groups_use(merged, toolchain, task, settings):
    both = program_row("all", "program", [("object", ["main.c", "used.c"])], options=["--gc-sections", "-lm"])
    paths, _ = merged(both, max_instructions=1)
    for path in paths.values():
        link = generation_of(path).link  # the last option counts
        assert (link.kind, link.options, link.entry) == ("program", ("--gc-sections", "-pie", "--no-gc-sections"), "")
    # used is called by the other group alone.
    how = shipping(settings, sections=True)
    result = compile_under_advice(toolchain, task, paths["all#1"], ConstantAdvisor(1), how, with_credit=True)
    sizes = dict(zip(result.credit.names.tolist(), result.credit.sizes.tolist(), strict=True))
    assert sizes[hash64(b"used")] > 0
    assert sum(size for size in sizes.values() if size >= 0) == result.scores["linked_bytes"]


def test_a_link_that_fails_is_a_failed_compile(merged, toolchain, settings):
    paths, files = merged(PROGRAM)
    path = paths["bin/prog"]
    entry = replace(files["bin/prog"], options=("--gc-sections",), entry="nobody_has_this")
    path.write_bytes(module_file(bitcode_of(path.read_bytes()), Generation(link=entry.only_part())))
    with pytest.raises(LinkError, match="nothing is left"):
        compile_plain(toolchain, path, settings)


def test_response_trees_are_of_one_record(toolchain, task, settings):
    records = [{}, {"folding": "none"}, {"folding": "all"}, {"unwind": False}, {"folding": "all", "unwind": False}]
    keys = {tree_key(toolchain, task, shipping(settings, **record)).folder for record in records}
    assert len(keys) == len(records)
    # Otherwise a record is in the modules; scores of objects do not depend on it.
    assert tree_key(toolchain, task, shipping(settings)) == tree_key(toolchain, task, settings)


SAMPLES = ("sample/calc", "sample/codec", "sample/geometry", "sample/json", "sample/lz")
PROGRAMS = ("programs/graph", "programs/json", "programs/regex", "programs/sort", "programs/vm")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SAMPLES, *PROGRAMS])
def test_functions_change_as_the_file_does(name, front_end, tools, toolchain, task, settings, tmp_path):
    rows, folder = [], REPOSITORY / "data" / name
    for source in sorted([*folder.glob("*.c"), *folder.glob("*.cpp")]):
        language = "c" if source.suffix == ".c" else "c++"
        front_end.compile_to_bitcode(folder, language, FLAGS[language], source.name, tmp_path / "source.bc")
        row = {"project": "p", "module": source.name, "language": language, "licence": ""}
        rows.append(row | columns_of(front_end, tmp_path / "source.bc"))
        rows[-1]["bitcode"] = module_file(rows[-1]["bitcode"], Generation(("-ffunction-sections", "-fPIC")))
    kind = "program" if name in PROGRAMS else "shared"
    whole = program_row(name, kind, [("object", [row["module"] for row in rows])])
    module, compiled = tmp_path / "merged.bc", tmp_path / "merged.o"
    module.write_bytes(whole_programs(rows, [whole], tools)[0][0]["bitcode"])
    link = generation_of(module).link

    def policy(seed):
        """Bytes of the linked file and of all its functions, as a compile tells them and folded."""
        share = (0.1, 0.3, 0.5, 0.7, 0.9)[seed % 5]
        advisor = RandomAdvisor(lambda rng, _: rng.random() < share, seed, name)
        how = {"with_credit": True, "object_path": compiled}
        result = compile_under_advice(toolchain, task, module, advisor, shipping(settings), **how)
        credit = result.credit
        own = (credit.sizes >= 0) & (credit.names != hash64(NO_FUNCTION))
        plain = result.scores["linked_bytes"], credit.sizes[own].sum(dtype=np.float64)
        folded = link_file(tools.linker, link, {MERGED: compiled}, 60.0, Ships(folding="all"), REFERENCES)
        functions = linked_bytes_by_function(folded)
        functions.pop(NO_FUNCTION)
        return plain, (section_sizes(folded)["total"], sum(functions.values()))

    for found in zip(*map(policy, range(10)), strict=True):
        assert len({size for size, _ in found}) > 1
        for (size, functions), (other_size, other_functions) in combinations(found, 2):
            change = size - other_size
            assert abs(functions - other_functions - change) <= max(64, 0.05 * abs(change))
