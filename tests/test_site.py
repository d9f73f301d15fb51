"""The documentation as a site: what it holds, its links, and how it looks in a real browser."""

import posixpath
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

import pytest
import yaml

import mlgo
from mlgo.base.config import json_schema
from mlgo.cli.main import find_commands
from scripts.site_pages import commands_page, configuration_page, python_page
from tests.browser import WIDTHS, served, too_wide
from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
NOT_IN_DOCS = ("index.md", "config/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
MADE = ("reference/python.md", "reference/commands.md", "reference/configuration.md")


def leaves(nav) -> Iterator[str]:
    """All pages that a navigation names."""
    for one in nav.values() if isinstance(nav, dict) else nav:
        if isinstance(one, str):
            yield one
        else:
            yield from leaves(one)


def test_the_navigation_names_every_page_once():
    named = list(leaves(yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"]))
    folders = tuple(one.removesuffix("*") for one in named if one.endswith("/*"))
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    alone = [page for page in pages if not page.startswith(folders)]
    assert sorted([*alone, *NOT_IN_DOCS, *MADE, *(f"{folder}*" for folder in folders)]) == sorted(named)


def test_the_references_have_every_name_command_and_setting():
    for name in mlgo.__all__:
        assert f"heading: {name}\n" in python_page()
    commands = commands_page()
    for name in find_commands():
        assert f"\n## mlgo {name}\n" in commands
    rows = [line for line in configuration_page().splitlines() if line.startswith("| `")]
    settings = {line.split("`")[1]: line for line in rows}
    for name, part in json_schema()["properties"].items():
        assert name in settings or any(one.startswith(f"{name}.") for one in settings), part
    assert " | number > 1 | `4.0` | LLVM stops asking" in settings["compile.size_stop_factor"]
    assert "generalisation.compilers.NAME.version" in settings
    assert ' | string or null | `"config/programs"` | ' in settings["evaluate.programs"]
    assert all(line.count(" | ") == 3 and line.split(" | ")[3].strip("| ") for line in rows)


def test_the_page_for_users_of_the_tool_is_short():
    text = (DOCS / "get-started.md").read_text()
    assert len(text.split()) <= 250
    first = text.partition("\n    ")[2].partition("\n\n")[0].splitlines()
    assert len(first) == 2
    assert first[0].startswith("pip install mlgo")
    assert "docs/get-started.md" in (REPOSITORY / "README.md").read_text().partition("\n## ")[0]


def build(folder, **settings) -> subprocess.CompletedProcess:
    """Build the site as `make check` does, under a configuration with some other settings."""
    if not find_spec("material") or not find_spec("mkdocstrings"):
        pytest.skip("the site's packages are not installed: make setup EXTRA=docs")
    config = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text().replace("paths: [.]", f"paths: ['{REPOSITORY}']"))
    config |= {"docs_dir": str(DOCS), "hooks": [str(REPOSITORY / "scripts/site_pages.py")], **settings}
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(config | {"site_dir": str(folder / "site")}))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", folder / "mkdocs.yml"]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=500)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    run = build(folder := tmp_path_factory.mktemp("site"))
    assert run.returncode == 0, run.stderr
    return folder / "site"


@pytest.mark.slow
def test_dead_links_and_anchors_and_pages_without_a_place_end_the_build(tmp_path):
    docs = tmp_path / "docs"
    shutil.copytree(DOCS, docs)
    (docs / "orphan.md").write_text("# No place")
    with (docs / "speed.md").open("a") as file:
        file.write("\n[a](gone.md) [b](builds.md#gone) [c](../config/gone.yaml) [d](../README.md#gone) [e](#gone)\n")
    run = build(tmp_path, docs_dir=str(docs))
    assert run.returncode == 1
    assert run.stderr.count("WARNING - ") == 6
    for what in ("orphan.md", "gone.md", "builds.md#gone", "../config/gone.yaml", "index.md#gone", "'#gone'"):
        assert what in run.stderr


class Links(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.loads, self.anchors, self.images = [], [], {""}, 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag != "a" and (address := given.get("src") or (tag == "link" and given["href"])):
            self.loads.append(address)
            self.images += tag == "img"


def read(site):
    return {path.relative_to(site).as_posix(): Links(path.read_text()) for path in site.rglob("*.html")}


@pytest.mark.slow
def test_links_inside_resolve_and_nothing_is_loaded_from_elsewhere(site):
    pages = read(site)
    assert len(pages) > 100
    for name, page in pages.items():
        if name == "404.html":  # which has addresses from the root
            continue
        assert page.images <= 1, f"{name} has several pictures"
        for address in [*page.links, *page.loads]:
            url = urlsplit(address)
            if url.scheme:
                assert address in page.links, f"{name} loads {address}"
                continue
            assert not url.netloc, f"{name} loads or links {address}"
            target = (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(url.path))) if url.path else name
            )
            assert (site / target).is_file(), f"{name}: {address}"
            if target in pages and not url.fragment.startswith("__"):
                assert unquote(url.fragment) in pages[target].anchors, f"{name}: {address}"


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a hundred pages; on idle cores they take a minute
def test_no_page_scrolls_sideways_or_asks_for_anything_elsewhere(site, browser):
    wide, errors = {}, []
    with served(site) as address:
        page = browser.open(address)
        page.on("pageerror", lambda error: errors.append((page.url, str(error))))
        page.on("response", lambda got: got.status < 400 or errors.append((page.url, got.url)))
        for path in sorted(site.rglob("*.html")):
            name = path.relative_to(site).as_posix()
            if name == "404.html":
                continue
            page.goto(address + name)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                if found := too_wide(page):
                    wide[name, width] = found
        page.context.close()
    assert wide == {}
    assert errors == []
    assert browser.refused == []


@pytest.mark.slow
def test_the_browser_notices_what_these_tests_look_for(tmp_path, browser):
    (tmp_path / "index.html").write_text(
        "<div style='overflow: auto'><pre style='width: 900px'>may scroll</pre></div>"
        "<pre id='wide' style='width: 900px'>may not</pre><img src='http://elsewhere.invalid/picture.png'>"
    )
    with served(tmp_path) as address:
        page = browser.open(address, 400)
        (found,) = too_wide(page)
        assert found.startswith('<pre id="wide"')
        page.set_viewport_size({"width": 1300, "height": 900})
        assert too_wide(page) == []
        page.context.close()
    assert browser.refused == ["http://elsewhere.invalid/picture.png"]
    browser.refused.clear()


@pytest.mark.slow
def test_the_search_finds_a_word(site, browser):
    with served(site) as address:
        page = browser.open(address)
        page.fill("[data-md-component=search-query]", "unwind")
        found = page.locator(".md-search-result__link")
        found.first.wait_for(timeout=20_000)
        assert found.count() > 3
        first = found.first.get_attribute("href")
        page.goto(first)
        assert "unwind" in page.locator("article").inner_text().lower()
        page.context.close()
    assert browser.refused == []
