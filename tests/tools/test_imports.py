"""Tools that no test runs still import what is there: they are run by hand, and seldom."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

TOOLS = sorted(path for path in Path(__file__).parent.rglob("*.py") if not path.name.startswith("test_"))


@pytest.mark.parametrize("path", TOOLS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_is_imported_of_kernelscope_is_there(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("kernelscope"):
            continue
        for alias in node.names:
            there = importlib.util.find_spec(f"{node.module}.{alias.name}") if _is_package(node.module) else None
            if there is None:
                assert hasattr(importlib.import_module(node.module), alias.name), f"{node.module}.{alias.name}"


def _is_package(name):
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.submodule_search_locations is not None
