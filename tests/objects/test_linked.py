"""Bytes by function of a linked file: real objects by the real compiler and linker, sizes by hand."""

import pytest

from mlgo.base.ships import Ships
from mlgo.host.linker import LinkedFile, link_file, section_sizes
from mlgo.host.toolchain import find_linker
from mlgo.objects.elf import function_code
from mlgo.objects.symbols import NO_FUNCTION, REFERENCES, linked_bytes_by_function

# An entry of the unwind table: length, identifier, address, size, length of what follows, 4 + 4 + 4 + 4 + 1 bytes; then
# instructions, up to a multiple of 4, none in a function that leaves the stack alone. The index has 8 bytes each.
ENTRY = 20 + 8
# The first entry, which all have in common, the end mark, and the head of the index.
COMMON = 24 + 4 + 12

SAME = """
int one(int x) { return 3 * x + 1; }
int two(int x) { return 3 * x + 1; }
int main(void) { return one(4) - two(9); }
"""
ALIGNED = """
int odd(int x) { return 3 * x + 1; }
__attribute__((aligned(64))) int far(int x) { return 2 * x; }
int main(void) { return odd(far(3)); }
"""
TABLE = """
int a(void), b(void), c(void), d(void), e(void);
int choose(int x) {
  switch (x) {
    case 0: return a();
    case 1: return b() + 3;
    case 2: return c() * 7;
    case 3: return d() - 2;
    case 4: return e() / 3;
    case 5: return a() ^ 5;
  }
  return 9;
}
const char *text(void) { return "shared"; }
const char *again(void) { return "shared"; }
const char *own(void) { return "mine"; }
int main(void) { return choose(4); }
"""
THROWS = """
struct error { int code; };
int risky(int);
int main() { try { return risky(1); } catch (error &one) { return one.code; } }
"""


@pytest.fixture
def linked(compiled):
    """Compiles and links a text: code of its functions, bytes by function of the file, and the file's sizes."""

    def make(text, *options, kind="program", ships=None, unwind=True, language="c"):
        path = compiled(text, "-Oz", "-fno-inline", *options, language=language)
        file = LinkedFile("p", "file", kind, (("object", ("m",)),))
        data = link_file(find_linker(), file, {"m": path}, 60.0, ships or Ships(), REFERENCES)
        sizes, found = section_sizes(data), linked_bytes_by_function(data, unwind=unwind)
        assert sum(found.values()) == sizes["total"] - (0 if unwind else sizes["unwind"])
        assert sizes == section_sizes(link_file(find_linker(), file, {"m": path}, 60.0, ships or Ships()))
        code = {name.encode(): len(code) for name, code in function_code(path.read_bytes()).items()}
        return code, found, sizes

    return make


def test_a_function_that_is_folded_costs_nothing(linked):
    code, found, _ = linked(SAME, "-ffunction-sections")
    assert code[b"one"] == code[b"two"] == 6  # imul eax, edi, 3 (3); inc eax (2); ret (1)
    assert found[b"one"] == found[b"two"] == 6 + ENTRY
    assert found[NO_FUNCTION] == COMMON
    for folding in ("safe", "all"):
        _, folded, sizes = linked(SAME, "-ffunction-sections", "-faddrsig", ships=Ships(folding=folding))
        assert folded == found | {b"two": 0}
        assert sizes["unwind"] == COMMON + ENTRY + found[b"main"] - code[b"main"]
    _, folded, _ = linked(SAME, "-ffunction-sections", ships=Ships(folding="all", unwind=False), unwind=False)
    assert folded == {b"one": 6, b"two": 0, b"main": code[b"main"], NO_FUNCTION: 0}


def test_padding_belongs_to_the_function_behind_it(linked):
    code, found, sizes = linked(ALIGNED, unwind=False)
    assert (code[b"odd"], code[b"far"]) == (6, 4)  # imul, inc, ret; lea eax, [rdi + rdi] (3), ret
    assert found == {b"odd": 6, b"far": 64 - 6 + 4, b"main": code[b"main"], NO_FUNCTION: 0}
    assert sizes["text"] == 64 + 4 + code[b"main"]


def test_constants_belong_to_the_functions_that_refer_to_them(linked):
    code, found, sizes = linked(TABLE, unwind=False)
    # Six offsets of four bytes; "shared" with its end is of two functions; "mine" is of one.
    assert sizes["read_only"] == 6 * 4 + 7 + 5
    assert found[b"choose"] == code[b"choose"] + 6 * 4
    assert found[b"text"] == found[b"again"] == code[b"text"] + 3.5
    assert found[b"own"] == code[b"own"] + 5
    assert found[NO_FUNCTION] == 0


def test_stubs_belong_to_the_functions_that_call_them(linked):
    code, found, _ = linked(TABLE, "-fPIC", kind="shared", unwind=False)
    assert found[b"main"] == code[b"main"] + 16  # choose is exported, so its stub may lead elsewhere
    assert found[b"choose"] == code[b"choose"] + 6 * 4 + 5 * 16
    assert found[NO_FUNCTION] == 16  # what all stubs have in common


def test_a_table_of_exceptions_belongs_to_its_function(linked):
    code, found, sizes = linked(THROWS, "-fexceptions", "-frtti", language="c++")
    # The name of the thrown type, then as `COMMON`, but with the address of the personality routine, 8 bytes more.
    assert found[NO_FUNCTION] == len("5error") + 1 + COMMON + 8
    assert found[b"main"] == sizes["text"] + sizes["unwind"] - (COMMON + 8)
    _, alone, _ = linked(THROWS, "-fexceptions", "-frtti", language="c++", unwind=False)
    assert alone == {b"main": code[b"main"], NO_FUNCTION: len("5error") + 1}


def test_a_file_without_references_has_constants_of_no_function(compiled):
    path = compiled(TABLE, "-Oz", "-fno-inline")
    file = LinkedFile("p", "file", "program", (("object", ("m",)),))
    data = link_file(find_linker(), file, {"m": path}, 60.0, Ships(), ("--strip-debug",))
    assert linked_bytes_by_function(data, unwind=False)[NO_FUNCTION] == section_sizes(data)["read_only"]
    stripped = link_file(find_linker(), file, {"m": path}, 60.0)
    assert linked_bytes_by_function(stripped) == {NO_FUNCTION: section_sizes(stripped)["total"]}
