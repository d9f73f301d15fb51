"""Units and programs of small builds."""

from pathlib import Path

import pytest

from mlgo.corpus.capture.builds import read_build
from tests.corpus.capture.conftest import shell_steps

ROOT = Path("/build")


def build(*lines):
    return read_build(shell_steps(ROOT, *lines), ROOT)


def parts(program):
    return [(part.kind, part.units) for part in program.parts]


PROGRAMS = {
    "objects and an archive": (
        ["cc -c src/a.c -o a.o", "cc -c src/b.c -o b.o", "ar rcs libb.a b.o", "cc a.o -L. -lb -lm -o prog"],
        [[("object", ("src/a.c",)), ("archive", ("src/b.c",))]],
    ),
    "a whole archive is linked whole": (
        ["cc -c a.c", "ar rc x.a a.o", "cc -shared -Wl,--whole-archive x.a -Wl,--no-whole-archive -o x.so"],
        [[("object", ("a.c",))]],
    ),
    "a source compiled twice has two names": (
        ["cc -c a.c -o a.o", "cc -fPIC -c a.c -o pic/a.o", "cc a.o -o prog", "cc -shared pic/a.o -o a.so"],
        [[("object", ("a.c@a.o",))], [("object", ("a.c@pic/a.o",))]],
    ),
    "what is made again stays in what was linked": (
        ["cc -DOLD -c a.c", "cc a.o -o first", "cc -DNEW -c a.c", "cc a.o -o second"],
        [[("object", ("a.c@a.o",))], [("object", ("a.c@a.o#2",))]],
    ),
    "members of an archive are replaced by name": (
        ["cc -c a.c", "cc -c b.c", "ar rc x.a a.o", "ar rc x.a b.o", "ar rc x.a a.o", "cc x.a -o prog"],
        [[("archive", ("b.c", "a.c"))]],
    ),
    "members that are taken out of an archive are known": (  # as libtool does with its convenience archives
        [
            *("cc -c sub/a.c -o sub/.libs/a.o", "ar cr sub/.libs/libsub.a sub/.libs/a.o", "cc -c main.c"),
            "cd .libs/all.lax/libsub.a && ar x /build/sub/.libs/libsub.a",
            *("ar cr liball.a .libs/all.lax/libsub.a/a.o", "cc main.o liball.a -o prog"),
        ],
        [[("object", ("main.c",)), ("archive", ("sub/a.c",))]],
    ),
    "a relocatable object holds its units": (
        ["cc -c a.c", "cc -c b.c", "ld -r a.o b.o -o ab.o", "cc ab.o -o prog"],
        [[("object", ("a.c", "b.c"))]],
    ),
}


@pytest.mark.parametrize(("lines", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_units_of_programs(lines, expected):
    assert [parts(program) for program in build(*lines).programs] == expected


def test_an_archive_that_was_installed_is_that_of_the_build(tmp_path):
    lines = ("cc -c a.c", "cc -c main.c", "ar rc libx.a a.o")
    for name in ("made/libx.a", "installed/libx.a", "other/libx.a"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("different" if name.startswith("other") else "an archive")

    def program(link):
        return read_build(shell_steps(tmp_path / "made", *lines, link), tmp_path).programs[0]

    both = [("object", ("made/main.c",)), ("archive", ("made/a.c",))]
    assert parts(program("cc main.o ../installed/libx.a -o prog")) == both
    assert parts(program("cc main.o -L../installed -lx -o prog")) == both
    assert parts(program("cc main.o -L../other -lx -o prog")) == both[:1]
    assert program("cc main.o ../other/libx.a -o prog").foreign == ("other/libx.a",)


def test_foreign_objects_are_named():
    (program,) = build("cc -c a.c", "cc a.o other.o /usr/lib/libz.a -o prog").programs
    assert (program.name, program.foreign) == ("prog", ("other.o", "/usr/lib/libz.a"))
    assert parts(program) == [("object", ("a.c",))]


def test_a_link_that_is_done_again_is_one_program_and_a_compile_that_was_linked_another_unit():
    found = build("cc -c a.c", "cc a.o -o prog", "cc a.o -s -o prog")
    assert [one.link.options for one in found.programs] == [("-s",)]
    again, _ = PROGRAMS["what is made again stays in what was linked"]
    assert [unit.compile.options for unit in build(*again).units] == [("-DOLD",), ("-DNEW",)]
