"""Kernels that share a name because the table cut it are paired by their executions, and never averaged together."""

import pytest

import kernelscope as ks
from tests.analysis.formats.torch_table.made import NEW, printed

GEMM = "ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_stages_3..."
ON_DEVICE = NEW[:11]


def operator(name, calls, host="1.000ms"):
    return (name, "1%", host, "1%", host, "1.000us", "0.000us", "0%", "0.000us", "0.000us", str(calls))


def kernel(name, ms, count):
    return (name, "0%", "0.000us", "0%", "0.000us", "0.000us", f"{ms:.3f}ms", "1%", f"{ms:.3f}ms", "1.000us", str(count))


@pytest.fixture
def explained(tmp_path):
    def run(*sides, totals=(None, None)):
        paths = []
        for name, rows, total in zip("ab", sides, totals, strict=True):
            whole = total or sum(float(one[6][:-2]) for one in rows if one[6].endswith("ms"))
            paths.append(tmp_path / f"{name}.txt")
            paths[-1].write_text(printed(ON_DEVICE, rows, [f"Self CUDA time total: {whole:.3f}ms"], width=12))
        return ks.explain(*paths)

    return run


def test_kernels_of_one_cut_name_are_paired_by_their_executions(explained):
    """Both are as fast as before; one side executes a third one, which is far longer."""
    before = [kernel(GEMM, 53.4, 3020), kernel(GEMM, 25.4, 620), kernel("ampere_sgemm_64x64_nn", 30, 100)]
    result = explained(before, [*before, kernel(GEMM, 15.0, 20)])
    (found,) = result["findings"]
    assert found["explains_ns"] == 15_000_000
    assert "(several kernels) +15.0 ms) take more time in B than in A: 109 ms in A, 124 ms in B" in found["title"]
    assert "One execution takes on average" not in " ".join(found["evidence"])
    names = [row["name"] for row in result["rows"]]
    assert f"{GEMM} (3,020 executions)" in names
    assert f"{GEMM} (620 executions)" in names


def test_a_kernel_of_a_cut_name_that_takes_longer_is_told(explained):
    before = [kernel(GEMM, 53.4, 3020), kernel(GEMM, 25.4, 620)]
    (found,) = explained(before, [kernel(GEMM, 106.8, 3020), kernel(GEMM, 25.4, 620)])["findings"]
    assert found["explains_ns"] == 53_400_000
    assert "as in A" in found["title"] or "take longer in B" in found["title"]


def test_kernels_that_executions_do_not_pair_have_no_mean_execution(explained):
    before = [kernel(GEMM, 50, 300), kernel(GEMM, 10, 7)]
    (found,) = explained(before, [kernel(GEMM, 90, 310), kernel(GEMM, 30, 8), kernel(GEMM, 5, 9)])["findings"]
    assert found["explains_ns"] == 65_000_000
    assert "takes longer" not in found["title"]
    assert "take longer" not in found["title"]
    assert "(several kernels)" in found["title"]
    said = " ".join([*found["evidence"], found["remedy"]]).lower()
    assert "one execution takes" not in said
    assert "max_name_column_width" in found["remedy"]


def test_as_few_executions_are_no_pair_by_chance(explained):
    before = [kernel(GEMM, 50, 2), kernel(GEMM, 10, 4)]
    result = explained(before, [kernel(GEMM, 12, 2), kernel(GEMM, 60, 4)])
    assert not any("times as long" in one["title"] for one in result["findings"])


def test_one_kernel_of_a_cut_name_on_each_side_is_the_same(explained):
    (found,) = explained([kernel(GEMM, 50, 300)], [kernel(GEMM, 90, 300)])["findings"]
    assert found["explains_ns"] == 40_000_000
    assert "(several kernels)" not in found["title"]


def test_equal_tables_of_cut_names_get_no_cause(explained):
    work = [kernel(GEMM, 50, 12), kernel(GEMM, 49, 12), kernel(GEMM, 10, 7)]
    result = explained(work, work)
    assert result["findings"] == []
    assert result["wall_delta_ns"] == 0


# --- attention whose softmax was not printed ------------------------------------------------------------------------------------

COMMON = [operator("aten::mm", 12_660), kernel("ampere_sgemm_128x64_nn", 400, 7000)]
FUSED = [operator("aten::scaled_dot_product_attention", 600), kernel("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", 20, 600)]
BATCHED = [operator("aten::bmm", 1200), kernel("_ZN7cutlass7Kernel2I67cutlass_80_wmma_tensorop_bf16_...", 60, 1200)]


def test_operators_tell_attention_by_products_where_the_softmax_was_not_printed(explained):
    result = explained([*COMMON, *FUSED], [*COMMON, *BATCHED], totals=(430, 500))
    found = next(one for one in result["findings"] if one["cause"] == "attention algorithm")
    assert found["explains_ns"] == 40_000_000
    assert "scaled_dot_product_attention" in found["remedy"]
    assert (
        "Operators tell it, A: aten::scaled_dot_product_attention (600 calls); B: aten::bmm (1,200 calls); a softmax is not "
        "among the rows that were printed." in found["evidence"]
    )


@pytest.mark.parametrize(
    ("a", "b", "total"),
    [
        ([*FUSED, operator("aten::bmm", 1200)], BATCHED, 500),  # products on both sides
        (FUSED, [operator("aten::bmm", 600), *BATCHED[1:]], 500),  # too few products
        (FUSED[1:], BATCHED, 500),  # nothing tells that these kernels are called as attention
        (FUSED, BATCHED, None),  # all was printed, and no softmax
    ],
    ids=["products on both", "too few", "no operator", "all printed"],
)
def test_other_products_are_no_attention(explained, a, b, total):
    result = explained([*COMMON, *a], [*COMMON, *b], totals=(430, total))
    assert not any(one["cause"] == "attention algorithm" for one in result["findings"])
