"""Reports of Nsight Compute: public ones by NVIDIA's library, and made ones through a program that stands in for ncu."""

import sys

import pytest

import kernelscope as ks
from kernelscope.analysis.advise import advise
from kernelscope.analysis.errors import EvidenceError
from kernelscope.nsys_wrappers import find, ncu_library
from tests import places
from tests.analysis.formats.ncu.test_printed import RAW

CORPUS = places.CORPUS / "more"
ADD = "NVIDIA__nsight-training__cuda_nsight_compute_sample_reports_CuVectorAddDrv"
PRODUCT = "csl-iisc__gpu-profiling-tutorial__tiled_gemm_report"


@pytest.fixture
def report(tmp_path, monkeypatch):
    monkeypatch.delenv("KERNELSCOPE_NCU", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(find, "_PATTERNS", {**find._PATTERNS, "ncu": ()})
    monkeypatch.setattr(find, "_IN_WHEELS", {})
    monkeypatch.setattr(ncu_library, "version", lambda: None)
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(b"NVR\0\2\0\0\0" + b"\x7fELF" * 9)
    return path


def stand_in(tmp_path, monkeypatch, body):
    program = tmp_path / "tools/ncu"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'Version 2024.1.1.0 (build 1)'; exit; fi\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("KERNELSCOPE_NCU", str(program))


def test_a_report_without_library_and_ncu_says_what_is_needed(report):
    said = r"pip install ncu-report, or name an ncu in KERNELSCOPE_NCU, or print it .* ncu --import a\.ncu-rep --csv --page raw"
    with pytest.raises(EvidenceError, match=said):
        ks.read(report)


def test_an_installed_ncu_prints_the_report(report, tmp_path, monkeypatch):
    (tmp_path / "table").write_text(RAW)
    stand_in(tmp_path, monkeypatch, f"[ \"$1 $3 $4 $5\" = '--import --csv --page raw' ] && /bin/cat {tmp_path}/table")
    trace = ks.read(report)
    assert trace.info["source"] == {"format": "ncu-report", "tool": "Nsight Compute", "version": "2024.1.1.0"}
    assert len(trace.kernels) == 3


def test_an_older_ncu_lacks_an_option(report, tmp_path, monkeypatch):
    (tmp_path / "table").write_text(RAW)
    stand_in(
        tmp_path,
        monkeypatch,
        f"case \"$*\" in *print-units*) echo 'unrecognised option'; exit 1;; esac; /bin/cat {tmp_path}/table",
    )
    assert len(ks.read(report).kernels) == 3


def test_an_ncu_that_fails_is_named(report, tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "echo '==ERROR== Failed to load report'; exit 1")
    with pytest.raises(
        EvidenceError, match=r"a\.ncu-rep: ncu 2024\.1\.1\.0 \(.*\) did not read it: ==ERROR== Failed to load report"
    ):
        ks.read(report)


# --- by the library -------------------------------------------------------------------------------------------------------


@pytest.fixture
def library():
    return pytest.importorskip("ncu_report", reason="needs the package ncu-report, which is for x86_64 only")


def public(name):
    path = CORPUS / f"{name}.ncu-rep"
    if not path.exists():
        pytest.skip("needs ../shared/corpus")
    return path


@pytest.mark.parametrize("name", [ADD, PRODUCT])
def test_public_reports_hold_what_the_library_itself_tells(name, library):
    path = public(name)
    trace, actions = ks.read(path), [action for part in library.load_report(str(path)) for action in part]
    assert trace.info["source"] == {"format": "ncu-report", "tool": "Nsight Compute", "version": None}
    for kernel, action in zip(trace.kernels.itertuples(), actions, strict=True):
        assert kernel.name == action.name(library.IAction.NameBase_DEMANGLED)
        assert kernel.duration_ns == action["gpu__time_duration.sum"].value()
        assert kernel.grid == ",".join(str(int(action[f"launch__grid_dim_{axis}"].value())) for axis in "xyz")
        assert kernel.registers == action["launch__registers_per_thread"].value()
    metrics = trace.metrics.set_index("metric")
    for metric in (
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "launch__thread_count",
        "launch__waves_per_multiprocessor",
    ):
        assert metrics.loc[metric, "value"] == actions[0][metric].value()
    named = actions[0]["device__attribute_display_name"].value()
    assert trace.info["devices"] == [
        {
            "device": "cuda:0",
            "name": named,
            "compute_capability": "8.6",
            "multiprocessors": actions[0]["device__attribute_multiprocessor_count"].value(),
        }
    ]
    assert not trace.diagnostics


def test_rules_of_a_report_are_told_without_their_links(library):
    occupancy, grid = (rule["text"] for rule in ks.read(public(ADD)).info["rules"])
    assert occupancy.startswith("This kernel's theoretical occupancy is not impacted by any block limit.")
    assert occupancy.endswith("See the CUDA Best Practices Guide for more details on optimizing occupancy.")
    assert grid.endswith("only 0.7 full waves across all SMs. Look at Launch Statistics for more details.")


def test_advice_on_reports(library):
    small, tiled = (advise(public(name))["advice"] for name in (ADD, PRODUCT))
    assert "its grid is too small" in small[0]["title"]
    assert any("keeps the L1 cache busy, 83% of its peak" in finding["title"] for finding in tiled)


def test_a_damaged_report_is_refused_in_one_line(library, tmp_path):
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(b"NVR\0" + b"\xff" * 400)
    with pytest.raises(EvidenceError, match=r"cut\.ncu-rep: ") as refused:
        ks.read(path)
    assert "\n" not in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_a_library_that_crashes_is_named(monkeypatch, tmp_path):
    (tmp_path / "crash.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(b"NVR\0")
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {tmp_path}/crash.py\n")
    program.chmod(0o755)
    monkeypatch.setattr(ncu_library, "version", lambda: "2026.3.1")
    monkeypatch.setattr(ncu_library.sys, "executable", str(program))
    with pytest.raises(EvidenceError, match=r"a\.ncu-rep: ncu-report 2026\.3\.1 ended by signal 11 on it; use a release"):
        ks.read(path)
