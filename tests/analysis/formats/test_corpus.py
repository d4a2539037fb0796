"""Every capture of the corpus, as a user would name it: its format is told from its content, and every table adds up."""

import pytest

import kernelscope as ks
from kernelscope.analysis import formats
from kernelscope.analysis.accounting.breakdowns import BY, breakdowns
from kernelscope.analysis.errors import EvidenceError
from tests.places import CORPUS

# What each file is, by its name, as the corpus' own list says; the first pattern that fits counts. None: nothing that is read.
WHAT = (
    ("nsys/*dlprof_dldb.sqlite", None),
    ("nsys/*.sqlite", "nsys-sqlite"),
    ("nsys/*.nsys-rep", "nsys-report"),
    ("nsys/*.qdrep", "nsys-report"),
    ("nsys/*.txt", "nsys-stats"),
    ("nsys/*.csv", "nsys-stats"),
    ("nvprof/*pyprof*", None),
    ("nvprof/*.nvprof", "nvprof-sqlite"),
    ("nvprof/*.nvvp", "nvprof-sqlite"),
    ("nvprof/*.sql", "nvprof-sqlite"),
    ("nvprof/*", "nvprof-table"),
    ("kineto/*rocprof*", "rocprof-json"),
    ("kineto/*simple_add_et*", None),
    ("kineto/*.tar.gz", None),
    ("kineto/*", "kineto"),
    ("tf/*input_pipeline.pb", None),
    ("tf/*.xplane.pb", "xplane"),
    ("tf/*", "tensorflow-timeline"),
    ("mxnet/*", "mxnet"),
    ("cntk/*", "cntk-log"),
    ("onednn/*", "verbose"),
    ("lineprof/*.lprof", "line-profiler-pickle"),
    ("lineprof/*", "line-profiler"),
    ("smi/*", "gpu-samples"),
)


def _files():
    if not CORPUS.is_dir():
        return [pytest.param(None, None, marks=pytest.mark.skip(reason="needs ../shared/corpus"))]
    found = []
    mixed = ("pairs", "ranks", "more", "broken")  # folders with captures of several formats
    for path in sorted(path for path in CORPUS.glob("*/*") if path.is_file() and path.parent.name not in mixed):
        relative = path.relative_to(CORPUS)
        form = next(form for pattern, form in WHAT if relative.match(pattern))
        found.append(pytest.param(path, form, id=str(relative)[:70]))
    return found


@pytest.mark.parametrize(("path", "form"), _files())
def test_the_format_is_told_from_the_content(path, form, tmp_path):
    nameless = tmp_path / "capture"
    nameless.symlink_to(path)
    if form is None:
        with pytest.raises(EvidenceError, match="no capture of a known format"):
            formats.detect(nameless)
    else:
        assert formats.detect(nameless).name == form


def test_samples_of_cpu_functions_are_refused_with_the_reason():
    path = CORPUS / "nvprof" / "nanzifan__nvprof-result__cfd_cpu-profiling.csv"
    if not path.is_file():
        pytest.skip("needs ../shared/corpus")
    with pytest.raises(EvidenceError, match="--cpu-profiling"):
        ks.read(path)


def _readable():
    return [p for p in _files() if p.values[1] not in (None, "nsys-report") and "cpu-profiling" not in p.values[0].name]


@pytest.mark.parametrize(("path", "form"), _readable() if CORPUS.is_dir() else _files())
@pytest.mark.long
def test_whatever_a_capture_allows_adds_up(path, form):
    trace = ks.read(path)
    assert not any("HOME" in str(value) or "PATH=" in str(value) for value in trace.info.values())
    for by, result in breakdowns(trace, tuple(BY)).items():
        if isinstance(result, str):
            assert result, by
            continue
        if result.step_ns is None:
            assert result.table["time_ns"].isna().all()
            continue
        assert result.table["time_ns"].sum() == result.step_ns, by
        assert (result.table["time_ns"] >= 0).all()
        totals = result.totals
        if totals:
            assert totals["kernel_busy_ns"] <= min(totals["kernel_sum_ns"], totals["device_busy_ns"]) <= totals["kernel_sum_ns"]
            assert totals["device_busy_ns"] <= totals["wall_ns"]
        if by == "kernel" and len(trace.steps) == 0:
            timed = trace.kernels[trace.kernels["start_ns"].notna()]
            kernels = result.table[result.table["kind"].notna() & ~result.table["kernel"].str.startswith("(")]
            assert kernels["count"].sum() == len(timed)
            assert kernels["duration_ns"].sum() == (timed["end_ns"] - timed["start_ns"]).sum()
