"""Recipes: what is refused, how templates are filled, which sources are found."""

from pathlib import Path

import pytest
import yaml

from mlgo.corpus.recipe import fill_template, find_sources, load_recipe, write_generated_files
from mlgo.errors import ArtifactError, ConfigError, CorpusError
from tests.conftest import REPOSITORY

GOOD = {
    "name": "thing",
    "version": "1.0",
    "sha256": "0" * 64,
    "license": "MIT",
    "units": [{"language": "c", "standard": "c11", "sources": ["src/*.c"]}],
}


@pytest.fixture
def load(tmp_path):
    def go(**changes):
        values = {key: value for key, value in (GOOD | changes).items() if value != "absent"}
        path = tmp_path / "thing.yaml"
        path.write_text(yaml.safe_dump(values, sort_keys=False))
        return load_recipe(path)

    return go


def unit(**changes):
    return [GOOD["units"][0] | changes]


def test_a_good_recipe(load):
    recipe = load()
    assert (recipe.name, recipe.version, recipe.license, recipe.path) == ("thing", "1.0", "MIT", None)
    assert recipe.units[0].arguments() == ["-std=c11"]
    defines = {"NDEBUG": None, "N": 3, "S": '"a b"', "E": "", "YES": True}
    recipe = load(units=unit(include=["inc", "src"], defines=defines, flags=["-pthread"]))
    expected = ["-std=c11", "-Iinc", "-Isrc", "-DNDEBUG", "-DN=3", '-DS="a b"', "-DE=", "-DYES=1", "-pthread"]
    assert recipe.units[0].arguments() == expected


def test_headers_of_python_are_there_if_needed(load, tmp_path, monkeypatch):
    recipe = load(units=unit(include=["inc"], python=True))
    assert recipe.units[0].arguments() == ["-std=c11", "-Iinc", "-I.python-headers"]
    write_generated_files(recipe, tmp_path)
    assert "PyObject" in (tmp_path / ".python-headers" / "object.h").read_text()
    configured = [path.read_text() for path in (tmp_path / ".python-headers").rglob("pyconfig.h")]
    assert any("SIZEOF_WCHAR_T" in text for text in configured)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "nowhere"))
    with pytest.raises(CorpusError, match=r"thing: no Python.h in .*nowhere; install"):
        write_generated_files(recipe, tmp_path)
    write_generated_files(load(), tmp_path / "other")  # without need, nothing is missed
    assert not (tmp_path / "other/.python-headers").exists()


def test_headers_of_python_as_debian_has_them(load, tmp_path, monkeypatch):
    include, machine = tmp_path / "usr/include", "x86_64-linux-gnu/python3.11/pyconfig.h"
    for name, text in (
        ("python3.11/Python.h", "#include <pyconfig.h>"),
        ("python3.11/pyconfig.h", f"#include <{machine}>"),
        (machine, "#define SIZEOF_WCHAR_T 4"),
    ):
        (include / name).parent.mkdir(parents=True, exist_ok=True)
        (include / name).write_text(text)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(include / "python3.11"))
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: "x86_64-linux-gnu")
    write_generated_files(load(units=unit(python=True)), tmp_path / "sources")
    assert (tmp_path / "sources/.python-headers" / machine).read_text() == "#define SIZEOF_WCHAR_T 4"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"licence": "MIT"}, "licence"),
        ({"units": []}, "units"),
        ({"units": unit(language="fortran")}, "language"),
        ({"units": unit(sources=[])}, "sources"),
        ({"units": unit(sauces=["x"])}, r"unknown key 'units\.0\.sauces'; known here: .*python, sources, standard"),
        ({"name": "absent"}, "name"),
        ({"license": "absent"}, "license"),
        ({"sha256": "0" * 63}, "sha256"),
        ({"sha256": "X" * 64}, "sha256"),
        ({"sha256": "absent"}, "give one of version with sha256"),
        ({"version": "absent"}, "give one of version with sha256"),
        ({"version": "absent", "sha256": "absent"}, "give one of version with sha256"),
        ({"path": "somewhere"}, "path, and captured"),
        ({"path": "somewhere", "sha256": "absent"}, "give one of version with sha256"),
        ({"wheel": {}}, "give one of units, captured, wheel, and crate"),
        ({"wheel": {"compiler": "gcc"}, "units": []}, "wheel.compiler'; known here: environment, requirements"),
        ({"files": [{"path": "x.h", "copi": "y"}]}, r"files\.0\.copi'; known here: content, copy, path"),
        ({"path": "somewhere", "version": "absent"}, "give one of version with sha256"),
        ({"crate": {}}, "give one of units, captured, wheel, and crate"),
        (
            {"crate": {}, "units": [], "version": "absent", "sha256": "absent", "path": "x"},
            "a wheel or a crate is built of one version; give version and sha256",
        ),
        *(
            ({"crate": {}, "units": [], "name": "a", "version": "1.0.0"} | change, "is no name, version or feature of")
            for change in (
                {"name": "-a"},
                {"name": 'a = "*"\nb'},
                {"name": "../a"},
                {"version": "1.0"},
                {"version": '1.0.0", path = "/x'},
                {"crate": {"features": ["a b"]}},
                {"crate": {"features": ["a,--config=x"]}},
            )
        ),
        ({"units": unit(sources=["../evil.c"])}, "relative path inside"),
        ({"units": unit(sources=["a/../../evil.c"])}, "relative path inside"),
        ({"units": unit(sources=["/etc/passwd"])}, "relative path inside"),
        ({"units": unit(sources=[""])}, "relative path inside"),
        ({"units": unit(exclude=["../x.c"])}, "relative path inside"),
        ({"units": unit(include=["/usr/include"])}, "relative path inside"),
        ({"files": [{"path": "../x.h", "content": ""}]}, "relative path inside"),
        ({"files": [{"path": "x.h", "copy": "../y"}]}, "relative path inside"),
        ({"files": [{"path": "x.h", "template": "/y"}]}, "relative path inside"),
        (
            {"units": unit(flags=["-pthread", "-fplugin=x"])},
            r"units\.0: .*compiler option -fplugin=x can make the compiler",
        ),
        ({"files": [{"path": "x.h"}]}, "exactly one of content, template and copy"),
        ({"files": [{"path": "x.h", "content": "", "copy": "y"}]}, "exactly one of content, template and copy"),
    ],
)
def test_mistakes_are_named(changes, message, load):
    with pytest.raises(ConfigError, match=message):
        load(**changes)


@pytest.mark.parametrize("text", ["", "[]", "3", "a: [", "\0", None])
def test_not_a_recipe_at_all(text, tmp_path):
    if text is not None:
        (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"x\.yaml" if text is not None else "cannot read"):
        load_recipe(tmp_path / "x.yaml")


CORPORA = REPOSITORY / "config" / "corpora"
RECIPES = [path for place in ("*.yaml", "wheels/*.yaml", "crates/*.yaml") for path in sorted(CORPORA.glob(place))]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_recipes_of_this_repository(path):
    recipe = load_recipe(path)
    assert recipe.license
    assert (recipe.wheel is not None, recipe.crate is not None) == tuple(
        path.parent.name == kind for kind in ("wheels", "crates")
    )
    assert recipe.path is not None or recipe.name.lower().replace("_", "-") == path.stem.lower().replace("_", "-")


VALUES = {"NAME": "value", "NUM": 7, "YES": True, "NO": False, "NIL": None, "ZERO": 0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a @NAME@ b", "a value b"),
        ("a ${NAME} b", "a value b"),
        ("@NUM@.@ZERO@", "7.0"),
        ("[@UNKNOWN@][${UNKNOWN}][@NIL@][${NIL}]", "[][][][]"),
        ("user@example.org and @ alone @", "user@example.org and @ alone @"),
        ("$NAME ${} @not a name@", "$NAME ${} @not a name@"),
        ("#cmakedefine YES", "#define YES"),
        ("#cmakedefine NO", "/* #undef NO */"),
        ("#cmakedefine NIL", "/* #undef NIL */"),
        ("#cmakedefine UNKNOWN", "/* #undef UNKNOWN */"),
        ("#cmakedefine UNKNOWN 1", "/* #undef UNKNOWN */"),
        ("#cmakedefine YES 1", "#define YES 1"),
        ("#cmakedefine NUM @NUM@", "#define NUM 7"),
        ('#cmakedefine NAME "@NAME@"', '#define NAME "value"'),
        ("#cmakedefine01 YES", "#define YES 1"),
        ("#cmakedefine01 NO", "#define NO 0"),
        ("#cmakedefine01 UNKNOWN", "#define UNKNOWN 0"),
        ("#cmakedefine01 NUM", "#define NUM 1"),
        ("  #  cmakedefine YES", "#define YES"),
        ("// see #cmakedefine YES", "// see #cmakedefine YES"),
        ("#define OTHER 1", "#define OTHER 1"),
        ("#cmakedefine YES\n#cmakedefine NO\nend\n", "#define YES\n/* #undef NO */\nend\n"),
    ],
)
def test_templates_by_hand(text, expected):
    assert fill_template(text, VALUES) == expected


def test_generated_files(load, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "config.h.in").write_text('#cmakedefine YES\n#define V "@NAME@"\n')
    (root / "raw.bin").write_bytes(b"\x00\xff\r\n")
    files = [
        {"path": "new/config.h", "template": "config.h.in", "values": {"YES": True, "NAME": "n"}},
        {"path": "version.h", "content": "#define X 1\n"},
        {"path": "deep/er/raw.bin", "copy": "raw.bin"},
    ]
    write_generated_files(load(files=files), root)
    assert (root / "new/config.h").read_text() == '#define YES\n#define V "n"\n'
    assert (root / "version.h").read_text() == "#define X 1\n"
    assert (root / "deep/er/raw.bin").read_bytes() == b"\x00\xff\r\n"
    with pytest.raises(CorpusError, match=r"thing: none\.h is not in the sources"):
        write_generated_files(load(files=[{"path": "x.h", "copy": "none.h"}]), root)


@pytest.fixture
def tree(tmp_path) -> Path:
    root = tmp_path / "tree"
    for name in ("src/b.c", "src/a.c", "src/a.h", "src/deep/c.c", "src/skip_me.c", "lib/d.cc"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "src" / "folder.c").mkdir()
    return root


OTHER = [{"language": "c++", "standard": "c++17", "sources": ["lib/*.cc"]}]
SAME = unit(sources=["src/a.c"], flags=["-O3"])


@pytest.mark.parametrize(
    ("units", "names"),
    [
        (unit(), "src/a.c src/b.c src/skip_me.c"),
        (unit(sources=["src/**/*.c"]), "src/a.c src/b.c src/deep/c.c src/skip_me.c"),  # crosses folders
        (unit(exclude=["src/skip_*.c", "src/nothing.c"]), "src/a.c src/b.c"),
        (unit(sources=["src/a.c", "src/*.c"]), "src/a.c src/b.c src/skip_me.c"),  # two globs of a unit may overlap
        ([*unit(), *OTHER], "lib/d.cc src/a.c src/b.c src/skip_me.c"),
        ([*unit(exclude=["src/a.c"]), *SAME], "src/a.c src/b.c src/skip_me.c"),
    ],
)
def test_sources_are_sorted_files_each_with_its_unit(load, tree, units, names):
    found = find_sources(load(units=units), tree)
    assert [source for _, source in found] == names.split()
    assert all(of.language == ("c++" if source.endswith(".cc") else "c") for of, source in found)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ([*unit(), *SAME], r"src/a\.c belongs to two units"),
        (unit(sources=["src/*.c", "src/*.cpp"]), r"'src/\*\.cpp'"),
    ],
    ids=["a source in two units", "a glob without a match"],
)
def test_sources_that_are_refused(load, tree, units, message):
    with pytest.raises(CorpusError, match=message):
        find_sources(load(units=units), tree)


@pytest.mark.parametrize("pattern", [".", "**x"])
def test_patterns_of_no_file(load, tmp_path, pattern):
    with pytest.raises(CorpusError, match="is no pattern of files; mend the recipe"):
        find_sources(load(units=unit(sources=[pattern])), tmp_path)


def test_generated_files_are_files_inside_the_sources(load, tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    with pytest.raises(CorpusError, match=r"thing: \. is a folder; mend the recipe"):
        write_generated_files(load(files=[{"path": ".", "content": ""}]), root)
    with pytest.raises(ArtifactError, match="leads out of"):
        write_generated_files(load(files=[{"path": "link/a.h", "content": ""}]), root)
    assert not list(outside.iterdir())
