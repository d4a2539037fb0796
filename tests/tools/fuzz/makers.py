"""Small seeds for formats of which no capture is at hand: what the tests of their readers make."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[3]
RANK = ROOT / "tests" / "data" / "ranks" / "work_rank0.json.gz"
ANSWERS = (
    {"event": "ready", "pid": 4242, "version": "2.4"},
    {"event": "warm", "steps": 12, "settled": True},
    {"event": "window", "window": 0, "step_ns": [5_000_000, 5_100_000]},
    {"event": "replay", "window": 1, "start_ns": 10, "end_ns": 30, "step_ns": [9, 11]},
    {"event": "cannot replay", "reason": "it is not called in a step"},
    {"event": "error", "kind": "import", "message": "No module named 'torch'"},
)  # what a child writes into its pipe


def archives() -> Iterator[bytes]:
    """Yield archives of a small run folder in each form that is unpacked."""
    folder = ROOT / "tests" / "data" / "onnxruntime" / "lenet-infer"
    with TemporaryDirectory() as name:
        for form in ("zip", "tar", "gztar", "xztar"):
            packed = shutil.make_archive(str(Path(name) / form), form, folder.parent, folder.name)
            yield Path(packed).read_bytes()


def rank_index() -> bytes:
    """Return the index of a rank's summaries."""
    from kernelscope.analysis.ranks import summaries

    with TemporaryDirectory() as name:
        summaries.summarise(str(RANK), name)
        (index,) = (path for path in Path(name).glob("*.json") if "-" not in path.name)
        return index.read_bytes()


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of small captures."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    yield from _texts()
    yield from _traces()
    with TemporaryDirectory() as name:
        yield from _databases(Path(name))


def _texts() -> Iterator[tuple[str, bytes]]:
    from tests.analysis.formats.cprofile import test_text as cprofile
    from tests.analysis.formats.mxnet import test_printed as mxnet
    from tests.analysis.formats.ncu import pages, test_sections
    from tests.analysis.formats.nsys import test_quoted_stats as nsys
    from tests.analysis.formats.nvprof import test_quoted as nvprof
    from tests.analysis.formats.rocm import test_csv as rocprof
    from tests.analysis.formats.rocm import test_summary as summary
    from tests.analysis.formats.tensorflow import test_tfprof as tfprof
    from tests.analysis.formats.tensorrt import profiles as tensorrt

    yield "ncu-text", test_sections.PRINTED.encode()
    launches = [
        pages.launch("void gemm<float>(float*, int)", pages.speed("2.98", 50, 60, 30, 20), pages.occupancy(100, 80)),
        pages.launch("add(int)", pages.launched(32), pages.rule("OPT", "This kernel is small.", "Launch more.")),
    ]
    yield "ncu-text of two launches", "\n".join(launches).encode()
    yield "tensorrt-profile", tensorrt.exported().encode()
    yield "tensorrt-profile, cut", tensorrt.exported(most=3).encode()
    for version in (7, 8, 10):
        yield f"tensorrt-table of version {version}", tensorrt.table(version=version).encode()
    yield "tensorrt-table of samples", tensorrt.of_samples().encode()
    yield "tensorrt-table of first samples", tensorrt.of_first_samples().encode()
    yield "tfprof by type", tfprof.HALF.encode()
    yield "tfprof by name", tfprof.TREE.encode()
    yield "ncu-text without sections", test_sections.bare(pages.speed("2.98", 50, 60, 30, 20) * 2).encode()
    yield "cprofile", cprofile.POSTED.encode()
    yield "nsys-stats of 2020", nsys.OF_2020.encode()
    yield "nsys-stats without columns", nsys.CUT.encode()
    yield "nsys-stats as Markdown", nsys.BARE.encode()
    yield "nvprof-table without titles", nvprof.ROW.format(share="40.00%", time="**3.0000ms**", each="12.000us").encode()
    yield "rocprof-summary", summary.table(summary.DOMAINS).encode()
    yield "mxnet-table", (mxnet.statistics() + mxnet.section("my domain", mxnet.OWN)).encode()
    for name in ("V3_KERNELS", "V3_OLD", "CONVERTED", "V1", "V2", "COUNTERS", "COPIES", "HOST", "MEMORY"):
        yield f"rocprof-csv {name}", getattr(rocprof, name).encode()


def _traces() -> Iterator[tuple[str, bytes]]:
    from tests.analysis.formats.horovod import test_trace as horovod
    from tests.analysis.formats.onnxruntime import profiles as onnxruntime
    from tests.analysis.formats.perfetto import test_trace as perfetto
    from tests.analysis.formats.rocm import test_sdk_json as rocprof
    from tests.analysis.formats.trace_viewer import test_trace as viewer

    yield "horovod", ("[\n" + ",\n".join(map(json.dumps, horovod.events(3))) + "]").encode()
    yield "onnxruntime of a GPU", onnxruntime.text(onnxruntime.cuda(3)).encode()
    yield "trace-viewer", json.dumps({**viewer.HEAD, "traceEvents": [*viewer.gpu(), {}]}).encode()
    yield "rocprof-json", json.dumps({"rocprofiler-sdk-tool": [rocprof.process(), rocprof.process(80)]}).encode()
    writer = perfetto.Writer()
    writer.thread(5, 42, "worker")
    writer.track(6, "stream 7", 5)
    perfetto.interned(writer, {1: "outer"}, {9: "db"})
    for place in range(4):
        writer.slice(5, 100 * place, 100 * place + 90, "step")
        writer.slice(6, 100 * place + 10, 100 * place + 50, "gemm", "gpu")
    writer.packet(170).track_event.type = perfetto.COUNTER
    yield "perfetto", writer.trace.SerializeToString()


def _databases(folder: Path) -> Iterator[tuple[str, bytes]]:
    from tests.analysis.formats.rocm import test_rocpd as rocpd

    for name, script in (("third", rocpd.V3.format(id=rocpd.ID)), ("second", rocpd.RPD)):
        yield f"rocpd, {name} schema", rocpd.written(folder / name, "PRAGMA page_size = 512;" + script).read_bytes()
