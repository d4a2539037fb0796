"""The bench of users' scripts: that every change applies and still is a program, and how what is said of it is judged."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent
NAMES = ("plants", "catalogue", "recording", "run")


@pytest.fixture(scope="module")
def bench() -> Iterator[dict[str, ModuleType]]:
    """The modules by name; they stand beside each other and import each other so."""
    others = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in NAMES}
    finally:
        sys.path.remove(str(FOLDER))
        for name in NAMES:
            sys.modules.pop(name, None)
        sys.modules.update(others)


def test_every_change_applies_and_leaves_a_program(bench: dict[str, ModuleType]) -> None:
    catalogue, recording, run = (bench[name] for name in ("catalogue", "recording", "run"))
    for change in (*catalogue.PLANTS, *catalogue.CONTROLS):
        before, after = recording.source(change.program), recording.source(change.program, change)
        ast.parse(after)
        assert before != after
        assert run.changed(change) <= set(range(1, after.count("\n") + 3))


def test_each_change_has_a_name_of_its_own_and_each_plant_a_cause(bench: dict[str, ModuleType]) -> None:
    catalogue = bench["catalogue"]
    every = [*catalogue.PLANTS, *catalogue.CONTROLS]
    assert len({change.name for change in every}) == len(every)
    assert all(change.causes for change in catalogue.PLANTS)
    assert {entry["name"] for entry in bench["plants"].PLANTS} == set(catalogue.CAUSES)
    assert len({change.program for change in catalogue.PLANTS}) >= 8


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("torch_wordlm.py line {first} `for row in` and others of lines 126 to 131", True),
        ("at torch_wordlm.py:{first}, `row.mul_`", True),
        ("torch_wordlm.py line 12 `import torch`", False),
        ("{first} kernels in line", False),
    ],
)
def test_a_line_is_named_where_the_text_points_into_what_was_changed(
    bench: dict[str, ModuleType], text: str, named: bool
) -> None:
    run = bench["run"]
    change = next(change for change in bench["catalogue"].PLANTS if change.name == "wordlm_row_clipping")
    finding = {"title": "slower", "evidence": [text.format(first=min(run.changed(change)))]}
    assert run.names_line(change, finding) is named
