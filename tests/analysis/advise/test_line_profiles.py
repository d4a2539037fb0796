"""Advice on line_profiler's results: lines that wait or work on single elements, with their place, time and executions."""

from pathlib import Path

import pytest

from kernelscope.analysis.advise.advice import advise

ROW = "%6s %9s %12s %8s %8s  %-s\n"


def report(folder: Path, *lines: tuple[str, int, float], file: str = "train.py") -> Path:
    """Write a table; lines: text, executions and ms."""
    total = sum(ms for _, _, ms in lines) / 1000
    place = f"File: {file}\n" if file else ""
    text = f"Timer unit: 1e-06 s\n\nTotal time: {total:g} s\n{place}Function: train at line 10\n\n"
    text += ROW % ("Line #", "Hits", "Time", "Per Hit", "% Time", "Line Contents") + "=" * 62 + "\n"
    text += ROW % (10, "", "", "", "", "def train():")
    for number, (code, hits, ms) in enumerate(lines, 11):
        text += ROW % (number, hits, f"{ms * 1000:.1f}", "1.0", "1.0", f"    {code}")
    path = folder / "lines.txt"
    path.write_text(text)
    return path


def test_a_loop_that_waits_for_its_loader(tmp_path):
    path = report(
        tmp_path, ("for x, y in enumerate(train_loader):", 100, 8000), ("    out = model(x)", 99, 1500), ("    n += 1", 99, 500)
    )
    result = advise(path)
    (one,) = result["advice"]
    assert one["topic"] == "data loader"
    assert one["title"] == "the program waits for the next batch of its data loader, for 80% of the time"
    assert (one["saves_ns"], one["at_most"]) == (8_000_000_000, True)
    assert one["evidence"] == ["train.py:11 `for x, y in enumerate(train_loader):` 8.00 s (80%), 100 x 80.0 ms."]
    assert "num_workers" in one["remedy"]
    assert any("lets its framework compute for 1.50 s (15%): train.py:12" in note for note in result["notes"])


@pytest.mark.parametrize("text", ["sleeping(1)", "x = f('time.sleep(1)')", "x = f(1)  # time.sleep(1)"])
def test_what_only_looks_alike_gets_no_advice(tmp_path, text):
    assert advise(report(tmp_path, (text, 10, 900), ("y = 1", 10, 100)))["advice"] == []


def test_lines_with_little_of_the_time_get_no_advice(tmp_path):
    assert advise(report(tmp_path, ("x = f(1)", 10, 950), ("time.sleep(1)", 10, 50)))["advice"] == []
    (one,) = advise(report(tmp_path, ("x = f(1)", 10, 850), ("time.sleep(1)", 10, 150)))["advice"]
    assert one["saves_ns"] == 150_000_000


def test_statements_over_several_lines_are_one(tmp_path):
    path = report(tmp_path, ("answer = requests.get(", 20, 0.1), ("    url, timeout=3)", 20, 900), ("y = 1", 20, 99.9))
    (one,) = advise(path)["advice"]
    assert one["topic"] == "network"
    assert one["evidence"] == ["train.py:12 `answer = requests.get( url, timeout=3)` 900 ms (90%), 20 x 45.0 ms."]


@pytest.mark.parametrize(("file", "word"), [("a.py", "NumPy"), ("a.pyx", "cdef")])
def test_loops_over_elements(tmp_path, file, word):
    path = report(
        tmp_path, ("for i in range(n):", 1_000_001, 300), ("    x[i] += 1", 1_000_000, 600), ("y = f(x)", 1, 100), file=file
    )
    (one,) = advise(path)["advice"]
    assert one["topic"] == "elements one by one"
    assert one["saves_ns"] == 900_000_000
    assert word in one["remedy"]


def test_only_repetitions_can_be_saved_of_what_is_needed_once(tmp_path):
    (one,) = advise(report(tmp_path, ("p = re.compile(x)", 10, 1000)))["advice"]
    assert one["saves_ns"] == 900_000_000


def test_a_long_call_that_was_not_profiled_is_noted(tmp_path):
    notes = advise(report(tmp_path, ("frame = camera.get()", 800, 19_000), ("y = g(frame)", 800, 6000)))["notes"]
    assert any(note.startswith("train.py:11 `frame = camera.get()` takes 19.0 s (76%): what it calls was not") for note in notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("u = 0.25 * (u[1:-1, :-2] + u[1:-1, 2:])", False),
        ("d = np.abs(u[1:][mask] - v).max()", False),
        ("if (a and b): x = y ** (2 + z)", False),
        ("u = np.abs(model.flux(v))", True),
        ("x = solve(len(y))", True),
    ],
)
def test_only_calls_that_may_be_python_are_to_be_decorated(tmp_path, text, said):
    notes = advise(report(tmp_path, (text, 800, 19_000), ("y = x", 800, 6000)))["notes"]
    assert any("decorate that with @profile" in note for note in notes) == said


def test_lines_of_unknown_files_are_named_by_their_function(tmp_path):
    result = advise(report(tmp_path, ("time.sleep(1)", 10, 1000), file=""))
    assert result["ranges"][0]["name"] == "train:11 time.sleep(1)"
    assert result["advice"][0]["evidence"][0].startswith("train:11 `time.sleep(1)`")
