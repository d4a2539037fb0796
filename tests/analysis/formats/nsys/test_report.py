"""Reports: told by their beginning, exported by an installed nsys, and what is said without one."""

import os
import stat
import sys

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.nsys import report as nsys_report
from kernelscope.nsys_wrappers import find
from tests.places import CORPUS

NEW = b"NVIDIA Tegra Profiler Report 2025@5@1@121-255136380782v0.\n\x0bLocal (CLI)"
OLD = b"NVIDIA Tegra Profiler Report 1.\n\x0bLocal (CLI)"
STREAM = b"U3w[END]NVIDIA Nsight Systems Stream 2022.4.2.1-df9881f!\n"
FAKE = """#!{python}
import pathlib, shutil, sys
if "--version" in sys.argv:
    print("NVIDIA Nsight Systems version {version}-abcdef")
else:
    source = pathlib.Path(sys.argv[-1]).read_bytes()
    output = sys.argv[sys.argv.index("--output") + 1]
    {action}
"""


@pytest.fixture
def no_nsys(monkeypatch):
    monkeypatch.setattr(find, "_places", lambda name: iter(()))


def fake_nsys(folder, monkeypatch, action, version="2025.6.1.5"):
    """Put a program in nsys's place."""
    folder.mkdir(exist_ok=True)
    program = folder / "nsys"
    program.write_text(FAKE.format(python=sys.executable, action=action, version=version))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(find, "_places", lambda name: iter([(str(program), "PATH")]))
    return program


def test_reports_and_streams_are_told_by_their_beginning(tmp_path):
    for content, expected in (
        (NEW, True),
        (OLD, True),
        (STREAM, True),
        (b"NVIDIA", False),
        (b"text NVIDIA Tegra Profiler Report", False),
    ):
        (tmp_path / "x").write_bytes(content)
        assert nsys_report.matches(read_head(tmp_path / "x")) is expected


def test_only_reports_of_the_corpus_are_taken():
    if not CORPUS.exists():
        pytest.skip("telling recorded files apart needs ../shared/corpus")
    files = [path for path in CORPUS.rglob("*") if path.is_file() and path.stat().st_size]
    found = {path for path in files if nsys_report.matches(read_head(path))}
    assert found == {path for path in files if path.suffix in (".nsys-rep", ".qdrep")}


@pytest.mark.parametrize(
    ("name", "content", "needed"),
    [
        ("new.nsys-rep", NEW, "nsys 2025.5.1 or later: nsys export --type sqlite new.nsys-rep"),
        ("old.qdrep", OLD + b"/opt/nvidia/nsight-systems-cli/2021.1.1/target", "nsys 2021.1.1 or later"),
        ("old.nsys-rep", OLD + b"@/usr/local/cuda-11.8/NsightSystems-cli-2022.4.2/target", "nsys 2022.4.2 or later"),
        ("silent.qdrep", OLD, "an nsys at least as new as the one that recorded it"),
        ("x.qdstrm", STREAM, "nsys 2022.4.2 or later: QdstrmImporter -i x.qdstrm, then nsys export --type sqlite x.nsys-rep"),
    ],
)
def test_without_nsys_it_says_what_is_needed(tmp_path, no_nsys, name, content, needed):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(EvidenceError) as caught:
        nsys_report.read(path)
    assert str(caught.value) == str(caught.value).splitlines()[0]
    assert str(caught.value).startswith(f"{path}: ")
    assert "none is installed" in str(caught.value)
    assert needed in str(caught.value)


COPY = "shutil.copy({!r}, output)"


def test_what_nsys_exports_is_read(tmp_path, monkeypatch):
    export = CORPUS / "nsys/zx3xyy__assignment2-systems__result_2_7B_nvtx.sqlite"
    if not export.exists():
        pytest.skip("a recorded export needs ../shared/corpus")
    fake_nsys(tmp_path / "bin", monkeypatch, COPY.format(str(export)))
    report = tmp_path / "a report; $(touch x) --output.nsys-rep"
    report.write_bytes(NEW)
    trace = nsys_report.read(report)
    assert len(trace.kernels) == 7328
    assert trace.info["source"] == {
        "format": "nsys-report", "tool": "nsys", "version": "2024.6.2", "schema": "3.16.1", "recorded_with": "2025.5.1"
    }  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == [report.name, "bin"]


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (
            "print('Processing 5 events: [1%  ]\\r[99%]\\nExportation error: \\x1b[31mwrong\\x07\\nmore')",
            "Exportation error: wrong",
        ),
        ("print(b'x' * 5000000); sys.exit(1)", "did not export it: xxxx"),
        ("pass", "it printed nothing"),
        ("open(output, 'w').write('no database')", "not a SQLite file"),
        ("open(output, 'w')", "did not export it"),
    ],
)
def test_what_nsys_fails_with_is_one_line(tmp_path, monkeypatch, action, told):
    fake_nsys(tmp_path / "bin", monkeypatch, action)
    path = tmp_path / "x.nsys-rep"
    path.write_bytes(NEW)
    with pytest.raises(EvidenceError) as caught:
        nsys_report.read(path)
    message = str(caught.value)
    assert told in message
    assert len(message) < 1000
    assert message.isprintable()


def test_an_nsys_that_hangs_is_ended(tmp_path, monkeypatch):
    fake_nsys(tmp_path / "bin", monkeypatch, "import time; time.sleep(600)")
    monkeypatch.setattr("kernelscope.nsys_wrappers.export._START_S", 0.5)
    (tmp_path / "x.nsys-rep").write_bytes(NEW)
    with pytest.raises(EvidenceError, match="nsys did not finish within"):
        nsys_report.read(tmp_path / "x.nsys-rep")


def test_a_stream_needs_the_importer(tmp_path, monkeypatch):
    fake_nsys(tmp_path / "bin", monkeypatch, "pass")
    (tmp_path / "x.qdstrm").write_bytes(STREAM)
    with pytest.raises(EvidenceError, match="has no QdstrmImporter"):
        nsys_report.read(tmp_path / "x.qdstrm")
    importer = tmp_path / "host-linux-x64/QdstrmImporter"
    importer.parent.mkdir()
    importer.write_text('#!/bin/sh\necho "$@" error: no\n')
    importer.chmod(0o755)
    with pytest.raises(EvidenceError, match=r"QdstrmImporter of nsys 2025.6.1.5 did not read it: -i .*x.qdstrm -o .*error: no"):
        nsys_report.read(tmp_path / "x.qdstrm")


def test_recorded_reports_through_a_real_nsys():
    tool = find.find("nsys")
    if tool is None:
        pytest.skip("exporting real reports needs Nsight Systems")
    report = CORPUS / "nsys/YoonKyonghwan__EfficientCenterFormer__baseline.nsys-rep"
    if not report.exists():
        pytest.skip("recorded reports need ../shared/corpus")
    if tool.release < (2022, 4, 2):
        pytest.skip(f"nsys {tool.version} is older than the report")
    before = sorted(os.listdir(report.parent))
    trace = nsys_report.read(report)
    assert len(trace.ranges) == 1824
    assert trace.info["source"]["recorded_with"] == "2022.4.2"
    assert sorted(os.listdir(report.parent)) == before


# --- an nsys that is too old, and exports without the device's work -----------------------------------------------------

STUB = "import sqlite3; d = sqlite3.connect(output); d.execute('CREATE TABLE StringIds (id, value)'); d.commit()"
RECORDED = CORPUS / "nsys/zx3xyy__assignment2-systems__result_2_7B_nvtx.sqlite"


@pytest.mark.parametrize(
    ("content", "printed", "told"),
    [
        (NEW, "no", "it was recorded by nsys 2025.5.1; export it with nsys 2025.5.1 or later: nsys export"),
        (
            OLD,
            "Exportation error: Version number is invalid: 2026@1@2@121-255136380782v0",
            "it was recorded by nsys 2026.1.2; export it with nsys 2026.1.2 or later: nsys export",
        ),
        (OLD, "wrong", "copy it again if it is damaged, else export it with an nsys at least as new as the one that"),
    ],
)
def test_what_a_failing_nsys_leaves_is_not_read(tmp_path, monkeypatch, content, printed, told):
    program = fake_nsys(tmp_path / "bin", monkeypatch, f"{STUB}; print({printed!r}); sys.exit(1)", "2022.4.2.1")
    path = tmp_path / "x.nsys-rep"
    path.write_bytes(content)
    with pytest.raises(EvidenceError) as caught:
        nsys_report.read(path)
    assert f"nsys 2022.4.2.1 ({program}) did not export it: {printed}; {told}" in str(caught.value)


def test_an_older_nsys_that_exports_no_work_of_devices_is_refused(tmp_path, monkeypatch):
    fake_nsys(tmp_path / "bin", monkeypatch, STUB, "2022.4.2.1")
    path = tmp_path / "x.nsys-rep"
    path.write_bytes(NEW)
    with pytest.raises(EvidenceError) as caught:
        nsys_report.read(path)
    assert "recorded by nsys 2025.5.1 and exported by nsys 2022.4.2.1" in str(caught.value)
    assert "without any device work; export it with nsys 2025.5.1 or later" in str(caught.value)


def test_what_an_older_nsys_exports_is_doubted(tmp_path, monkeypatch):
    if not RECORDED.exists():
        pytest.skip("a recorded export needs ../shared/corpus")
    path = tmp_path / "x.nsys-rep"
    path.write_bytes(NEW)
    for version, doubted in (("2022.4.2.1", True), ("2025.5.1.121", False)):
        fake_nsys(tmp_path / version, monkeypatch, COPY.format(str(RECORDED)), version)
        warnings = nsys_report.read(path).info.get("warnings", [])
        assert [("events may be missing" in line) for line in warnings] == [True] * doubted


@pytest.mark.parametrize("path", sorted([*CORPUS.glob("nsys/*.nsys-rep"), *CORPUS.glob("nsys/*.qdrep")]), ids=lambda p: p.name)
def test_every_report_of_the_corpus_is_read_or_says_which_nsys_it_needs(path):
    tool = find.find("nsys")
    if tool is None:
        pytest.skip("exporting real reports needs Nsight Systems")
    with path.open("rb") as file:
        readable = tool.release >= (2025, 5, 1) or b"Report 2025@5@1@" not in file.read(100)
    if readable:
        trace = nsys_report.read(path)
        assert len(trace.kernels) or "kernels" in trace.info["unavailable"]
        return
    with pytest.raises(EvidenceError) as caught:
        nsys_report.read(path)
    assert f"nsys {tool.version} ({tool.path}) did not export it" in str(caught.value)
    assert "it was recorded by nsys 2025.5.1; export it with nsys 2025.5.1 or later" in str(caught.value)
