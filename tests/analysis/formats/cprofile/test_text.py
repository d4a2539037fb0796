"""Statistics of cProfile: made by Python itself and recomputed from its own numbers, and the forms in which people post them."""

import cProfile
import io
import marshal
import pstats

import pandas as pd
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import detect
from kernelscope.analysis.formats.cprofile import text as cprofile
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED
from tests.analysis.formats.torch_table import made

POSTED = """\
step 1 done
         91200 function calls (90200 primitive calls) in 12.500 seconds

   Ordered by: cumulative time
   List reduced from 80 to 5 due to restriction <5>

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
        1    0.020    0.020   12.490   12.490 /home/me/work/train.py:31(main)
2000/1000    0.500    0.000    9.100    0.009 /opt/py/lib/python3.9/site-packages/lib/io/reader.py:88(__call__)
     1000    7.250    0.007    7.250    0.007 {built-in method numpy.array}
     3000    0.000    0.000    0.001    0.000 {method 'append' of 'list' objects}
      400    1.000    0.003    1.100    0.003 /usr/lib/python3.9/queue.py:154(get)


after it
"""


def read(tmp_path, text, name="profile.txt"):
    path = tmp_path / name
    path.write_text(text)
    assert detect(path).name == "cprofile"
    return captures.read(path)


def listed(table, *columns):
    return [tuple(None if pd.isna(value) else value for value in row) for row in table[list(columns)].astype(object).to_numpy()]


def test_own_times_add_up_to_the_whole_and_cumulative_ones_stand_beside(tmp_path):
    trace = read(tmp_path, POSTED)
    assert listed(trace.kernels, "name", "count", "duration_ns", "device") == [
        ("work/train.py: main", 1, 20_000_000, "cpu"),
        ("lib/io/reader.py: __call__", 2000, 500_000_000, "cpu"),
        ("numpy.array", 1000, 7_250_000_000, "cpu"),
        ("queue.py: get", 400, 1_000_000_000, "cpu"),
        (UNLISTED, 0, 3_730_000_000, "cpu"),
    ]
    assert listed(trace.totals, "table", "name", "count", "duration_ns") == [
        ("ranges", "work/train.py: main", 1, 12_490_000_000),
        ("ranges", "lib/io/reader.py: __call__", 2000, 9_100_000_000),
        ("ranges", "numpy.array", 1000, 7_250_000_000),
        ("ranges", "append of list objects", 3000, 1_000_000),
        ("ranges", "queue.py: get", 400, 1_100_000_000),
    ]
    assert any(
        "70.2% of the time: functions that were not printed took 3.730 of 12.500 s" in note for note in trace.info["notes"]
    )
    assert not trace.diagnostics


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def work():
    return sorted(str(fib(12)) for _ in range(300))


def test_what_python_prints_is_what_it_measured(tmp_path):
    profile = cProfile.Profile()
    profile.runcall(work)
    out = io.StringIO()
    stats = pstats.Stats(profile, stream=out)
    stats.sort_stats("tottime").print_stats()
    trace = read(tmp_path, out.getvalue())
    mine = trace.kernels.set_index("name")
    calls, own = stats.stats[next(key for key in stats.stats if key[2] == "fib")][1:3]
    assert mine.loc["cprofile/test_text.py: fib", "count"] == calls == 300 * 465
    assert mine.loc["cprofile/test_text.py: fib", "duration_ns"] == round(own * 1000) * 1_000_000
    assert trace.kernels["duration_ns"].sum() == pytest.approx(stats.total_tt * 1e9, abs=1e6 * (len(stats.stats) + 1))


def test_lines_name_functions_only_where_a_file_has_several(tmp_path):
    rows = "".join(
        f"        1    1.000    1.000    1.000    1.000 /a/b/{file}:{line}(forward)\n"
        for file, line in (("net.py", 5), ("net.py", 60), ("loss.py", 7))
    )
    trace = read(tmp_path, POSTED.replace("12.500", "3.000").partition("        1    0.020")[0] + rows)
    assert list(trace.kernels["name"]) == ["b/net.py: forward at line 5", "b/net.py: forward at line 60", "b/loss.py: forward"]


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("C:\\py\\Python39\\Lib\\queue.py:154(get)", "queue.py: get"),
        ("C:\\work\\a\\net.py:3(<lambda>)", "a/net.py: <lambda>"),
        ("<frozen importlib._bootstrap>:1002(_find)", "<frozen importlib._bootstrap>: _find"),
        ("net.py:3(f)", "net.py: f"),
        ("{method 'get' of 'dict' objects}", "get of dict objects"),
    ],
)
def test_names_do_not_depend_on_where_a_program_lies(tmp_path, place, name):
    row = f"        1    1.000    1.000    1.000    1.000 {place}\n"
    assert read(tmp_path, POSTED.partition("        1    0.020")[0] + row).kernels["name"].iloc[0] == name


@pytest.mark.parametrize("change", [lambda text: text, lambda text: "".join(f"> {line}\n" for line in text.splitlines())])
def test_a_profile_that_is_printed_twice_counts_once(tmp_path, change):
    whole, _, rows = POSTED.partition("   ncalls")
    cut = whole + "   ncalls" + "".join(rows.splitlines(keepends=True)[:3])
    trace = read(tmp_path, change(cut + "\n" + POSTED))
    assert trace.kernels["duration_ns"].sum() == 12_500_000_000
    assert len(trace.kernels) == 5
    assert any("shows the same profile" in note for note in trace.info["notes"])


def test_another_profile_in_the_file_is_told_and_not_read(tmp_path):
    trace = read(tmp_path, POSTED + POSTED.replace("12.500", "13.500"))
    assert trace.kernels["duration_ns"].sum() == 12_500_000_000
    assert any("shows another profile, which is not read" in note for note in trace.info["notes"])


def test_rows_alone_and_lines_that_are_none(tmp_path):
    text = "   ncalls" + POSTED.partition("   ncalls")[2].replace("     3000    0.000 ", "     many    0.000 ")
    trace = read(tmp_path, text)
    assert trace.kernels["duration_ns"].sum() == 12_490_000_000
    assert trace.diagnostics == {"lines of tables that are no rows": 1}


def of_rows(*rows, above=""):
    lines = "".join(f"{calls:>9}    {own:.3f}    0.000   {whole:.3f}    0.000 {place}\n" for calls, own, whole, place in rows)
    return f"{above}   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n{lines}"


OUTER, INNER = (1, 0.5, 40.0, "{built-in method builtins.exec}"), (7, 3.25, 30.0, "net.py:5(forward)")


@pytest.mark.parametrize(
    ("above", "whole_s", "said"),
    [
        ("", 40.0, "no time of the whole is printed above line 1: the largest cumulative time counts as the whole, 40.000 s of"),
        ("   List reduced from 90 to 2 due to restriction <2>\n\n", 40.0, "no time of the whole is printed above line 3"),
        ("   9 function calls in 2.000 seconds\n\n", 40.0, "the printed time of the whole is 2.000 s above line 3: the largest"),
        ("   9 function calls in 50.000 seconds\n\n", 50.0, "functions that were not printed took 46.250 of 50.000 s"),
    ],
)
def test_the_largest_cumulative_time_is_the_whole_if_no_larger_one_is_printed(tmp_path, above, whole_s, said):
    trace = read(tmp_path, of_rows(OUTER, INNER, above=above))
    assert trace.kernels["duration_ns"].sum() == whole_s * 1e9
    assert trace.kernels["name"].iloc[-1] == UNLISTED
    assert any(said in note for note in trace.info["notes"])


@pytest.mark.parametrize(
    ("above", "said"),
    [
        ("", "neither a line above line 1 nor a cumulative time tells the time of the whole: the rows may be a part of it"),
        ("   List reduced from 90 to 2 due to restriction <2>\n\n", "time of the whole: 88 of 90 functions were not printed"),
    ],
)
def test_rows_that_call_nothing_tell_no_whole(tmp_path, above, said):
    trace = read(tmp_path, of_rows((3, 2.0, 2.0, "{filter}"), (4, 1.5, 1.5, "{method 'read' of 'File' objects}"), above=above))
    assert trace.kernels["duration_ns"].sum() == 3_500_000_000
    assert any(said in note for note in trace.info["notes"])


def test_the_first_words_of_python_2(tmp_path):
    text = POSTED.replace("(90200 primitive calls) in 12.500 seconds", "in 12.500 CPU seconds").replace("{built-in method ", "{")
    assert read(tmp_path, text).kernels.equals(read(tmp_path, POSTED, "other.txt").kernels)


@pytest.mark.parametrize(
    "text",
    [POSTED.partition("   ncalls")[0], POSTED.partition("        1    0.020")[0] + "nothing\n"],
)
def test_a_profile_without_rows_is_refused(tmp_path, text):
    path = tmp_path / "profile.txt"
    path.write_text(text)
    with pytest.raises(EvidenceError, match=r"profile.txt: no table of pstats with a function; print one with"):
        captures.read(path)


@pytest.mark.parametrize(
    "content", [b"", b"12 function calls were made", b"ncalls tottime", b"9" * 100_000 + b" function calls in 1.0 seconds"]
)
def test_foreign_content_is_left_alone(tmp_path, content):
    assert not cprofile.matches(Head(tmp_path, content))


def test_more_tables_than_anybody_prints_are_refused(tmp_path):
    with pytest.raises(EvidenceError, match=r"profile.txt: 301 tables of pstats, more than 300; split the file"):
        read(tmp_path, POSTED * 301)


def test_a_table_of_a_framework_in_the_same_file_counts(tmp_path):
    row = made.row("aten::mm", "1.000ms", "1.000ms", "5.000ms", "10")
    path = tmp_path / "bottleneck.txt"
    path.write_text(POSTED + made.printed(made.NEW, [row]))
    assert detect(path).name == "torch-table"


@pytest.mark.parametrize("version", [0, 2, 4])
def test_a_binary_profile_is_refused_with_the_command_that_prints_it(tmp_path, version):
    path = tmp_path / "run.prof"
    profile = cProfile.Profile()
    profile.runcall(work)
    profile.create_stats()
    path.write_bytes(marshal.dumps(profile.stats, version))
    with pytest.raises(EvidenceError, match=r"run.prof: .*a profile of cProfile in Python's binary form.*print_stats\(\)"):
        captures.read(path)
