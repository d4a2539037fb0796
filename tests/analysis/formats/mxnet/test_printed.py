"""The statistics that mx.profiler prints: totals, counters told from times, and devices that are not told."""

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import pair
from kernelscope.analysis.formats.format import detect
from kernelscope.analysis.recordings import captures

OPERATORS = [
    ("Convolution", 4, 6.4, 1.1, 2.1), ("_backward_Convolution", 4, 8.0, 2.0, 2.0), ("sgd_update", 2, 0.25, 0.1, 0.15),
    ("CopyCPU2GPU", 2, 3.0, 1.0, 2.0), ("DeleteVariable", 90, 9.5, 0.002, 1.0), ("WaitForVar", 2, 0.02, 0.009, 0.011),
]  # fmt: skip
CALLS = [("MXNDArrayWaitAll", 1, 30.125, 30.125, 30.125), ("MXNet C API Calls", 400, 0.4, 0.001, 0.4)]
OWN = [("epoch", 2, 31.0, 15.0, 16.0), ("samples", 3, 0.03, 0.01, 0.03)]
TITLES = ("Name", "Total Count", "Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)")
MEMORY = ("Name", "Total Count", "Min Use  (kb)", "Max Use  (kb)", "Avg Use  (kb)")


def section(title, rows, titles=TITLES):
    """Return a section as MXNet prints it."""
    lines = [title, "================="]
    for row in (titles, ["-" * len(text) for text in titles]):
        lines.append(f"{row[0]:<25}" + " ".join(f"{text:>16}" for text in row[1:]))
    for name, count, *times in rows:
        average = times[0] / count if titles is TITLES else (times[1] - times[0]) / 2
        lines.append(f"{name:<25}{count:>16} " + " ".join(f"{value:>16.4f}" for value in [*times, average]))
    return "\n".join(lines) + "\n\n"


def statistics(memory=(("Memory: cpu/0", 9, 0.25, 512.0),), operators=OPERATORS):
    text = "\nProfile Statistics:\n\tNote the difference in units for different entries.\n"
    return text + section("Device Storage", memory, MEMORY) + section("MXNET_C_API", CALLS) + section("operator", operators)


def read(tmp_path, text):
    path = tmp_path / "log.txt"
    path.write_text(text)
    assert detect(path).name == "mxnet-table"
    return captures.read(path)


def listed(frame, *columns):
    return list(frame[list(columns)].astype(object).where(frame[list(columns)].notna(), None).itertuples(index=False, name=None))


@pytest.mark.parametrize("mark", ["", "# "])
def test_operators_copies_and_calls(tmp_path, mark):
    text = "epoch 1: 0.5\n" + statistics() + section("my domain", OWN)
    trace = read(tmp_path, "".join(f"{mark}{line}\n" for line in text.splitlines()))
    assert listed(trace.kernels, "name", "kind", "phase", "count", "duration_ns", "min_ns", "max_ns", "device") == [
        ("Convolution", "convolution forward", None, 4, 6_400_000, 1_100_000, 2_100_000, "cpu"),
        ("_backward_Convolution", "convolution weight gradient", "backward", 4, 8_000_000, 2_000_000, 2_000_000, "cpu"),
        ("sgd_update", "optimizer", "optimizer", 2, 250_000, 100_000, 150_000, "cpu"),
        ("DeleteVariable", "unknown", None, 90, 9_500_000, 2_000, 1_000_000, "cpu"),
    ]
    assert listed(trace.copies, "operation", "count", "duration_ns") == [("host to device", 2, 3_000_000)]
    totals = dict(zip(trace.totals["name"], zip(trace.totals["table"], trace.totals["duration_ns"], strict=True), strict=True))
    assert totals == {
        "MXNDArrayWaitAll": ("calls", 30_125_000),
        "Convolution": ("operators", 6_400_000),
        "_backward_Convolution": ("operators", 8_000_000),
        "sgd_update": ("operators", 250_000),
        "CopyCPU2GPU": ("operators", 3_000_000),
        "DeleteVariable": ("operators", 9_500_000),
        "epoch": ("ranges", 31_000_000),
    }
    assert trace.diagnostics == {"counters, which are not read": 2}
    assert any(note.startswith("my domain: ranges of the program's own") for note in trace.info["notes"])
    assert "DeleteVariable (9.500 ms): no operators, but work of MXNet's engine, which counts" in trace.info["notes"]
    assert "WaitForVar (0.020 ms): waits, which do not count" in trace.info["notes"]


def test_what_is_no_operator_is_not_named_where_there_is_none(tmp_path):
    trace = read(tmp_path, statistics(operators=OPERATORS[:4]))
    assert not any("count" in note for note in trace.info["notes"])


@pytest.mark.parametrize("memory", [(), (("Memory: cpu/0", 9, 0.25, 512.0), ("Memory: gpu/0", 5, 1.0, 2.0))])
def test_which_device_ran_an_operator_is_not_known(tmp_path, memory):
    trace = read(tmp_path, statistics(memory))
    assert trace.kernels["device"].isna().all()
    assert "which device ran an operator is not printed; profiler.dump() tells it" in trace.info["notes"]


def test_older_statistics_print_memory_as_times(tmp_path):
    old = "Profile Statistics.\n\tNote that counter items are counter values and not time units.\n"
    memory = section("Device Storage", [("Memory: cpu/0", 9, 500.0, 0.25, 512.0)])
    trace = read(tmp_path, old + memory + section("operator", OPERATORS))
    assert trace.kernels["duration_ns"].sum() == 24_150_000
    assert set(trace.kernels["device"]) == {"cpu"}
    assert "ranges" not in set(trace.totals["table"])


def test_statistics_without_rows_are_refused(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("Profile Statistics:\n" + section("operator", []))
    with pytest.raises(EvidenceError, match="no operator, call or range in MXNet's statistics"):
        captures.read(path)


def test_an_explanation_does_not_name_a_device_that_is_not_printed(tmp_path):
    first, second = tmp_path / "cpu.txt", tmp_path / "gpu.txt"
    first.write_text(statistics(operators=OPERATORS[:3]))
    second.write_text(statistics((("Memory: gpu/0", 5, 1.0, 2.0),)))
    result = pair.read(first, second).explain(None, False, None)
    assert "A computes on the CPU, B on a device whose name was not recorded" in str(dict(result))


def test_what_does_not_fit_is_told_as_lost(tmp_path):
    """It is neither a counter nor passed over in silence."""
    rows = [*OPERATORS[:1], ("FullyConnected", 10**20, 6.4, 1.1, 2.1), ("Pooling", 4, 1e17, 1.1, 2.1)]
    trace = read(tmp_path, statistics(operators=rows))
    assert list(trace.kernels["name"]) == ["Convolution"]
    assert captures.lost(trace) == {"rows without usable time": 2}


def test_statistics_of_which_no_row_fits_are_refused(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("Profile Statistics:\n" + section("operator", [("Pooling", 4, 1e17, 1.1, 2.1)]))
    with pytest.raises(EvidenceError, match="no row of MXNet's statistics has a count and times that can be used"):
        captures.read(path)


def test_repeated_titles_are_read_once(tmp_path):
    """A section ends where other titles begin; those without a name of their own go on with it. Neither takes squared time."""
    titles = section("operator", []).splitlines()[2:4]
    text = section("operator", OPERATORS[:1]).rstrip() + "\n"
    text += "\n".join(titles * 20_000) + "\n" + section("operator", OPERATORS[1:2]) + section("epochs", OWN[:1])
    trace = read(tmp_path, text)
    assert listed(trace.totals, "name", "table", "duration_ns") == [
        ("Convolution", "operators", 6_400_000),
        ("_backward_Convolution", "operators", 8_000_000),
        ("epoch", "ranges", 31_000_000),
    ]
    assert not trace.diagnostics


def test_many_tables_of_the_program_are_named_in_part(tmp_path):
    text = "".join(section(f"domain {number}", OWN[:1]) for number in range(30))
    notes = read(tmp_path, text).info["notes"]
    assert sum("ranges of the program's own" in note for note in notes) == 21
    assert "10 further tables hold ranges of the program's own" in notes
