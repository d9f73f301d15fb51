"""Units and programs of small builds."""

from pathlib import Path

from mlgo.corpus.capture.builds import LinkPart, read_build
from mlgo.corpus.capture.databases import shell_calls

ROOT = Path("/build")


def build(*lines):
    return read_build([call for line in lines for call in shell_calls(line, ROOT)], ROOT)


def parts(program):
    return [(part.kind, part.units) for part in program.parts]


def test_a_program_of_objects_and_an_archive():
    found = build("cc -c src/a.c -o a.o", "cc -c src/b.c -o b.o", "ar rcs libb.a b.o", "cc a.o -L. -lb -lm -o prog")
    assert [unit.name for unit in found.units] == ["src/a.c", "src/b.c"]
    (program,) = found.programs
    assert program.name == "prog"
    assert parts(program) == [("object", ("src/a.c",)), ("archive", ("src/b.c",))]


def test_whole_archives_are_linked_whole():
    found = build("cc -c a.c", "ar rc x.a a.o", "cc -shared -Wl,--whole-archive x.a -Wl,--no-whole-archive -o x.so")
    assert parts(found.programs[0]) == [("object", ("a.c",))]


def test_a_source_compiled_twice_has_two_names():
    found = build("cc -c a.c -o a.o", "cc -fPIC -c a.c -o pic/a.o", "cc a.o -o prog", "cc -shared pic/a.o -o a.so")
    assert [unit.name for unit in found.units] == ["a.c@a.o", "a.c@pic/a.o"]
    assert [parts(one) for one in found.programs] == [[("object", ("a.c@a.o",))], [("object", ("a.c@pic/a.o",))]]


def test_what_is_made_again_replaces_what_was_but_not_in_what_was_linked():
    found = build("cc -DOLD -c a.c", "cc a.o -o first", "cc -DNEW -c a.c", "cc a.o -o second")
    assert [unit.compile.options for unit in found.units] == [("-DOLD",), ("-DNEW",)]
    assert [parts(one)[0][1] for one in found.programs] == [("a.c@a.o",), ("a.c@a.o#2",)]


def test_members_of_an_archive_are_replaced_by_name():
    found = build("cc -c a.c", "cc -c b.c", "ar rc x.a a.o", "ar rc x.a b.o", "ar rc x.a a.o", "cc x.a -o prog")
    assert parts(found.programs[0]) == [("archive", ("b.c", "a.c"))]


def test_an_archive_that_was_installed_is_that_of_the_build(tmp_path):
    lines = ("cc -c a.c", "cc -c main.c", "ar rc libx.a a.o")
    for name in ("made/libx.a", "installed/libx.a", "other/libx.a"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("different" if name.startswith("other") else "an archive")

    def program(link):
        calls = [call for line in lines for call in shell_calls(line, tmp_path / "made")]
        return read_build([*calls, *shell_calls(link, tmp_path / "made")], tmp_path).programs[0]

    both = [("object", ("made/main.c",)), ("archive", ("made/a.c",))]
    assert parts(program("cc main.o ../installed/libx.a -o prog")) == both
    assert parts(program("cc main.o -L../installed -lx -o prog")) == both
    assert parts(program("cc main.o -L../other -lx -o prog")) == both[:1]
    assert program("cc main.o ../other/libx.a -o prog").foreign == ("other/libx.a",)


def test_members_that_are_taken_out_of_an_archive_are_known():
    # What libtool does with its convenience archives.
    lines = ("cc -c sub/a.c -o sub/.libs/a.o", "ar cr sub/.libs/libsub.a sub/.libs/a.o", "cc -c main.c")
    out = ("cd .libs/all.lax/libsub.a && ar x /build/sub/.libs/libsub.a", "ar cr liball.a .libs/all.lax/libsub.a/a.o")
    found = build(*lines, *out, "cc main.o liball.a -o prog")
    assert parts(found.programs[0]) == [("object", ("main.c",)), ("archive", ("sub/a.c",))]


def test_foreign_objects_are_named():
    found = build("cc -c a.c", "cc a.o other.o /usr/lib/libz.a -o prog")
    assert found.programs[0].foreign == ("other.o", "/usr/lib/libz.a")
    assert found.programs[0].parts == (LinkPart(("a.c",), "object"),)


def test_a_relocatable_object_holds_its_units():
    found = build("cc -c a.c", "cc -c b.c", "ld -r a.o b.o -o ab.o", "cc ab.o -o prog")
    assert parts(found.programs[0]) == [("object", ("a.c", "b.c"))]


def test_a_link_that_is_done_again_is_one_program():
    found = build("cc -c a.c", "cc a.o -o prog", "cc a.o -s -o prog")
    assert [one.link.options for one in found.programs] == [("-s",)]
