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
from tests import places
from tests.places import ROOT

CORPUS = places.CORPUS / "lineprof"
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
    (finding,) = result["findings"]
    assert finding["title"] == (
        "train, line 6 of A is replaced by lines 6 to 7 of B: 5.00 ms in A (`return (xs @ xs).sum()` 5.00 ms); "
        "7.90 s in B (`total += x ** 2` 7.00 s, `for x in xs:` 900 ms)"
    )
    assert finding["explains_ns"] == 7_895_000_000
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


def written(folder: Path, name: str, *tables: str, unit: str = "1e-06") -> Path:
    path = folder / f"{name}.txt"
    path.write_text(f"Timer unit: {unit} s\n" + "".join(tables))
    return path


def table(function: str, first: int, *lines: tuple[str, int, int], file: str = "") -> str:
    """A table as line_profiler prints it. lines: text, executions and time in ms; the function begins at `first`."""
    row = "%6s %9s %12s %8s %8s  %-s\n"
    total = sum(ms for _, _, ms in lines)
    head = (
        f"\nTotal time: {total / 1000:g} s\n{f'File: {file}' + chr(10) if file else ''}Function: {function} at line {first}\n\n"
    )
    text = head + row % ("Line #", "Hits", "Time", "Per Hit", "% Time", "Line Contents") + "=" * 62 + "\n"
    text += row % (first, "", "", "", "", f"def {function}():")
    for number, (code, hits, ms) in enumerate(lines, first + 1):
        text += row % (number, hits, f"{ms * 1000}.0", "1.0", "1.0", f"    {code}")
    return text


def test_functions_of_one_name_are_matched_and_all_count(tmp_path):
    """Two functions named create in one file: the one with the same words is its counterpart, in whatever order they come."""
    store, thing = ("check(name)", 9, 10), ("mark(thing)", 5, 10)
    a = written(
        tmp_path, "a", table("create", 10, store, ("server.make(name)", 7, 5000)),
        table("create", 40, thing, ("put(thing)", 5, 900)), table("gone", 80, ("drop(thing)", 4, 300)),
    )  # fmt: skip
    b = written(
        tmp_path,
        "b",
        table("create", 90, thing, ("put(thing)", 5, 950)),
        table("create", 50, store, ("server.make(name)", 7, 2000)),
    )
    result = explained(a, b)
    assert (result["a"]["step_ns"], result["b"]["step_ns"]) == (6_220_000_000, 2_970_000_000)
    assert result["differs"] == ["gone of A has no counterpart"]
    first = result["findings"][0]
    assert first["explains_ns"] == -3_000_000_000
    assert first["title"].startswith("create at line 10, line 12 (52 in B) takes less time: `server.make(name)`")
    assert any(
        note.startswith("by function: create (at line 10 in A, at line 50 in B) 5.01 s → 2.01 s") for note in result["notes"]
    )


def test_a_function_that_another_one_calls_does_not_count_again(tmp_path):
    """Called by name, called by the framework, or called as often as a line that takes longer executes."""
    loop = table("main", 10, ("for x in data:", 101, 5), ("    work(x)", 100, 3000))
    for inner in ("work", "forward", "unnamed_helper"):
        path = written(tmp_path, inner, loop, table(inner, 40, ("y = f(x)", 100, 2500)))
        result = explained(path, written(tmp_path, f"{inner}2", loop, table(inner, 40, ("y = f(x)", 100, 2500))))
        assert result["a"]["step_ns"] == 3_005_000_000, inner


def test_lines_that_replace_each_other_are_one_cause(tmp_path):
    a = written(tmp_path, "a", table("save", 10, ("begin()", 7, 10), ("api.head(name)", 7, 13000), ("api.put(name)", 6, 2400)))
    b = written(tmp_path, "b", table("save", 10, ("begin()", 7, 10), ("box = client.create_container(label)", 7, 8700)))
    (finding,) = explained(a, b)["findings"]
    assert finding["explains_ns"] == -6_700_000_000
    assert finding["title"].startswith(
        "save, lines 12 to 13 of A are replaced by line 12 of B: 15.4 s in A (`api.head(name)` 13.0 s,"
    )
    assert finding["rows"] == ["r1", "r2", "r3"]
    added = written(tmp_path, "c", table("save", 10, ("begin()", 7, 10), ("api.head(name)", 7, 13000), ("api.put(name)", 6, 2400),
                                         ("one()", 6, 900), ("two()", 6, 800)))  # fmt: skip
    assert len(explained(a, added)["findings"]) == 2  # lines that replace nothing stay causes of their own


PIXELS = (("for x in range(w):", 900_000, 200), ("    image[x] += 1", 800_000, 700))


def test_a_loop_over_elements_is_named_in_both_orders(tmp_path):
    slow = written(tmp_path, "slow", table("gray", 10, *PIXELS))
    quick = written(tmp_path, "quick", table("gray", 10, ("return weights @ image", 1, 20)))
    (better,), (worse,) = explained(slow, quick)["findings"], explained(quick, slow)["findings"]
    assert "There, A runs short lines of Python for one element at a time." in better["evidence"]
    assert "There, B runs short lines of Python for one element at a time." in worse["evidence"]
    assert worse["remedy"].startswith("work on whole arrays (NumPy")
    assert better["remedy"] == f"keep B's lines; where A's remain in use: {worse['remedy']}"


def test_what_a_whole_machine_or_compiler_does_is_no_single_lines_doing(tmp_path):
    lines = [(f"x{n} = f{n}(a)", 50_000_000, 4000 + 500 * n) for n in range(5)]
    slower = [(text, hits, round(1.6 * ms)) for text, hits, ms in lines]
    python = written(tmp_path, "python", table("sieve", 10, *slower, file="sieve.py"))
    compiled = written(tmp_path, "compiled", table("sieve", 10, *lines, file="sieve.pyx"))
    again = written(tmp_path, "again", table("sieve", 10, *lines, file="sieve.py"))
    (finding,) = explained(python, compiled)["findings"]
    assert finding["title"].startswith(
        "sieve, every line takes 1.6 times as long in A as in B, with equal executions: B is compiled by Cython (sieve.pyx)"
    )
    assert (finding["share"], finding["confidence"], len(finding["rows"])) == (1.0, "high", 5)
    (finding,) = explained(again, python)["findings"]
    assert "another interpreter, machine or setting" in finding["title"]
    assert (finding["confidence"], "no single line" in finding["remedy"]) == ("medium", True)
    one = written(tmp_path, "one", table("sieve", 10, *slower[:1], *lines[1:], file="sieve.py"))
    assert explained(again, one)["findings"][0]["cause"] == "longer line"


def test_other_functions_are_told_first_and_lower_the_confidence(tmp_path):
    a = written(tmp_path, "a", table("color2gray", 10, ("x = f(a)", 3, 1000)))
    b = written(tmp_path, "b", table("color2sepia", 10, ("x = f(a)", 9, 3000)))
    same = written(tmp_path, "c", table("color2gray", 10, ("x = f(a)", 9, 3000)))
    result = explained(a, b)
    assert result["differs"][0].startswith("two functions are compared, color2gray in A and color2sepia in B")
    assert result["findings"][0]["confidence"] == "medium"
    assert explained(a, same)["findings"][0]["confidence"] == "high"
    assert not any("two functions" in text for text in explained(a, same)["differs"])


def test_lines_that_were_cut_are_a_part_of_their_own(tmp_path):
    whole = written(tmp_path, "whole", table("main", 10, ("a = f()", 9, 4000), ("b = g()", 9, 1000)))
    cut = tmp_path / "cut.txt"
    cut.write_text("".join(line for line in whole.read_text().splitlines(keepends=True) if "g()" not in line))
    result = explained(whole, cut)
    assert result["b"]["step_ns"] == 5_000_000_000
    assert "(lines not printed)" in [part["part"] for part in result["parts"]]
    assert all("not printed" not in finding["title"] for finding in result["findings"])


def test_exchanged_loops_are_one_cause(tmp_path):
    """The inner line of both runs 40,000 times; its loop executes as often as the other one did."""
    before = [
        ("for i in a:", 100, 20),
        ("for k in b:", 400, 80),
        ("for j in c:", 40_000, 8_000),
        ("z[i][j] += x[k]", 39_000, 30_000),
    ]
    after = [("for i in a:", 100, 20), ("for j in c:", 400, 80), ("acc = 0", 400, 60), ("for k in b:", 40_000, 8_000),
             ("acc += x[k]", 39_000, 20_000)]  # fmt: skip
    result = explained(written(tmp_path, "a", table("f", 1, *before)), written(tmp_path, "b", table("f", 1, *after)))
    (finding,) = result["findings"]
    assert finding["explains_ns"] == result["wall_delta_ns"] == 1_000_000 * (28_160 - 38_100)
    assert "replaced by" in finding["title"]
    assert result["own_cost"] is None


def test_executions_that_line_profiler_does_not_see_are_no_gain(tmp_path):
    """A comprehension hides 100,000 executions: at 0.2 µs each, as the shortest line takes, that is more than the difference."""
    before = [("for i in a:", 50_000, 10), ("s += x[i]", 50_000, 15)]
    after = [("s = sum(x[i] for i in a)", 1, 16)]
    first = written(tmp_path, "a", table("f", 1, *before))
    result = explained(first, written(tmp_path, "b", table("f", 1, *after)))
    assert "at most 20.0 ms in A and 0 ns in B (100,000 and 1 executions)" in result["own_cost"]
    assert {finding["confidence"] for finding in result["findings"]} == {"low"}
    assert explanation.premises(result) == [result["own_cost"]]
    saved = explained(first, written(tmp_path, "c", table("f", 1, (after[0][0], 1, 2))))
    assert saved["own_cost"] is None
    long = [(text, hits, 100 * ms) for text, hits, ms in before]  # 20 µs each are not line_profiler's
    assert explained(written(tmp_path, "d", table("f", 1, *long)), first)["own_cost"] is None


FORMULA = [("m = smf.mixedlm(formula, data)", 1, 33), ("r = m.fit()", 1, 1055)]
MATRIX = [("elif kind == 1:", 1, 0), ("model = sm.MixedLM(y, X)", 1, 17), ("result = model.fit()", 1, 957)]


def test_lines_that_call_the_same_are_paired_within_a_replaced_block(tmp_path):
    """fit: 957 - 1,055 ms, less than two runs may differ by; MixedLM: 17 - 33 ms."""
    result = explained(written(tmp_path, "a", table("f", 1, *FORMULA)), written(tmp_path, "b", table("f", 1, *MATRIX)))
    assert [(one["explains_ns"], one["confidence"]) for one in result["findings"]] == [
        (-98_000_000, "low"),
        (-16_000_000, "medium"),
    ]
    assert "`r = m.fit()`, 1.05 s in A; `result = model.fit()`, 957 ms in B" in result["findings"][0]["title"].replace(
        "1.06", "1.05"
    )
    assert not any("replaced" in one["title"] for one in result["findings"])


def test_a_line_whose_arguments_changed_is_a_changed_line(tmp_path):
    sides = [[(f"loader = DataLoader(data, num_workers={n})", 1, ms)] for n, ms in ((0, 1000), (4, 300))]
    a, b = (written(tmp_path, name, table("f", 1, *lines)) for name, lines in zip("ab", sides, strict=True))
    (found,) = explained(a, b)["findings"]
    assert (found["explains_ns"], found["confidence"]) == (-700_000_000, "high")


@pytest.mark.parametrize(
    "after",
    [
        [("elif kind == 1:", 1, 0), ("results = library.solve_all(groups)", 1, 974)],  # another function
        [("elif kind == 1:", 1, 0), ("outcome_of_all_groups = estimators_of_groups.fit()", 40, 974)],  # as a loop does
        [
            ("outcome_of_all_groups = estimators_of_groups.fit()", 1, 400),
            ("outcome_of_others = estimators_of_others.fit()", 1, 574),
        ],
    ],
    ids=["other function", "more often", "twice"],
)
def test_lines_that_may_be_other_work_are_a_replaced_block(tmp_path, after):
    before = [("answer, _ = prepared(formula, data).fit()", 1, 1), ("r = m.fit()", 1, 1255)]
    result = explained(written(tmp_path, "a", table("f", 1, *before)), written(tmp_path, "b", table("f", 1, *after)))
    assert len(result["findings"]) == 1
    assert "replaced by" in result["findings"][0]["title"]
