"""Summaries as rocprofv3 prints them: each row counts once, whichever of its tables has it."""

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.format import detect
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED

KERNELS = [("void scale<float>(float*, int)", 40, 8_000, 150, 250), ("_Z3addPfS_.kd", 10, 2_000, 190, 210)]
COPIES = [("MEMORY_COPY_HOST_TO_DEVICE", 3, 900, 200, 400), ("MEMORY_COPY_DEVICE_TO_HOST", 1, 100, 100, 100)]
CALLS = [("hipLaunchKernel", 50, 4_000, 60, 100), ("hipMalloc", 2, 5_000, 2_000, 3_000)]
RANGES = [("step | forward", 5, 20_000, 3_000, 5_000)]
DOMAINS = {"HIP_API": CALLS, "MARKER_API": RANGES, "KERNEL_DISPATCH": KERNELS, "MEMORY_COPY": COPIES}


def table(domains, label="SUMMARY", unit="nsec", divisor=1, indent="    ", whole=None):
    """Return a table as rocprofv3 prints it."""
    rows = sorted(((domain, *row) for domain, rows in domains.items() for row in rows), key=lambda row: -row[3])
    whole = whole or sum(row[3] for row in rows)
    titles = ("CALLS", f"DURATION ({unit})", f"AVERAGE ({unit})", "PERCENT (INC)", f"MIN ({unit})", f"MAX ({unit})", "STDDEV")
    widths = (40, 15, 15, 15, 15, 13, 15, 15, 15)
    lines = [f"| {' | '.join(f'{title:^{width}}' for title, width in zip(('NAME', 'DOMAIN', *titles), widths, strict=True))} |"]
    lines.append(f"|{'|'.join('-' * (width + 2) for width in widths)}|")
    for domain, name, count, total, shortest, longest in rows:
        times = [f"{value / divisor if divisor > 1 else value:15}" for value in (total, shortest, longest)]
        average, share = f"{total / count / divisor:15.3e}", f"{100 * total / whole:.6f}"
        cells = (f"{name:<40}", f"{domain:<15}", f"{count:15}", times[0], average, f"{share:>13}", *times[1:], f"{1:15.3e}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n" + "".join(f"{indent}{line}\n" for line in [f"ROCPROFV3 {label}:", "", *lines, ""])


def read(tmp_path, text):
    path = tmp_path / "log.txt"
    path.write_text(text)
    assert detect(path).name == "rocprof-summary"
    return captures.read(path)


def listed(frame, *columns):
    return sorted(frame[list(columns)].astype(object).itertuples(index=False, name=None))


def check(trace):
    assert listed(trace.kernels, "name", "count", "duration_ns", "min_ns", "max_ns") == [
        ("add(float*, float*)", 10, 2000, 190, 210),
        ("void scale<float>(float*, int)", 40, 8000, 150, 250),
    ]
    assert listed(trace.copies, "operation", "count", "duration_ns") == [("device to host", 1, 100), ("host to device", 3, 900)]
    assert listed(trace.totals, "table", "name", "count", "duration_ns") == [
        ("calls", "hipLaunchKernel", 50, 4000),
        ("calls", "hipMalloc", 2, 5000),
        ("ranges", "step | forward", 5, 20000),
    ]
    assert captures.lost(trace) == {}


@pytest.mark.parametrize("indent", ["    ", "", "# "])
def test_one_table_of_all_domains(tmp_path, indent):
    check(read(tmp_path, "program's own output | x\n" + table(DOMAINS, indent=indent) + "done\n"))


def test_titles_without_what_introduced_them(tmp_path):
    check(read(tmp_path, table(DOMAINS, indent="").partition("SUMMARY:\n\n")[2]))


def test_tables_of_domains_and_of_all_count_once(tmp_path):
    each = "".join(table({domain: rows}, f"{domain} SUMMARY") for domain, rows in DOMAINS.items())
    group = table({name: DOMAINS[name] for name in ("KERNEL_DISPATCH", "MEMORY_COPY")}, "KERNEL_DISPATCH + MEMORY_COPY SUMMARY")
    trace = read(tmp_path, each + group + table(DOMAINS))
    check(trace)
    assert any("11 rows are in several of the summaries" in note for note in trace.info["notes"])


@pytest.mark.parametrize(("unit", "divisor"), [("usec", 10**3), ("msec", 10**6), ("sec", 10**9)])
def test_units(tmp_path, unit, divisor):
    check(read(tmp_path, table(DOMAINS, unit=unit, divisor=divisor)))


def test_percentages_tell_what_was_cut_off(tmp_path):
    trace = read(tmp_path, table({"KERNEL_DISPATCH": KERNELS[:1]}, "KERNEL_DISPATCH SUMMARY", whole=10_000))
    assert listed(trace.kernels, "name", "duration_ns") == [(UNLISTED, 2000), ("void scale<float>(float*, int)", 8000)]
    assert any("80.0% of the time" in note for note in trace.info["notes"])


def test_summaries_of_two_runs_are_refused(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(table(DOMAINS) + table({"KERNEL_DISPATCH": [(*KERNELS[0][:2], 9_000, 150, 250)]}))
    with pytest.raises(EvidenceError, match="line 17: the summary of another run or process starts here"):
        captures.read(path)


def test_more_summaries_than_a_run_prints_are_refused(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(table(DOMAINS) * 301)
    with pytest.raises(EvidenceError, match="301 summaries of rocprofv3, of many runs; split the file"):
        captures.read(path)
    assert len(read(tmp_path, table(DOMAINS) * 3).kernels) == 2


def test_rows_that_are_none_are_counted(tmp_path):
    text = table(DOMAINS).replace("|              40 |", "|           forty |")
    trace = read(tmp_path, text.rstrip() + "\n    | cut short |\n")
    assert captures.lost(trace) == {"lines that are no rows": 1, "rows without a name, number or time": 1}
    assert trace.kernels["count"].tolist() == [10]
