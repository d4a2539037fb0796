"""One side computes on the CPU, the other on an accelerator: that is said first, and nothing is told as if both had a device."""

from dataclasses import replace

import pytest

import kernelscope as ks
from kernelscope.analysis.explain import device
from kernelscope.reports import explanation
from tests.analysis.explain.device.synthetic import Copy, Host, Kernel, Wait, assert_named, causes, explained, recording

WORK = [Kernel(f"gemm_{number}", 1000, "gemm", operator="aten::mm") for number in range(10)]
ON_CPU = [replace(kernel, us=5 * kernel.us, device="cpu", launched=False) for kernel in WORK]
DEVICE = [Copy(3000, bytes=40_000_000), Wait(), Host(30_000, call="cudaDeviceSynchronize"), *WORK]


def sides(hardware="NVIDIA A100-SXM4-40GB"):
    cpu = recording(ON_CPU, 1, marked=False)
    cpu.info["devices"] = []
    return cpu, recording(DEVICE, 1, marked=False, hardware=hardware)


def test_what_each_side_computes_on_is_said_first():
    said = explained(*sides())
    assert said["devices"] == "A computes on the CPU, B on cuda:0 (NVIDIA A100-SXM4-40GB)"
    assert explanation.warnings(said)[0] == said["devices"]


def test_nothing_is_told_as_if_both_had_a_device():
    said = explained(*sides())
    assert "synchronisation" not in causes(said)
    assert causes(said)["copies between host and device"] == pytest.approx(3.0)
    titles = [one["title"] for one in said["findings"]]
    assert any("the CPU and needs none" in title for title in titles), titles
    assert any("nothing runs on the CPU" in title and "nothing on cuda:0" in title for title in titles), titles
    assert any("gemm kernels" in title and title.startswith("other hardware") for title in titles), titles


@pytest.mark.parametrize("change", ["idle", "copies"])
def test_two_accelerators_are_told_as_such(change):
    more = {"idle": [Host(3000, call="cudaStreamSynchronize")], "copies": [Copy(3000, bytes=40_000_000)]}[change]
    said = explained(recording([*WORK, Wait(), Host(300)]), recording([*more, *WORK, Wait(), Host(300)]))
    assert said["devices"] is None
    assert not any("CPU" in one["title"] for one in said["findings"])
    assert_named(said, {"idle": "synchronisation", "copies": "copies between host and device"}[change], 3.0)


@pytest.mark.parametrize(("ms", "named"), [(3.819, False), (4.2, True)])
def test_processors_vary_more_than_gpus(tmp_path, ms, named):
    """Two processes of one program differ by up to 5% on processors."""
    paths = []
    for side, took in (("a", 3.703), ("b", ms)):
        line = "onednn_verbose,v1,primitive,exec,cpu,matmul,brg:avx512_core,undef,src:f32::blocked:ab::f0 \
wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,,,512x512:512x512"
        paths.append(tmp_path / f"{side}.log")
        paths[-1].write_text("onednn_verbose,v1,info,oneDNN v3.7.0\n" + f"{line},{took}\n")
    assert bool(ks.explain(*paths)["findings"]) is named


def test_timelines_of_processors_without_layers_are_explained_by_kernels():
    plain = [replace(kernel, operator=None) for kernel in ON_CPU]
    slower = [replace(kernel, us=4 * kernel.us) for kernel in plain]
    a, b = (recording([*items, Wait(), Host(200)], 3) for items in (plain, slower))
    assert device.applies(a, b)
    (first,) = explained(a, b)["findings"]
    assert first["title"].startswith("all kernels take 4.00 times as long in B, of every kind: fewer threads")
    assert "nvidia" not in first["remedy"]
    a.kernels["layer"] = "conv1"
    assert not device.applies(a, b), "layers explain more"


def test_a_timeline_is_compared_with_a_sum_of_durations_as_such(tmp_path):
    """A span has gaps; a sum has none."""
    line = "primitive,exec,cpu,matmul,brg:avx512_core,undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 \
dst:f32::blocked:ab::f0,,,512x512:512x512"
    timed, summed = tmp_path / "timed.log", tmp_path / "summed.log"
    timed.write_text("".join(f"onednn_verbose,v1,{1_700_000_000_000 + 100 * number}.5,{line},4.0\n" for number in range(5)))
    summed.write_text(f"onednn_verbose,v1,{line},6.0\n" * 5)
    result = ks.explain(timed, summed)
    assert result["a"]["step_ns"] == 20_000_000
    assert result["wall_delta_ns"] == 10_000_000
    assert [one["explains_ns"] for one in result["findings"]] == [10_000_000]


def test_reference_code_of_the_library_is_named_as_such(tmp_path):
    line = "onednn_verbose,v1,primitive,exec,cpu,reorder,{code},undef,src:f32::blocked:ab::f0 dst:{to}::blocked:ab::f0,\
{zero},,512x512,{ms}"
    a, b = tmp_path / "a.log", tmp_path / "b.log"
    a.write_text(line.format(code="simple:any", to="u8", zero="attr-zero-points:dst:0:s32", ms=0.584) + "\n")
    b.write_text(line.format(code="jit:uni", to="s8", zero="", ms=0.008) + "\n")
    (first,) = ks.explain(a, b)["findings"]
    assert first["remedy"].startswith("in A, reorder simple:any is the library's reference code")
    (first,) = ks.explain(b, a)["findings"]
    assert first["remedy"].startswith("in B, reorder simple:any")


def test_peaks_that_are_needed_are_told_as_such():
    sentences = [sentence for one in explained(*sides())["findings"] for sentence in one["evidence"]]
    assert "How much faster one of these devices can be is unknown: the peaks of both are needed." in sentences
