"""Docstrings of functions of arrays say of which shape these are."""

import ast
from collections.abc import Iterator

from tests.conftest import REPOSITORY

LEAST_SHARE = 0.9


def functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Public functions and methods."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node.body)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def has_arrays(function: ast.FunctionDef) -> bool:
    arguments = [*function.args.args, *function.args.kwonlyargs]
    annotations = [one.annotation for one in arguments] + [function.returns]
    return any("np.ndarray" in ast.unparse(one) for one in annotations if one is not None)


def test_nine_in_ten_name_a_shape():
    with_arrays, silent = 0, []
    for path in sorted(REPOSITORY.glob("mlgo/**/*.py")):
        for function in filter(has_arrays, functions(ast.parse(path.read_text()).body)):
            text = ast.get_docstring(function) or ""
            with_arrays += 1
            if "[" not in text and not text.startswith("See "):  # the docstring that it sends to says it
                silent.append(f"{path.relative_to(REPOSITORY)}:{function.lineno} {function.name}")
    assert with_arrays > 100
    assert len(silent) <= (1 - LEAST_SHARE) * with_arrays, "\n".join(silent)
