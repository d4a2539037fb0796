"""Programs that nobody here wrote, under `kernelscope profile`: a few of them for real; and the comparing of outputs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parent
NAMES = ("catalogue", "fetching", "trial", "turns", "run")


@pytest.fixture(scope="module")
def scripts() -> Any:
    """The scripts by name; they stand beside each other and import each other so."""
    import importlib

    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in NAMES}
    finally:
        sys.path.remove(str(FOLDER))
        for name in NAMES:
            sys.modules.pop(name, None)


@pytest.fixture
def trial(scripts: dict[str, ModuleType]) -> ModuleType:
    return scripts["trial"]


def test_times_are_no_difference(trial: ModuleType) -> None:
    one = "loss 0.25 in 1.7 s\n 12% ━━━━──── 3.1it/s\r100% ━━━━━━━━ 0:00:09\n'train' took 3.14159 s at 2026-11-22 03:30:01,123\n"
    other = "loss 0.25 in 12 ms\n100% ━━━━━━━━ 0:00:31\n'train' took 0.9 s at 2025-01-02 13:00:59,9\n"
    assert trial.without_times(one) == trial.without_times(other)
    assert trial.without_times("loss 0.25") != trial.without_times("loss 0.26")
    assert trial.without_times("10 steps") != trial.without_times("11 steps")


def test_every_program_can_be_told_apart(scripts: dict[str, ModuleType]) -> None:
    catalogue = scripts["catalogue"]
    names = [program.name for program in catalogue.PROGRAMS]
    assert len(set(names)) == len(names)
    of_tests = {"jax-modules"}  # libraries of layers, for tests/tracer/test_profile_jax.py
    assert {program.environment for program in catalogue.PROGRAMS} == set(catalogue.ENVIRONMENTS) - of_tests
    assert all("==" in program.package for program in catalogue.PROGRAMS)


def test_the_table_keeps_rows_of_programs_that_did_not_run(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    run, catalogue, trial = scripts["run"], scripts["catalogue"], scripts["trial"]
    first, second = catalogue.PROGRAMS[:2]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{run.BEGIN}\n{run.END}\nafter\n")
    run.write(page, [run.cells(trial.Trial(first, coverage=0.5)), run.cells(trial.Trial(second))])
    run.write(page, [run.cells(trial.Trial(first, coverage=0.75))])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "75.0%" in text
    assert "50.0%" not in text
    assert text.count(f"`{second.name}`") == 1


def test_layers_are_compared_with_the_clean_turns_around_them(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    """Steps of 100, 102, ... us, which drift, and 5% more with ranges: exactly that is found; turns cut short do not count."""
    turns = scripts["turns"]
    for number in range(1, 12):
        for name, offset, factor in (("clean", 0, 1.0), ("layers", 1, 1.05)):
            part = tmp_path / name / str(number)
            part.mkdir(parents=True)
            usual = round((100_000 + 2_000 * (2 * number + offset)) * factor)
            rows = [{"warmup": True, "user_ns": 10**9, "system_ns": 0}] * turns.SKIPPED
            rows += [{"warmup": False, "user_ns": usual - 100, "system_ns": 100}] * (turns.STEPS if number < 11 else 1)
            (part / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = turns.cost([tmp_path])
    assert found.turns == 9
    assert found.share == pytest.approx(0.05, abs=1e-5)
    assert found.low == pytest.approx(0.05, abs=1e-5)
    assert turns.cost([tmp_path, tmp_path]).turns == 18
    assert turns.cost([tmp_path / "clean"]) is None


def test_a_step_is_compared_with_itself_in_other_runs(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    """Steps that differ tenfold, runs that differ by a fifth, and 4% more with layers: exactly that is found."""
    turns = scripts["turns"]
    for run in range(8):
        rows: dict[str, list[dict[str, object]]] = {"clean": [], "layers": []}
        for step in range(40):
            name = ("clean", "layers")[(run + step // 10) % 2]
            usual = round((1 + 0.2 * (run // 4)) * (1000 if step < 20 else 100) * (1.04 if name == "layers" else 1) * 1000)
            used = None if step == 39 else usual
            rows[name].append({"step": step, "warmup": step % 10 < 2, "user_ns": used, "system_ns": used and 0})
        for name, steps in rows.items():
            part = tmp_path / str(run) / name / "1"
            part.mkdir(parents=True)
            (part / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in steps))
    found = turns.cost_by_step([tmp_path / str(run) for run in range(8)])
    assert found.turns == 31
    assert found.share == pytest.approx(0.04, abs=1e-6)
    assert found.low <= found.share <= found.high
    assert turns.cost_by_step([tmp_path / "nothing"]) is None


def test_a_longer_run_has_other_values_of_the_same_options(scripts: dict[str, ModuleType]) -> None:
    [program] = [program for program in scripts["catalogue"].PROGRAMS if program.name == "reinforce.py"]
    assert program.longer_command() == ("{python}", "reinforce.py", "--max-episodes", "10000", "--gamma", "0")


@pytest.mark.long
@pytest.mark.parametrize("name", ["actor_critic.py"])  # the others take longer to fetch than CI may take
def test_a_program_of_a_package(scripts: dict[str, ModuleType], tmp_path: Path, name: str) -> None:
    """Its outputs are as without us, and it is known where its steps' time went."""
    [program] = [program for program in scripts["catalogue"].PROGRAMS if program.name == name]
    assert program.quick
    try:
        trial = scripts["trial"].attempt(program, tmp_path, twice=False, in_turns=0)
    except scripts["fetching"].Missing as error:
        pytest.skip(f"cannot be had: {error}")
    assert trial.problems == []
    assert trial.same == ""
    assert trial.coverage >= scripts["run"].COVERAGE
