"""Tables that count in two ways are compared by operators, where both tell these operators' own times on the device."""

import pytest

import kernelscope as ks
from tests.analysis.formats.torch_table.made import printed

HEAD = ["Name", "Self CPU", "CPU total", "Self CUDA", "CUDA total", "# of Calls"]


def operator(name, ms, calls):
    return (name, "1.000ms", "1.000ms", f"{ms:.3f}ms", f"{ms:.3f}ms", str(calls))


def kernel(name, ms, calls):
    return (name, "0.000us", "0.000us", f"{ms:.3f}ms", f"{ms:.3f}ms", str(calls))


A = [operator("aten::convolution_backward", 18, 402), operator("aten::copy_", 15.8, 410), operator("aten::sum", 14.7, 804)]
B = [operator("aten::addmm", 16, 201), operator("aten::copy_", 14.6, 404)]
KERNELS = [kernel("Cijk_Alik_Bljk_SB_MT64x64x32", 15.6, 201), kernel("CopyHostToDevice", 14.6, 402)]


def explained(tmp_path, *sides):
    paths = []
    for name, (rows, whole) in zip("ab", sides, strict=True):
        paths.append(tmp_path / f"{name}.txt")
        paths[-1].write_text(printed(HEAD, rows, ["Self CPU time total: 50.000ms", f"Self CUDA time total: {whole:.3f}ms"]))
    result = ks.explain(*paths)
    assert sum(row["delta_ns"] for row in result["rows"]) == result["wall_delta_ns"]
    return result


def test_operators_own_times_are_compared_where_one_table_counts_kernels(tmp_path):
    result = explained(tmp_path, (A, 60.0), ([*B, *KERNELS], 32.0))
    assert result["abstained"] is None
    parts = {one["part"]: one["delta_ns"] for one in result["parts"]}
    assert parts["convolution data gradient"] == -18_000_000
    assert parts["copy"] == pytest.approx(-1_200_000)


def test_without_operators_own_times_tables_are_not_compared(tmp_path):
    result = explained(tmp_path, (A, 60.0), (KERNELS, 45.0))
    assert result["findings"] == []
    assert result["abstained"].endswith("and rows were not printed, so their rows cannot be compared")
