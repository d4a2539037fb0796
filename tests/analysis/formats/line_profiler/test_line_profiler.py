"""line_profiler's reports and .lprof files: every number is recomputed here from the columns or with pickle itself."""

import contextlib
import io
import pickle
import re
import struct
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.analysis.accounting import breakdowns
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import pickles
from kernelscope.analysis.files.head import Head, read_head
from kernelscope.analysis.formats.line_profiler import lprof as line_profiler_pickle
from kernelscope.analysis.formats.line_profiler import text as line_profiler
from kernelscope.analysis.formats.line_profiler.tables import parse_pickle
from tests.places import CORPUS

TEXTS = ("arleyzhang__ssd.pytorch__result_1000bt_opencv340.txt", "arleyzhang__ssd.pytorch__result_10batch.txt")
PICKLES = (
    "arleyzhang__ssd.pytorch__profiler_train.lprof",
    "arleyzhang__ssd.pytorch__train.py.lprof",
    "arleyzhang__ssd.pytorch__train_puretask_10000bt.lprof",
)


def of_corpus(name: str) -> Path:
    path = CORPUS / "lineprof" / name
    if not path.exists():
        pytest.skip("line_profiler's results of other people: needs ../shared/corpus")
    return path


def test_only_the_files_of_line_profiler_are_taken():
    if not CORPUS.exists():
        pytest.skip("captures of other people: needs ../shared/corpus")
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert {path.name for path in files if line_profiler.matches(read_head(path))} == set(TEXTS)
    assert {path.name for path in files if line_profiler_pickle.matches(read_head(path))} == set(PICKLES)


@pytest.mark.parametrize("name", TEXTS)
def test_lines_of_a_report(name):
    path = of_corpus(name)
    expected = []
    for line in path.read_text("utf8").split("\n"):
        if re.match(r" *\d+ ", line) and line[6:49].strip():
            number, hits, time = int(line[:6]), int(line[6:16]), Decimal(line[16:29])
            expected.append((number, hits, int(time * 1000), line[49:].strip()))
    trace = line_profiler.read(path)
    trace.check()
    lines = trace.lines
    assert list(lines[["line", "hits", "time_ns", "text"]].itertuples(index=False, name=None)) == expected
    assert (lines["line"] == lines["last_line"]).all()
    assert trace.diagnostics == {}
    totals = [Decimal(total) for total in re.findall(r"^Total time: (\S+) s", path.read_text("utf8"), re.MULTILINE)]
    assert f"{sum(total == 0 for total in totals)} of {len(totals)} profiled functions never ran" in trace.info["notes"]
    for function, rows in lines.groupby("function", sort=False):
        total = rows["time_ns"].sum()
        assert any(abs(total - int(printed * 10**9)) <= 5e-6 * total for printed in totals), function


class Known(pickle.Unpickler):
    """As pickle does it, for files known to be harmless."""

    def find_class(self, module, name):
        assert (module, name) == ("_line_profiler", "LineStats")
        return type("LineStats", (), {})


@pytest.mark.parametrize("name", PICKLES)
def test_lines_of_a_stored_profile(name):
    path = of_corpus(name)
    stats = Known(io.BytesIO(path.read_bytes())).load()
    assert stats.unit == 1e-06
    expected = [
        (function, line, hits, time * 1000) for (_, _, function), rows in stats.timings.items() for line, hits, time in rows
    ]
    trace = line_profiler_pickle.read(path)
    trace.check()
    found = trace.lines.assign(function=trace.lines["function"].str.split(" at line").str[0])
    assert list(found[["function", "line", "hits", "time_ns"]].itertuples(index=False, name=None)) == expected
    assert trace.lines["text"].isna().all()
    largest = max(stats.timings, key=lambda key: sum(row[2] for row in stats.timings[key]))
    assert trace.info["lines_root"] == largest[2]
    assert trace.info["lines_step_ns"] == sum(row[2] for row in stats.timings[largest]) * 1000
    table = breakdowns.breakdown(trace, "line")
    assert table.step_ns == trace.info["lines_step_ns"] == table.table["time_ns"].sum()


@pytest.mark.parametrize("name", [*TEXTS, *PICKLES])
def test_no_file_name_tells_whose_machine_it_was(name):
    trace = (line_profiler if name.endswith("txt") else line_profiler_pickle).read(of_corpus(name))
    assert not trace.lines["file"].str.contains("yanlei|^/").any()
    assert "yanlei" not in str(trace.info)


def test_methods_of_one_name_are_told_apart(tmp_path):
    report = "Timer unit: 1e-06 s\n" + "".join(
        block(file, f"{kind}.forward", 10) for file, kind in (("a/n.py", "A"), ("b/n.py", "B"))
    )
    trace = line_profiler.read(saved(tmp_path, report + block("a/n.py", "C.forward", 50, time="99.0")))
    assert trace.lines["function"].unique().tolist() == [
        "A.forward at line 10 of n (1)", "B.forward at line 10 of n (2)", "C.forward at line 50",
    ]  # fmt: skip
    assert trace.info["lines_root"] == "forward at line 50"
    assert breakdowns.breakdown(trace, "line").step_ns == 2 * 99_000


@pytest.mark.parametrize("time", ["-12.0", "12,0"])
def test_a_report_of_which_no_time_can_be_read_is_refused_with_the_first(tmp_path, time):
    table = block("a.py", "f", 10).replace("12.0 ", f"{time} ")
    with pytest.raises(EvidenceError, match=r"profile\.txt, line 10: hits and time cannot be read, as in all 2 lines that ran"):
        line_profiler.read(saved(tmp_path, "Timer unit: 1e-06 s\n" + table))
    trace = line_profiler.read(saved(tmp_path, "Timer unit: 1e-06 s\n" + table + block("b.py", "g", 20)))
    assert trace.lines["time_ns"].tolist() == [12_000, 12_000]
    assert trace.diagnostics["unreadable_lines"] == 2
    assert not any("never ran" in note for note in trace.info["notes"])


def saved(tmp_path: Path, content: str | bytes, name: str = "profile.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def block(file: str, function: str, first: int, time: str = "12.0", hits: str = "3") -> str:
    """A table as versions up to 3 write it, with one line that did not run and two that did."""
    row = "%6s %9s %12s %8s %8s  %-s\n"
    header = row % ("Line #", "Hits", "Time", "Per Hit", "% Time", "Line Contents")
    lines = row % (first, "", "", "", "", f"def {function}(self, x):")
    for number in (1, 2):
        lines += row % (first + number, hits, time, "4.0", "50.0", f"    y = {number} ")
    place = f"\nTotal time: {2 * Decimal(time) / 10**6} s\nFile: {file}\nFunction: {function} at line {first}\n\n"
    return place + header + "=" * (len(header) - 1) + "\n" + lines


@pytest.mark.parametrize(
    ("unit", "time", "expected"),
    [("1e-06", "12.0", 12_000), ("1e-09", "3.0", 3), ("3.19998e-07", "10.0", 3200), ("1e-09", "1.23e+06", 1_230_000),
     ("0.001", "0.1", 100_000), ("1", "12345678.9", 12_345_678_900_000_000), ("1e-06", "123456789012.0", 123_456_789_012_000)],
)  # fmt: skip
def test_times_are_exact_in_every_unit(tmp_path, unit, time, expected):
    table = without_total(block("train.py", "train", 7, time))  # which is in seconds, whatever the unit
    trace = line_profiler.read(saved(tmp_path, f"Timer unit: {unit} s\n{table}"))
    assert trace.lines["time_ns"].tolist() == [expected, expected]
    assert trace.lines["text"].tolist() == ["y = 1", "y = 2"]
    assert f"({unit} s)" in " ".join(trace.info["notes"])


def test_other_output_line_ends_colours_and_encodings(tmp_path):
    report = "loss 0.5\nWrote profile results to train.py.lprof\nTimer unit: 1e-06 s\n" + block("train.py", "train", 7)
    plain = line_profiler.read(saved(tmp_path, report)).lines
    coloured = report.replace("     8 ", "     \x1b[1;36m8\x1b[0m ").replace(" y ", " \x1b[97;49my\x1b[0m ")
    assert coloured != report
    for variant in (
        report.replace("\n", "\r\n").encode(),
        report.encode("utf-16"),
        coloured.encode(),
        report.encode() + b"\xff\xfe bye",
    ):
        path = saved(tmp_path, variant, "variant")
        assert line_profiler.matches(read_head(path))
        assert line_profiler.read(path).lines.equals(plain)


QUOTED = """In [3]: run contexts.py
Timer unit: 1e-06 s

File: contexts.py
Function: block at line 82
Total time: 1.6e-05 s

Line #      Hits         Time  Per Hit   % Time  Line Contents
==============================================================
    82                                               @profiled
    84         5            7      1.4     43.8          for i in range(count):
    85         4            9      2.2     56.2

Limitations?
============
"""


@pytest.mark.parametrize("indent", ["", "   ", "\t"])
def test_reports_quoted_in_documents_and_the_order_of_the_first_versions(tmp_path, indent):
    path = saved(tmp_path, "".join(f"{indent}{line}\n" for line in QUOTED.split("\n")))
    assert line_profiler.matches(read_head(path))
    trace = line_profiler.read(path)
    assert list(trace.lines[["file", "function", "line", "hits", "time_ns"]].itertuples(index=False, name=None)) == [
        ("contexts.py", "block", 84, 5, 7000), ("contexts.py", "block", 85, 4, 9000),
    ]  # fmt: skip
    assert trace.diagnostics == {}


def without_total(report):
    return re.sub(r"(?m)^.*Total time: .*$", "", report)


def test_a_table_without_the_unit_is_known_and_refused(tmp_path):
    path = saved(tmp_path, re.sub(r"(?m)^.*(?:Timer unit|Total time): .*$", "", QUOTED))
    assert line_profiler.matches(read_head(path))
    with pytest.raises(EvidenceError, match="without the line 'Timer unit"):
        line_profiler.read(path)


def test_a_report_without_its_source(tmp_path):
    missing = (
        "\nCould not find file /home/me/train.py\nAre you sure you are running this program from the same directory\n"
        "that you ran the profiler from?\nContinuing without the function's contents.\n"
    )
    report = re.sub(r"File: .*\nFunction.*\n", missing, "Timer unit: 1e-06 s\n" + block("x", "train", 7))
    trace = line_profiler.read(saved(tmp_path, re.sub(r"  (    y|def).*", "  ", report)))
    assert trace.lines["file"].tolist() == ["train.py", "train.py"]
    assert trace.lines["function"].tolist() == ["(unnamed)", "(unnamed)"]
    assert trace.lines["text"].isna().all()


def test_functions_that_never_ran_and_tables_cut_short(tmp_path):
    report = "Timer unit: 1e-06 s\n" + block("a.py", "f", 7)
    cut = line_profiler.read(saved(tmp_path, report[: report.index("     9 ")]))
    assert cut.lines[["line", "hits", "time_ns", "text"]].values.tolist() == [
        [8, 3, 12_000, "y = 1"],
        [0, 0, 12_000, "(lines not printed)"],
    ]
    assert cut.info["lines_step_ns"] == 24_000
    assert cut.diagnostics == {"functions whose lines do not add up to their total": 1}
    never = re.sub(r"(?m)^ +[89] .*\n", "", report).replace("Total time: 0.000024", "Total time: 0")
    trace = line_profiler.read(saved(tmp_path, never))
    assert trace.lines.empty
    with pytest.raises(EvidenceError, match="no profiled function ran"):
        breakdowns.breakdown(trace, "line")


def test_rows_that_make_no_sense_are_counted(tmp_path):
    report = "Timer unit: 1e-06 s\n" + block("a.py", "f", 7).replace("4.0", "4.0 x y z", 1)
    trace = line_profiler.read(saved(tmp_path, report))
    assert trace.diagnostics["unreadable_lines"] == 1
    assert len(trace.lines) == 1


def test_a_damaged_line_does_not_end_its_table(tmp_path):
    report = "Timer unit: 1e-06 s\n" + block("a.py", "f", 7)
    damaged = line_profiler.read(saved(tmp_path, re.sub(r"(?m)^ +8 ", "    ?? ", report)))
    assert damaged.lines["line"].tolist() == [9]
    assert damaged.diagnostics == {"unreadable_lines": 1, "functions whose lines do not add up to their total": 1}


@pytest.mark.parametrize(
    "report",
    [
        "", "Timer unit: 1e-06 s\n", without_total(block("a.py", "f", 7)),
        "Timer unit: 1e999999999 s\n" + without_total(block("a.py", "f", 7)),
        "Timer unit: 1 s\n" + block("a.py", "f", 7, time="9999999999999999999"),
    ],
)  # fmt: skip
def test_reports_that_cannot_be_used(tmp_path, report):
    with pytest.raises(EvidenceError, match=r"profile\.txt") as raised:
        line_profiler.read(saved(tmp_path, report))
    assert "\n" not in str(raised.value)


def columns_of(report: str, mark: str) -> str:
    """Separate a report's columns with tabs, or with bars as in Markdown."""
    result = []
    for line in report.split("\n"):
        cells = [line[:6], line[6:16], line[16:29], line[29:38], line[38:47], line[49:]]
        cells = [cell.strip() for cell in cells]
        if line.startswith("===="):
            result += ["|---:|---:|---:|---:|---:|---|"] if mark == "|" else []
        elif line.startswith("Line #") or re.match(r" +\d+ ", line):
            last = f"`{cells[-1]}`" if mark == "|" and not line.startswith("Line #") else cells[-1]
            row = [*cells[:-1], last]
            result.append(f"| {' | '.join(row)} |" if mark == "|" else "\t".join(row))
        else:
            result.append(line)
    return "\n".join(result)


@pytest.mark.parametrize("mark", ["|", "\t"])
def test_columns_separated_by_tabs_and_bars(tmp_path, mark):
    report = "Timer unit: 1e-06 s\n" + block("a.py", "f", 7) + "\nsome text\n" + block("b.py", "g", 20)
    plain = line_profiler.read(saved(tmp_path, report))
    path = saved(tmp_path, columns_of(report, mark), "separated.txt")
    assert line_profiler.matches(read_head(path))
    trace = line_profiler.read(path)
    assert trace.lines.equals(plain.lines)
    assert trace.diagnostics == {}


def test_a_source_with_bars_keeps_them(tmp_path):
    report = "Timer unit: 1e-06 s\n" + block("a.py", "f", 7).replace("y = 2", "y = 1 | 2")
    assert line_profiler.read(saved(tmp_path, report)).lines["text"].tolist() == ["y = 1", "y = 1 | 2"]
    bars = columns_of(report, "|").replace("y = 1 | 2", "y = 1 \\| 2")
    assert line_profiler.read(saved(tmp_path, bars, "bars.md")).lines["text"].tolist() == ["y = 1", "y = 1 | 2"]


def test_numbers_that_were_cut_are_counted_from_the_functions_first_line(tmp_path):
    report = "Timer unit: 1e-06 s\n" + block("a.py", "f", 10) + "\n" + block("b.py", "g", 20)
    plain = line_profiler.read(saved(tmp_path, report))
    cut = "\n".join(line[6:] if re.match(r"Line #|====| +\d+ ", line) else line for line in report.split("\n"))
    assert "Line #" not in cut
    path = saved(tmp_path, cut, "cut.txt")
    assert line_profiler.matches(read_head(path))
    trace = line_profiler.read(path)
    assert trace.lines.equals(plain.lines)
    assert trace.diagnostics == {}
    assert any("counted from their function's first line" in note for note in trace.info["notes"])


def test_percentages_that_were_cut(tmp_path):
    report = "Timer unit: 1e-06 s\n" + block("a.py", "f", 10)
    cut = "\n".join(line[:29] + line[47:] if re.match(r"Line #|====| +\d+ ", line) else line for line in report.split("\n"))
    assert "% Time" not in cut
    assert "Per Hit" not in cut
    trace = line_profiler.read(saved(tmp_path, cut, "cut.txt"))
    assert trace.lines.equals(line_profiler.read(saved(tmp_path, report)).lines)


@pytest.mark.parametrize("instead", ["", "\n", "   \r\n"])
def test_the_rule_below_the_header_may_be_lost(tmp_path, instead):
    report = "Timer unit: 1e-06 s\n" + block("a.py", "f", 7) + "\nsome text\n" + block("b.py", "g", 20)
    plain = line_profiler.read(saved(tmp_path, report))
    path = saved(tmp_path, re.sub(r"====+\n", lambda _: instead, report), "pasted.txt")
    assert line_profiler.matches(read_head(path))
    trace = line_profiler.read(path)
    assert len(trace.lines)
    assert trace.lines.equals(plain.lines)
    assert trace.diagnostics == {}


@pytest.mark.parametrize(
    "text",
    [
        "| Hits | Time |\n|---|---|\n| 3 | 4 |\n",
        "Hits\tTime\tName\n3\t4\tx\n",
        "Hits Time Line Contents\n",
        "Hits Time Line Contents\nare the columns\n",
    ],
)
def test_other_tables_are_not_taken(tmp_path, text):
    assert not line_profiler.matches(read_head(saved(tmp_path, text)))


# .lprof files


class LineStats:
    """Pickled under the names of line_profiler's class."""


def stored(timings, unit=1e-06, module="_line_profiler", protocol=4) -> bytes:
    stats = LineStats()
    stats.timings, stats.unit = timings, unit
    content = pickle.dumps(stats, protocol)
    own = LineStats.__module__
    if protocol >= 4:
        old, new = (b"\x8c" + bytes([len(name)]) + name.encode() for name in (own, module))
        content = content.replace(old, new)
        return content.replace(b"\x95" + content[3:11], b"\x95" + struct.pack("<Q", len(content) - 11))
    return content.replace(f"c{own}\n".encode(), f"c{module}\n".encode())


TIMINGS = {("a/train.py", 7, "train"): [(8, 3, 12), (9, 1, 2**40)], ("a/train.py", 20, "idle"): []}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("module", ["_line_profiler", "line_profiler._line_profiler", "line_profiler.line_profiler"])
def test_profiles_of_every_version(tmp_path, protocol, module):
    path = saved(tmp_path, stored(TIMINGS, 1e-09, module, protocol), "train.py.lprof")
    assert line_profiler_pickle.matches(read_head(path))
    lines = line_profiler_pickle.read(path).lines
    assert lines[["line", "hits", "time_ns"]].values.tolist() == [[8, 3, 12], [9, 1, 2**40]]


def test_the_profile_of_the_installed_version(tmp_path):
    module = pytest.importorskip("line_profiler")
    profiler = module.LineProfiler()

    def work(count):
        return sum(range(count))

    profiler.add_function(work)
    profiler.runcall(work, 1000)
    path = tmp_path / "work.lprof"
    profiler.dump_stats(path)
    report = io.StringIO()
    profiler.print_stats(report)
    stats = profiler.get_stats()
    expected = [(line, hits, round(time * stats.unit * 1e9)) for rows in stats.timings.values() for line, hits, time in rows]
    columns = ["line", "hits", "time_ns"]
    trace = line_profiler_pickle.read(path)
    assert list(trace.lines[columns].itertuples(index=False, name=None)) == expected
    text = line_profiler.read(saved(tmp_path, report.getvalue()))
    assert list(text.lines[columns].itertuples(index=False, name=None)) == expected
    assert text.lines["text"].tolist() == ["return sum(range(count))"]


def test_profiles_of_python_2(tmp_path):
    """Protocol 2 with byte strings, as Python 2 wrote them."""
    strings = b"".join(b"U" + bytes([len(text)]) + text for text in (b"train.py",))
    content = b"\x80\x02c_line_profiler\nLineStats\nq\x00)\x81q\x01}q\x02(U\x07timingsq\x03}q\x04" + strings
    content += b"K\x07U\x05train\x87]q\x05K\x08K\x03L12L\n\x87asU\x04unitG>\xb0\xc6\xf7\xa0\xb5\xed\x8dub."
    path = saved(tmp_path, content, "old.lprof")
    assert line_profiler_pickle.matches(read_head(path))
    assert line_profiler_pickle.read(path).lines["time_ns"].tolist() == [12_000]


class Harmful:
    def __reduce__(self):
        return eval, ("open('harm', 'w')",)


def bomb(depth: int) -> object:
    value: object = ()
    for _ in range(depth):
        value = (value, value)
    return value


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Harmful()),
        stored({("a", 1, Harmful()): []}),
        stored(Harmful()),
        pickle.dumps({"timings": {}, "unit": 1e-6}),
        b"\x80\x04cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
        b"\x80\x04c_line_profiler\nLineStats\n)\x81}(X\x04\x00\x00\x00unitr\xff\xff\xff\x7fG>\xb0\xc6\xf7\xa0\xb5\xed\x8dub.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x" * 100,
        b"\x80\x04" + b"(" * 100_000 + b".",
        b"\x80\x04" + b"]" * 10 + b"a" * 100,
        b"\x80\x04P1\n.",
        b"\x80\x04(i__main__\nLineStats\n.",
        b"\x80\x04L" + b"9" * 100_000 + b"L\n.",
        b"\x80\x04c_line_profiler\nLineStats\n}b.",
        b"\x80\x04c_line_profiler\nLineStats\n)\x81}X\x07\x00\x00\x00timings})" + b"q\x00h\x00\x86" * 60 + b"]ssb.",
        stored({("a", 1, "f"): bomb(40)}),
        stored({("a", 1, "f"): [(1, 1, float("nan"))]}),
        stored({("a", 1, "f"): [(1, 1, 2**70)]}),
        stored({("a", 1, "f"): [(1, -1, 1)]}),
        stored({("a", 1, "f"): [(1, 2)]}),
        stored({("a", 1, "f"): {1: 2}}),
        stored({("a", 1): []}),
        stored(TIMINGS, unit=float("inf")),
        stored(TIMINGS, unit="1"),
        stored(TIMINGS)[:-40],
        b"",
        b"\x80",
        b"\x00" * 1000,
    ],
)
def test_files_that_want_anything_else_are_refused(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, content, "bad.lprof")
    with pytest.raises(EvidenceError, match=r"bad\.lprof: not a \.lprof file") as raised:
        line_profiler_pickle.read(path)
    assert "\n" not in str(raised.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.lprof"]


def test_lists_that_are_shared_a_million_times_are_refused(tmp_path):
    rows = [(1, 1, 1)] * 1000
    with pytest.raises(EvidenceError, match="more lines than the file has bytes for"):
        line_profiler_pickle.read(saved(tmp_path, stored({("a", number, "f"): rows for number in range(1000)}), "shared.lprof"))


def test_halves_of_characters_are_replaced(tmp_path):
    trace = line_profiler_pickle.read(saved(tmp_path, stored({("\ud800.py", 1, "f\udfff"): [(1, 1, 1)]}), "odd.lprof"))
    assert trace.lines[["file", "function"]].values.tolist() == [["?.py", "f?"]]


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.text(max_size=9), st.integers(1, 10**6), st.text(max_size=9)),
        st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 2**62), st.integers(0, 2**53)), max_size=5),
        max_size=4,
    )
)
def test_whatever_was_stored_comes_back(timings):
    found = parse_pickle(stored(timings, 1e-09), "made.lprof")
    assert {(f.file, f.first, f.name): [(line.number, line.hits, line.time_ns) for line in f.lines] for f in found} == {
        (str(file).encode("utf8", "replace").decode(), first, str(name).encode("utf8", "replace").decode()): rows
        for (file, first, name), rows in timings.items()
    }


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=8), st.integers(0, 400))
def test_damage_is_an_error_and_nothing_else(changes, length):
    content = bytearray(stored(TIMINGS))
    for place, byte in changes:
        content[place % len(content)] = byte
    with contextlib.suppress(EvidenceError):
        parse_pickle(bytes(content[: max(1, length)]), "damaged.lprof")


def test_nothing_of_pickle_runs():
    source = Path(pickles.__file__).read_text()
    assert "import pickletools" in source
    for module in (source, Path(parse_pickle.__code__.co_filename).read_text()):
        assert not re.search(r"import pickle\b|from pickle ", module)


def test_heads_of_anything(tmp_path):
    for content in (b"", b"\x80", b"\x80\x04\x95", b"\xff\xfe", bytes(range(256))):
        head = Head(tmp_path, content)
        assert not line_profiler.matches(head)
        assert not line_profiler_pickle.matches(head)


@pytest.mark.parametrize(("unit", "total"), [(1e-09, "0.014188"), (1e-06, "14.188")])
def test_a_unit_that_is_not_printed_follows_from_the_total(tmp_path, unit, total):
    path = tmp_path / "lines.txt"
    path.write_text(
        f"Total time: {total} s\nFile: train.py\nFunction: main at line 1\n\n"
        "Line #      Hits         Time  Per Hit   % Time  Line Contents\n"
        "==============================================================\n"
        "     2         1     4188000.0 4188000.0     29.5      first()\n"
        "     3         2    10000000.0 5000000.0     70.5      second()\n"
    )
    trace = line_profiler.read(path)
    assert list(trace.lines["time_ns"]) == [round(4_188_000 * unit * 1e9), round(10_000_000 * unit * 1e9)]
    assert "the timer's unit is not printed; it follows from the totals" in trace.info["notes"]


@pytest.mark.parametrize("total", ["Total time: 0.02 s\n", ""])
def test_a_unit_that_does_not_follow_is_refused(tmp_path, total):
    path = tmp_path / "lines.txt"
    path.write_text(
        f"{total}Line #      Hits         Time  Per Hit   % Time  Line Contents\n"
        "==============================================================\n"
        "     2         1     4188000.0 4188000.0    100.0      first()\n"
    )
    with pytest.raises(EvidenceError, match="Timer unit"):
        line_profiler.read(path)
