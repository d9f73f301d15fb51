"""What the site has beside ``docs/``: pages that are copied or made while it is built, and links that leave it.

MkDocs calls the functions that begin with ``on_`` (``hooks`` in mkdocs.yml).

Example:
    make docs
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

import mlgo
from mlgo.base.config import json_schema
from mlgo.cli.main import build_parser

if TYPE_CHECKING:  # of the extra docs
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parent.parent
COPIED = {
    "index.md": "README.md",
    "config/README.md": "config/README.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
}
"""Pages from outside of ``docs/``: place in the site, and in the repository."""

RESULTS = (
    "mlgo.host.session.CompileResult",
    "mlgo.deploy.size_diff.SizeDiff",
    "mlgo.deploy.size_diff.SizeChange",
    "mlgo.policy.policy.Policy",
    "mlgo.envs.env.CompileEnv",
)
"""Classes of what public functions return."""

_NONE = object()
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_CODE = re.compile(r"^(?: {4}[^\n]*|```.*?^```)$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_log = logging.getLogger("mkdocs.plugins.site_pages")  # warnings below this name end a strict build


def python_page() -> str:
    """The public names of the package, from their docstrings."""
    lines = ["# Python", "", "The names of `import mlgo`; examples are in [library.md](../library.md).", ""]
    for name, place in mlgo._PLACES.items():
        lines += [
            f"::: {place.replace(':', '.')}",
            "    options:",
            f"      heading: {name}",
            f"      toc_label: {name}",
        ]
        lines += ["      members: false", ""] if name != "FrontEnd" else [""]
    lines += ["## What they return", ""]
    for path in RESULTS:
        lines += [f"::: {path}", "    options:", "      heading_level: 3", ""]
    return "\n".join(lines)


def commands_page() -> str:
    """What ``mlgo COMMAND --help`` prints, for all commands and their actions."""
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}
    lines = ["# Commands", "", "What `mlgo COMMAND --help` prints.", ""]
    for words, parser in _parsers(build_parser(), ("mlgo",)):
        lines += [f"{'#' * len(words)} {' '.join(words)}", ""] if len(words) > 1 else []
        lines += ["```text", parser.format_help().rstrip(), "```", ""]
    return "\n".join(lines)


def _parsers(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A parser and those of its sub-commands, by the words that call them."""
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, other in action.choices.items():
                yield from _parsers(other, (*words, word))


def configuration_page() -> str:
    """Every setting with type, default and meaning: from the schema, and from the configuration of the checkout."""
    schema = json_schema()
    defaults = yaml.safe_load((REPOSITORY / "config/config.yaml").read_text())
    lines = [
        "# Settings",
        "",
        "Every setting of `config/config.yaml`; [Configuration](../config/README.md) says how to",
    ]
    lines += ["change one.", "", *_table(_settings(schema["properties"], defaults, schema["$defs"], sections=False))]
    for name, part in schema["properties"].items():
        if section := _section(part, schema["$defs"]):
            rows = _settings(section["properties"], defaults.get(name, {}), schema["$defs"], name)
            lines += ["", f"## {name}", "", section.get("description", ""), "", *_table(rows)]
    return "\n".join(lines)


def _table(rows: Iterable[tuple[str, str, str, str]]) -> list[str]:
    head = ["| Setting | Type | Default | Meaning |", "|---|---|---|---|"]
    return head + [f"| {' | '.join(one.replace('|', '&#124;') for one in row)} |" for row in rows]


def _settings(
    properties: Mapping[str, Any],
    defaults: Any,
    definitions: Mapping[str, Any],
    inside: str = "",
    sections: bool = True,
) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and meaning of settings, those of sections within sections too."""
    for key, part in properties.items():
        name = f"{inside}.{key}" if inside else key
        section = _section(part, definitions)
        default = (defaults if isinstance(defaults, Mapping) else {}).get(key, part.get("default", _NONE))
        if section is None or sections:
            yield f"`{name}`", _type(part, definitions), _shown(default, section), _meaning(part)
        if section is not None and sections:
            below = name if "$ref" in _choice(part) else f"{name}.NAME"
            yield from _settings(section["properties"], default, definitions, below)


def _choice(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part without the null that may stand in its place."""
    some: Mapping[str, Any] = next((one for one in part.get("anyOf", ()) if one.get("type") != "null"), part)
    return some if len(part.get("anyOf", ())) <= 2 else part


def _section(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The section that a setting is, or is a mapping of by name; None where it is a value."""
    some = _choice(part)
    by_name = [some.get("additionalProperties"), *some.get("patternProperties", {}).values()]
    found = [one["$ref"] for one in (some, *by_name) if isinstance(one, Mapping) and "$ref" in one]
    reference = found[0] if found else ""
    return definitions[reference.rpartition("/")[2]] if reference else None


def _type(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "$ref" in part:
        return "section"
    if "anyOf" in part:
        return " or ".join(_type(one, definitions) for one in part["anyOf"])
    if "enum" in part or "const" in part:
        return ", ".join(f"`{one}`" for one in part.get("enum", [part.get("const")]))
    if part.get("type") == "array":
        return f"list of {_type(part.get('items', {}), definitions)}"
    if part.get("type") == "object":
        return "mapping"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = " and ".join(f"{sign} {part[key]}".removesuffix(".0") for key, sign in signs.items() if key in part)
    return f"{part.get('type', 'any')} {bounds}".rstrip()


def _shown(value: Any, section: Any) -> str:
    """A default as configurations write it; empty for a section, and for what must be given."""
    if value is _NONE or (section is not None and value is not None):
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text}`" if len(text) <= 60 else f"{len(value)} entries"


def _meaning(part: Mapping[str, Any]) -> str:
    return " ".join(part.get("description", "").replace("``", "`").split())


def decisions_page() -> str:
    """All decisions by their headings."""
    lines = ["# Decisions", "", "Why things are as they are.", ""]
    for path in sorted((REPOSITORY / "docs/decisions").glob("*.md")):
        lines.append(f"- [{_heading(path)}]({path.name})".replace(". ", r"\. ", 1))
    return "\n".join(lines)


def _heading(path: Path) -> str:
    return path.read_text().partition("\n")[0].lstrip("# ")


MADE = {
    "reference/python.md": python_page,
    "reference/commands.md": commands_page,
    "reference/configuration.md": configuration_page,
    "decisions/README.md": decisions_page,
}
"""Pages that are made, by place in the site."""


def pages() -> list[str]:
    """All pages of the site by their places in it."""
    docs = REPOSITORY / "docs"
    return sorted([path.relative_to(docs).as_posix() for path in docs.rglob("*.md")] + [*COPIED, *MADE])


def expand(nav: Any) -> Any:
    """Put the pages of a folder, its first page first, where the navigation has a folder and a star."""
    if isinstance(nav, list):
        return [expand(one) for one in nav]
    if isinstance(nav, dict):
        return {title: expand(inner) for title, inner in nav.items()}
    if not nav.endswith("/*"):
        return nav
    inside = [page for page in pages() if posixpath.dirname(page) == nav[:-2]]
    return sorted(inside, key=lambda page: (not page.endswith("/README.md"), page))


def github_slug(text: str, separator: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the navigation, and name anchors as GitHub does."""
    config.nav = expand(config.nav)
    config.mdx_configs.setdefault("toc", {})["slugify"] = github_slug
    config.watch.extend(str(REPOSITORY / path) for path in (*COPIED.values(), "mlgo"))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in ``docs/``."""
    from mkdocs.structure.files import File

    for place, origin in COPIED.items():
        files.append(File.generated(config, place, content=(REPOSITORY / origin).read_text()))
    for place, make in MADE.items():
        files.append(File.generated(config, place, content=make()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where their targets are in the site; what is in the repository alone is named instead."""
    place = page.file.src_uri
    here = posixpath.dirname(COPIED.get(place, f"docs/{place}"))
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\0{len(kept) - 1}\0"

    def lead(match: re.Match[str]) -> str:
        path, hash_sign, anchor = match[2].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match[0]
        target = posixpath.normpath(posixpath.join(here, path))
        for found in (target, f"{target}/README.md"):
            uri = _place_of(found)
            if uri and files.get_file_from_path(uri):
                relative = posixpath.relpath(uri, posixpath.dirname(place) or ".")
                return f"{match[1]}{relative}{hash_sign}{anchor}{match[3]}"
        if not (REPOSITORY / target).exists():
            _log.warning("%s links to %s, which does not exist", place, match[2])
        return f"]{{{target}}}"

    text = _LINK.sub(lead, _CODE.sub(keep, markdown))
    text = re.sub(r"\[([^\]]*)\]\{([^}]*)\}", _named, text)
    return re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], text)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Call functions by their public names, where these are others."""
    for name, place in mlgo._PLACES.items() if page.file.src_uri == "reference/python.md" else ():
        html = html.replace(f'<span class="nf">{place.rpartition(":")[2]}</span>', f'<span class="nf">{name}</span>')
    return html


def _place_of(path: str) -> str | None:
    """Place in the site of a file of the repository; None where it has none."""
    copied = {origin: place for place, origin in COPIED.items()}
    return copied.get(path) or (path[len("docs/") :] if path.startswith("docs/") else None)


def _named(match: re.Match[str]) -> str:
    text, path = match[1], match[2]
    return f"`{path}`" if text in (path, posixpath.basename(path)) else f"{text} (`{path}`)"
