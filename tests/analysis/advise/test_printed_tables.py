"""Advice on tables that tools print: time outside of operators, products on processors, wrappers, types, copies."""

import pytest

import kernelscope as ks
from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.trace import Trace, conform
from tests.analysis.advise.test_totals import ATTENTION, CPU, ELEMENTWISE, on_cpu, pieces, summary
from tests.analysis.formats.torch_table.made import NEW, printed, row

OWN = "most of the time is the program's own, outside of PyTorch's operators"
DISPATCH = "much of the time is Python between many small operators"
BFLOAT16 = "products take most of the time; if they compute in float32, bfloat16 may halve it"
MIXED = "products are computed in 32-bit types"
DOUBLE = "kernels compute in float64"
MIGRATIONS = "kernels wait while pages of unified memory are moved to the device"
BOTH_WAYS = "copy in both directions at once"
FMHA = "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>)"


@pytest.fixture
def table(tmp_path):
    """Advice on a printed table of torch.profiler: all of it."""

    def run(rows, totals=(), heading=NEW):
        path = tmp_path / "table.txt"
        path.write_text(printed(heading, rows, totals))
        return ks.advise(path)

    return run


# A processor's tables


def test_time_outside_of_operators_is_the_program_s_own(table):
    rows = [
        on_cpu("LABEL: masking", "1.293s", "1.502s", "1"), on_cpu("cudaMemcpyAsync", "207.960ms", "207.960ms", "3"),
        on_cpu("aten::addmm", "1.000ms", "1.000ms", "4"),
    ]  # fmt: skip
    result = table(rows, heading=CPU)
    found = pieces(result)[OWN]
    assert found["saves_ns"] == 1_293_000_000
    assert "The table lists 4 calls of operators, so this is " in found["evidence"][1]
    assert "The host copies to or from a device, or waits for it, for 208 ms (14%)." in found["evidence"]
    assert "torch.nonzero" in found["remedy"]
    assert result["longest"] == {"name": "the program's own code", "ns": 1_293_000_000}


def test_short_time_between_many_operators_is_dispatch(table):
    rows = [on_cpu("aten::mm", "12.502ms", "12.502ms", "400"), on_cpu("model", "8.118ms", "30.708ms", "1")]
    found = pieces(table(rows, heading=CPU))
    assert found[DISPATCH]["saves_ns"] == 8_118_000
    assert found[DISPATCH]["remedy"].startswith("torch.compile(model)")
    assert OWN not in found


def test_a_little_time_outside_of_operators_is_no_advice(table):
    rows = [on_cpu("aten::conv2d", "90.000ms", "90.000ms", "400"), on_cpu("model", "8.000ms", "98.000ms", "1")]
    assert not {OWN, DISPATCH} & set(pieces(table(rows, heading=CPU)))


def test_products_on_a_processor_may_be_in_bfloat16(table):
    rows = [on_cpu("aten::addmm", "2.000s", "2.000s", "300"), on_cpu("aten::linear", "3.000ms", "2.010s", "300")]
    found = pieces(table(rows, heading=CPU))[BFLOAT16]
    assert (found["saves_ns"], found["at_most"]) == (1_000_000_000, True)
    assert found["remedy"].startswith("if the processor has bfloat16 instructions")
    assert "aten::linear" not in found["evidence"][0]


@pytest.mark.parametrize(
    "other", [on_cpu("AddmmBackward0", "1.000ms", "1.000ms", "300"), on_cpu("aten::gelu", "3.000s", "3.000s", "300")]
)
def test_no_bfloat16_for_training_nor_where_products_are_a_small_part(table, other):
    assert BFLOAT16 not in pieces(table([on_cpu("aten::addmm", "2.000s", "2.000s", "300"), other], heading=CPU))


def test_tables_of_a_device_get_no_advice_for_processors(table):
    rows = [row("aten::mm", "1.000ms", "1.000ms", "9.000ms", "10"), row("model", "9.000ms", "9.000ms", "0.000us", "1")]
    assert not {OWN, DISPATCH, BFLOAT16} & set(pieces(table(rows)))


# Operators that call others, and attention


@pytest.mark.parametrize(("launches", "fuses"), [("1", False), ("2", True)])
def test_an_operator_that_launches_nothing_is_no_stage_of_a_chain(table, launches, fuses):
    rows = [
        row("aten::square", "1.000ms", "2.000ms", "949.000us", "1"), row("aten::pow", "1.000ms", "1.000ms", "4.489ms", "1"),
        row("cudaLaunchKernel", "10.000us", "10.000us", "0.000us", launches),
    ]  # fmt: skip
    assert (ELEMENTWISE in pieces(table(rows))) == fuses


def test_attention_in_parts_in_compiled_code(table):
    rows = [
        row("aten::bmm", "1.000ms", "1.000ms", "80.000ms", "20"),
        row("triton_red_fused__softmax_14", "0.000us", "0.000us", "48.000ms", "10"),
        row("void gemm<float>(int)", "0.000us", "0.000us", "80.000ms", "20"),
    ]  # fmt: skip
    assert pieces(table(rows))[ATTENTION]["saves_ns"] == 48_000_000


def test_attention_in_parts_though_calls_are_unknown(table):
    heading = ["Name", "Self CPU", "CPU total", "Self CUDA", "CUDA total"]
    rows = [
        ("aten::bmm", "1.000ms", "1.000ms", "3.000ms", "3.000ms"), ("aten::_softmax", "1.000ms", "1.000ms", "2.000ms", "2.000ms"),
    ]  # fmt: skip
    found = pieces(table(rows, heading=heading))
    assert found[ATTENTION]["evidence"][0].startswith("Batched products and softmaxes, as attention needs")
    assert ATTENTION not in pieces(table(rows[1:], heading=heading))


@pytest.mark.parametrize(
    ("name", "found"), [(FMHA, True), (FMHA.replace("sm80", "sm75"), False), (FMHA.replace("f32", "f16"), False)]
)
def test_fused_attention_in_float32(name, found):
    dtype = "f16" if "f16" in name else "f32"
    advised = pieces(summary([(name, "attention", dtype, 500, 80), ("add", "elementwise", None, 5, 20)], framework="pytorch"))
    assert (MIXED in advised) == found
    assert not found or any(
        "flash attention has kernels for float16 and bfloat16 only" in said for said in advised[MIXED]["evidence"]
    )


# Double precision


@pytest.mark.parametrize(
    ("hardware", "said", "at_most"),
    [
        (None, "32 or 64 times the rate on most GeForce", False),
        ("NVIDIA GeForce RTX 3090", "times the peak rate on this device", False),
        ("NVIDIA H100 PCIe", "computed at least twice as fast as float64; only if", True),
    ],
)
def test_what_float64_costs_depends_on_the_device(hardware, said, at_most):
    found = pieces(summary([("mm", "gemm", "f64", 1, 100)], hardware=hardware))[DOUBLE]
    assert said in found["estimate"]
    assert found["at_most"] == at_most


# Copies


def test_pageable_copies_of_a_table_are_to_be_pinned(table):
    result = table([row("Memcpy HtoD (Pageable -> Device)", "0.000us", "0.000us", "10.675s", "3")])
    (found,) = result["advice"]
    assert "pin_memory" in found["remedy"]
    assert "send fewer bytes" in found["remedy"]
    assert "pageable memory" in found["title"]


@pytest.mark.parametrize(("back_ms", "said"), [(900, True), (10, False)])
def test_copies_in_both_directions_can_hide_one_another(back_ms, said):
    copies = [
        {"operation": "host to device", "count": 30, "duration_ns": 1_000_000_000},
        {"operation": "device to host", "count": 30, "duration_ns": back_ms * 1_000_000},
    ]
    (found,) = [one for one in summary([("add", None, None, 30, 10)], copies)["advice"] if one["topic"] == "copies"]
    assert (BOTH_WAYS in found["remedy"]) == said


def of_unified_memory(count, size, calls=()):
    """Advice on totals of a kernel of 85 ms, of moves of unified memory to the device, 49 ms, and of one to the host."""
    move = {"device": "cuda:0", "operation": "unified memory"}
    moves = [
        {**move, "memory": "host to device", "count": count, "duration_ns": 49_000_000, "bytes": count * size},
        {**move, "memory": "device to host", "count": 768, "duration_ns": 11_000_000, "bytes": 768 * 170_000},
    ]
    trace = Trace(
        kernels=conform("kernels", [{"name": "add", "count": 1, "duration_ns": 85_000_000, "device": "cuda:0"}]),
        copies=conform("copies", moves),
        totals=conform("totals", [{"table": "calls", "name": name, "count": 1, "duration_ns": 10} for name in calls]),
    )
    return advice.of_subject(of_trace(trace, "made-up"))


def test_small_moves_of_unified_memory_are_part_of_the_kernel():
    result = of_unified_memory(10_109, 40_000)
    assert result["step_ns"] == 96_000_000
    assert {part["what"]: part["ns"] for part in result["parts"]} == {"computing": 85_000_000, "copying": 11_000_000}
    found = pieces(result)[MIGRATIONS]
    assert found["saves_ns"] == 49_000_000
    assert found["remedy"].startswith("cudaMemPrefetchAsync before the kernel")


@pytest.mark.parametrize(
    ("count", "size", "calls"), [(200, 2_000_000, ()), (10, 40_000, ()), (10_109, 40_000, ("cudaMemPrefetchAsync",))]
)
def test_moves_that_need_not_be_within_a_kernel_count_as_copies(count, size, calls):
    result = of_unified_memory(count, size, calls)
    assert result["step_ns"] == 145_000_000
    assert MIGRATIONS not in pieces(result)


def test_kernels_of_amd_s_runtime_that_copy_are_no_computing():
    result = summary([("__amd_rocclr_copyBuffer.kd", "copy", None, 7000, 60), ("add", "elementwise", "f32", 10, 40)])
    assert {part["what"]: part["ns"] for part in result["parts"]} == {"copying": 60_000_000, "computing": 40_000_000}
    assert result["longest"]["name"] == "add"


@pytest.mark.parametrize(("copies", "told"), [("40.000ms", True), ("4.000ms", False)])
def test_copies_of_a_table_of_operators_are_advice_without_a_guess_at_what_they_copy(tmp_path, copies, told):
    rows = [row("aten::mm", "1.000ms", "1.000ms", "60.000ms", "10"), row("aten::copy_", "1.000ms", "1.000ms", copies, "5")]
    path = tmp_path / "table.txt"
    path.write_text(
        printed(NEW, rows, ("Self CPU time total: 2.000ms", f"Self CUDA time total: {60 + float(copies[:-2]):.3f}ms"))
    )
    found = [one for one in ks.advise(path)["advice"] if one["topic"] == "unknown copies"]
    assert [one["saves_ns"] for one in found] == ([40_000_000] if told else [])
    if told:
        assert found[0]["title"] == "copies (aten::copy_) take 40% of the device's time"
        assert found[0]["evidence"] == ["5 x aten::copy_ (40.0 ms): the table does not tell what is copied, nor from where."]
