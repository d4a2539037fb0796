"""Lists of the rows that take longest: what is too short for one side's list is unknown there, not absent."""

import kernelscope as ks
from kernelscope.reports import explanation
from tests.analysis.formats.torch_table.made import printed

HEAD = "### top ops by self device time\n\n| op | calls | self cpu ms | self device ms |\n|---|---|---|---|\n"
VIEW = ("aten::view", 100, 0.5, 0.0)  # a whole table also lists operators that launch nothing
A = [("aten::_linalg_svd", 17, 3.1, 37.71), ("aten::sum", 262, 1.8, 2.52), ("aten::mul", 594, 3.1, 1.51)]
B = [
    ("aten::mm", 181, 2.6, 1.14),
    ("aten::mul", 657, 3.1, 1.03),
    ("aten::sum", 162, 1.0, 0.91),
    ("aten::randperm", 36, 0.5, 0.77),
]


def explained(tmp_path, *sides):
    paths = []
    for name, rows in zip("ab", sides, strict=True):
        paths.append(tmp_path / f"{name}.md")
        paths[-1].write_text(HEAD + "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows))
    return ks.explain(*paths)


def test_what_is_too_short_for_the_other_list_is_not_compared(tmp_path):
    result = explained(tmp_path, A, B)
    assert result["differs"] == []
    parts = {one["part"]: one["delta_ns"] for one in result["parts"]}
    assert parts["(in rows that one side did not print)"] == 1_910_000
    assert not {"gemm", "random"} & set(parts)
    (first,) = result["findings"]
    assert first["title"].startswith("only A prints operators (aten::_linalg_svd): 37.7 ms")
    assert "B: none among the rows that it prints." in first["evidence"]


def test_sums_of_what_is_printed_are_marked(tmp_path):
    result = explained(tmp_path, A, B)
    assert explanation.answer(result).startswith("Printed operators of B add up to 37.89 ms less")
    assert any("no sum tells how much the others take" in gap for gap in explanation.gaps(result))


def test_whole_tables_are_compared(tmp_path):
    result = explained(tmp_path, [*A, VIEW], [*B, VIEW])
    assert {"gemm", "random"} <= {one["part"] for one in result["parts"]}
    assert explanation.answer(result).startswith("Operators of B add up to")


def test_equal_lists_get_no_cause(tmp_path):
    assert explained(tmp_path, A, A)["findings"] == []


# --- lists whose sum tells how much was not printed ---------------------------------------------------------------------------

FUSED = "fmha_cutlassB_bf16_aligned_64x64_k64_seqaligned_sm80(PyTorchMemEffAttention::Params)"
SHARED = "void at::native::unrolled_elementwise_kernel<at::native::copy_kernel>(int)"
PRODUCT = "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(int)"
TABLE = ["Name", "Self CPU", "CPU total", "Self CUDA", "CUDA total", "# of Calls"]


def of_attention(tmp_path, often=9660):
    """A computes attention in a fused kernel, B in products; both execute much the same elementwise kernels besides."""

    def of(name, host, device, calls):
        return (name, host, host, f"{device:.3f}ms", f"{device:.3f}ms", str(calls))

    a = [
        of("aten::_efficient_attention_backward", "10.000ms", 19, 600),
        of(SHARED, "0.000us", 80, 8460),
        of(FUSED, "0.000us", 19, 600),
    ]
    b = [of("aten::bmm", "9.000ms", 45, 3600), of(SHARED, "0.000us", 95, often), of(PRODUCT, "0.000us", 45, 2400)]
    paths = []
    for name, rows, whole in (("a", a, 160), ("b", b, 210)):
        paths.append(tmp_path / f"{name}.txt")
        paths[-1].write_text(printed(TABLE, rows, ["Self CPU time total: 30.000ms", f"Self CUDA time total: {whole}.000ms"]))
    return ks.explain(*paths)


def test_what_both_sides_mostly_execute_is_no_part_of_attention(tmp_path):
    first = next(one for one in of_attention(tmp_path)["findings"] if one["cause"] == "attention algorithm")
    assert first["title"].startswith("attention: A computes it in one fused (memory-efficient) kernel, B by products")
    assert first["title"].endswith("19.0 ms in A, 45.0 ms in B")


def test_what_one_side_executes_far_more_often_may_be_attention_s(tmp_path):
    first = next(one for one in of_attention(tmp_path, 20_000)["findings"] if one["cause"] == "attention algorithm")
    assert first["title"].endswith("99.0 ms in A, 140 ms in B")
