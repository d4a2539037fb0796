"""Two results of line_profiler: lines are paired by their text, add up to the difference, and the right one is named.

Profiles are written by line_profiler itself, with times that the tests choose; expected sums are their sums by hand.
"""

import contextlib
import io
import re
from pathlib import Path

import pytest
from line_profiler import line_profiler as library

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import pair
from kernelscope.reports import explanation
from tests.places import ROOT

CORPUS = ROOT.parent / "shared/corpus/lineprof"
FORWARD = ["def forward(x):", "    x = conv(x)", "    return norm(x)"]
TRAIN = ["def train():", "    for x in loader:", "        out = forward(x)", "        out.backward()"]
TIMES = {"    x = conv(x)": 800, "    return norm(x)": 2000, "    for x in loader:": 1000, "        out = forward(x)": 3000,
         "        out.backward()": 1300}  # fmt: skip


def profile(folder: Path, name: str, train=TRAIN, times=TIMES, hits=100) -> Path:
    """Write a result as line_profiler prints it. times: of each line in ms."""
    source = folder / f"{name}.py"
    source.write_text("\n".join([*FORWARD, *train]) + "\n")
    tables = {}
    for first, function in ((1, FORWARD), (1 + len(FORWARD), train)):
        label = function[0].split()[1].split("(")[0]
        tables[str(source), first, label] = [
            (first + place, hits, 1000 * times[text]) for place, text in enumerate(function) if times.get(text)
        ]
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        library.show_text(tables, 1e-6, stream=text)
    path = folder / f"{name}.txt"
    path.write_text(text.getvalue())
    return path


def explained(a: Path, b: Path):
    result = pair.read(a, b).explain()
    assert sum(row["delta_ns"] for row in result["rows"]) == result["wall_delta_ns"]
    assert sum(one["explains_ns"] for one in result["findings"]) + result["unexplained_ns"] == result["wall_delta_ns"]
    assert sum(part["delta_ns"] for part in result["parts"]) == result["wall_delta_ns"]
    return result


def test_a_line_that_takes_longer_is_named_with_the_line_that_it_calls(tmp_path):
    slower = {**TIMES, "    return norm(x)": 5000, "        out = forward(x)": 6000}
    result = explained(profile(tmp_path, "a"), profile(tmp_path, "b", times=slower))
    assert result["wall_delta_ns"] == 3_000_000_000
    (finding,) = result["findings"]
    assert finding["title"] == "train, line 6 takes longer: `out = forward(x)`, 3.00 s in A, 6.00 s in B"
    assert finding["evidence"] == [
        "Executions: A: 100 times, 30.0 ms each; B: 100 times, 60.0 ms each.",
        "Within it: forward, line 3 takes longer: `return norm(x)`, 2.00 s in A, 5.00 s in B.",
    ]
    assert explanation.answer(result).startswith("B is slower than A by 3.00 s in all (+57%): 5.30 \u2192 8.30 s")
    assert finding["remedy"]
    assert explained(tmp_path / "b.txt", tmp_path / "a.txt")["findings"][0]["remedy"] == ""


def test_lines_are_paired_by_their_text_where_numbers_moved(tmp_path):
    train = [*TRAIN[:1], "    log = []", *TRAIN[1:], "        log.append(out.sum().item())"]
    times = {**TIMES, "        log.append(out.sum().item())": 2100}
    result = explained(profile(tmp_path, "a"), profile(tmp_path, "b", train, times))
    (finding,) = result["findings"]
    assert finding["title"] == "train, line 9 is in B only: `log.append(out.sum().item())`, 2.10 s"
    assert (finding["explains_ns"], finding["confidence"]) == (2_100_000_000, "high")
    assert [row["only"] for row in result["rows"] if row["delta_ns"]] == ["b"]


def test_a_loop_that_runs_more_often_is_other_work(tmp_path):
    a, b = profile(tmp_path, "a"), profile(tmp_path, "b", times={text: 10 * ms for text, ms in TIMES.items()}, hits=1000)
    result = explained(a, b)
    assert result["differs"] == [
        "the loop runs 100 times in A and 1,000 times in B; per iteration, all takes 53.0 ms in A and 53.0 ms in B"
    ]
    assert {finding["cause"] for finding in result["findings"]} == {"executions of a line"}
    assert all("same number of iterations" in finding["remedy"] for finding in result["findings"])


def test_a_loop_in_place_of_an_expression(tmp_path):
    """Lines that have little in common are not one line that changed, and a line that ran once is no loop."""
    loop = ["def train():", "    xs = numbers()", "    for x in xs:", "        total += x ** 2"]
    whole = ["def train():", "    xs = numbers()", "    return (xs @ xs).sum()"]
    a = profile(tmp_path, "a", whole, {"    xs = numbers()": 10, "    return (xs @ xs).sum()": 5}, hits=1)
    times = {"    xs = numbers()": 10, "    for x in xs:": 900, "        total += x ** 2": 7000}
    result = explained(a, profile(tmp_path, "b", loop, times, hits=1_000_000))
    assert result["differs"] == []
    assert result["findings"][0]["title"] == "train, line 7 is in B only: `total += x ** 2`, 7.00 s"
    assert result["findings"][0]["remedy"].startswith("one expression on whole arrays")


def test_equal_programs_get_no_cause(tmp_path):
    a = profile(tmp_path, "a")
    for factor in (1.0, 1.04, 0.96, 1.12):  # the last: the whole machine is slower, which is no line's doing
        b = profile(tmp_path, "b", times={text: round(factor * ms) for text, ms in TIMES.items()})
        assert explained(a, b)["findings"] == []
    assert explained(a, a)["abstained"] == "both sides are the same recording"


@pytest.mark.skipif(not CORPUS.exists(), reason="line_profiler's results of other people: needs ../shared/corpus")
def test_results_of_others():
    a, b = (CORPUS / f"arleyzhang__ssd.pytorch__{name}.txt" for name in ("result_10batch", "result_1000bt_opencv340"))
    result = explained(a, b)
    for side, path in (("a", a), ("b", b)):  # line_profiler's own total, printed with six digits
        printed = max(float(seconds) for seconds in re.findall(r"Total time: ([\d.]+) s", path.read_text()))
        assert result[side]["step_ns"] == pytest.approx(printed * 1e9, rel=1e-5)
    assert result["differs"][0].startswith("the loop runs 10 times in A and 1,000 times in B; per iteration")
    assert [finding["title"].partition(":")[0] for finding in result["findings"]] == [
        f"train, line {line} executes 1,000 times instead of 10" for line in (185, 190, 182, 187)
    ]


def test_lines_beside_kernels_are_refused_with_a_remedy(tmp_path):
    with pytest.raises(EvidenceError, match=r"explained beside another result of line_profiler"):
        pair.read(profile(tmp_path, "a"), ROOT / "tests/data/gpu/h200/mlp.pt.trace.json.gz")
