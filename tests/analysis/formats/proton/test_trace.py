"""Proton's trees: every frame with a time is a kernel, and the frames around it are its layer."""

import json

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats import detect
from kernelscope.analysis.recordings import captures
from tests import places

CORPUS = places.CORPUS / "more"


def frame(name, *children, **metrics):
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}


def kernel(name, ns, count=1, **more):
    return frame(name, count=count, device_id="0", device_type="CUDA", **{"time (ns)": ns}, **more)


DEVICES = {"CUDA": {"0": {"arch": "90", "bus_width": 5120, "clock_rate": 1, "memory_clock_rate": 1, "num_sms": 132}}}


def written(path, tree, devices=DEVICES):
    path.write_text(json.dumps([tree, devices]))
    return path


def test_kernels_scopes_and_devices(tmp_path):
    hook = frame("__proton_launch_metadata", kernel("count_rows", 5))
    inner = frame("attention", kernel("flash_fwd", 300, 2, flops=1e9), hook, flops=7.0)
    root = frame("ROOT", frame("layer0", inner), kernel("gemm", 1000.0), **{"time (ns)": 0, "count": 0})
    trace = captures.read(written(tmp_path / "a.hatchet", root))
    assert detect(tmp_path / "a.hatchet").name == "proton"
    assert trace.kernels[["name", "duration_ns", "count", "device"]].values.tolist() == [
        ["flash_fwd", 300, 2, "cuda:0"],
        ["count_rows", 5, 1, "cuda:0"],
        ["gemm", 1000, 1, "cuda:0"],
    ]
    layers = ["layer0/attention", "layer0/attention/__proton_launch_metadata"]
    assert trace.kernels["layer"].tolist()[:2] == layers
    assert trace.kernels["layer"].isna().tolist() == [False, False, True]
    assert trace.kernels["start_ns"].isna().all()
    assert trace.info["devices"] == [{"device": "cuda:0", "name": None, "compute_capability": "9.0", "core_count": 132}]
    assert any("flops 2" in note for note in trace.info["notes"])
    assert any("__proton_launch_metadata" in note for note in trace.info["notes"])


def test_scopes_timed_on_the_host_are_totals(tmp_path):
    root = frame("ROOT", frame("load", kernel("k", 3), **{"cpu_time (ns)": 500}))
    trace = captures.read(written(tmp_path / "a.hatchet", root))
    assert trace.totals[["table", "name", "duration_ns"]].values.tolist() == [["ranges", "load", 500]]


def test_what_is_no_time_is_counted_and_nothing_at_all_is_refused(tmp_path):
    root = frame("ROOT", kernel("a", -5), kernel("b", 5, count=None), kernel("c", 7))
    trace = captures.read(written(tmp_path / "a.hatchet", root))
    assert trace.diagnostics == {"frames with a time or a count that is none": 2}
    with pytest.raises(EvidenceError, match=r"no frame has a time on a device \(its metrics: num_samples"):
        captures.read(written(tmp_path / "b.hatchet", frame("ROOT", frame("k", num_samples=3))))
    (tmp_path / "c.hatchet").write_text(json.dumps([root, DEVICES])[:-30])
    with pytest.raises(EvidenceError, match="cut short"):
        captures.read(tmp_path / "c.hatchet")


def test_the_real_profile():
    path = CORPUS / "CRobeck__triton__proton.hatchet"
    if not path.exists():
        pytest.skip("the captures of others are not here")
    trace = captures.read(path)
    told = json.loads(path.read_text())[0]["children"][0]
    metrics = told["children"][0]["metrics"]
    assert trace.kernels["duration_ns"].sum() == metrics["time (ns)"]
    assert trace.kernels["layer"].tolist() == [told["frame"]["name"]]
    assert trace.kernels["device"].tolist() == ["rocm:0"]
