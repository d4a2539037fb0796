"""Advice on totals: what names, numbers and times tell where the order of kernels is unknown, and what only looks like it."""

import pytest

import kernelscope as ks
from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.trace import Trace, conform
from tests.analysis.explain.device.test_faults import told
from tests.analysis.formats.torch_table.made import NEW, printed, row

MAGMA = "void magma_sgemmEx_kernel<float, __nv_bfloat16, __nv_bfloat16, false, 6, 4, 6, 3, 4>(int)"
TURING = "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn"
VECTOR = "void mul_mat_vec<__half, __half, (int)1, (int)256>(const T1 *, const float *, float *)"
IN_VAIN = "products in bfloat16 run without tensor cores"
ELEMENTWISE = "most of the time are elementwise kernels, which each read and write memory"
ATTENTION = "attention seems to be computed piece by piece, and its scores go through memory"
BY_VECTOR = "products of a matrix and a single vector read the whole matrix each time"
APART = "activations run apart from the products before them, through memory"
ONE_BY_ONE = "the optimizer updates parameters one by one"
CPU = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]


def summary(kernels, copies=(), hardware=None, faults=0, framework=None):
    """Advice on totals of kernels: (name, kind, type, count, ms), of copies, and ms of page faults."""
    rows = [
        {"name": name, "kind": kind, "dtype": dtype, "count": count, "duration_ns": int(ms * 1e6), "device": "cuda:0"}
        for name, kind, dtype, count, ms in kernels
    ]
    trace = Trace(
        info={"devices": [{"device": "cuda:0", "name": hardware}] if hardware else [], "framework": framework},
        kernels=conform("kernels", rows),
        copies=conform("copies", [{"device": "cuda:0", **one} for one in copies]),
    )
    if faults:
        trace.totals = conform("totals", told(10, faults * 1000))
    return advice.of_subject(of_trace(trace, "made-up"))


def pieces(result):
    return {one["title"]: one for one in result["advice"]}


@pytest.fixture
def table(tmp_path):
    """Advice on a printed table of torch.profiler."""

    def run(rows, totals=(), heading=NEW):
        path = tmp_path / "table.txt"
        path.write_text(printed(heading, rows, totals))
        return pieces(ks.advise(path))

    return run


def on_cpu(name, own, whole, calls):
    return (name, "1%", own, "1%", whole, "1.000us", calls)


# Products in bfloat16


def test_bfloat16_without_tensor_cores():
    found = pieces(summary([(MAGMA, "gemm", "f32", 100, 90), ("add", "elementwise", "f32", 100, 10)], framework="pytorch"))[
        IN_VAIN
    ]
    assert (found["saves_ns"], found["at_most"]) == (67_500_000, True)
    assert "dtype=torch.float16" in found["remedy"]
    assert "GradScaler" in found["remedy"]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_bfloat16_on_a_known_device_without_it_is_told_once(dtype):
    found = pieces(summary([(MAGMA, "gemm", dtype, 100, 90)], hardware="Tesla T4"))
    assert list(found) == [IN_VAIN]
    assert not found[IN_VAIN]["at_most"]


@pytest.mark.parametrize(
    ("kernels", "hardware"),
    [
        ([(MAGMA, "gemm", "bf16", 100, 90)], "NVIDIA A100-SXM4-40GB"),  # odd sizes
        ([(MAGMA, "gemm", "bf16", 100, 90), ("nvjet_sm120_tst_mma_64x64x64", "gemm", "bf16", 10, 10)], None),
        ([(MAGMA, "gemm", "bf16", 100, 90)], "Tesla P100-SXM2-16GB"),  # no tensor cores at all
        ([(MAGMA.replace("__nv_bfloat16", "__half"), "gemm", "f16", 100, 90)], None),
        ([(TURING, "gemm", "f16", 100, 90)], "Tesla T4"),
    ],
)
def test_other_products_are_not_in_vain(kernels, hardware):
    assert IN_VAIN not in pieces(summary(kernels, hardware=hardware))


# Page faults


def test_faster_arithmetic_does_not_shorten_page_faults():
    kernel = [("volta_sgemm_128x64_nn", "gemm", "f32", 1, 2265)]
    found = pieces(summary(kernel, hardware="Tesla V100-PCIE-16GB", faults=1173))
    mixed = found["products are computed in 32-bit types"]
    assert next(iter(found)) == "kernels wait for page faults of unified memory"
    assert mixed["saves_ns"] == pytest.approx((2265 - 1173) * 0.75 * 1e6, rel=0.01)
    assert any("1.17 s are page faults" in sentence for sentence in mixed["evidence"])
    without = pieces(summary(kernel, hardware="Tesla V100-PCIE-16GB"))["products are computed in 32-bit types"]
    assert without["saves_ns"] == pytest.approx(2265 * 0.75 * 1e6, rel=0.01)
    assert not any("page faults" in sentence for sentence in without["evidence"])


# Copies that run once


def copies(operation="host to device", **numbers):
    return {"operation": operation, **numbers}


LOADING = copies(count=5749, duration_ns=2_527_000_000, median_ns=1600, max_ns=413_000_000, std_ns=5_864_000)
KERNEL = [("step", "elementwise", "f32", 1000, 5000)]


@pytest.mark.parametrize("one", [LOADING, copies(count=200, duration_ns=800_000_000, max_ns=600_000_000)])
def test_few_large_copies_are_no_input_of_each_step(one):
    result = summary(KERNEL, [one])
    assert not result["advice"]
    assert any("as when weights are loaded" in note for note in result["notes"])


@pytest.mark.parametrize(
    "one",
    [
        copies(count=1000, duration_ns=2_527_000_000, median_ns=2_500_000, max_ns=413_000_000, std_ns=1_000_000),
        copies(count=3000, duration_ns=5_000_000_000, median_ns=1500, max_ns=6_000_000, std_ns=2_357_000),  # a batch, two scalars
        copies(count=1000, duration_ns=2_527_000_000, max_ns=3_000_000),
        copies(count=3, duration_ns=2_527_000_000, max_ns=2_500_000_000),  # too few to tell
    ],
)
def test_copies_of_each_step_stay_advice(one):
    result = summary(KERNEL, [one])
    assert "copy the next input" in result["advice"][0]["remedy"]
    assert not any("as when" in note for note in result["notes"])


def test_results_are_no_input():
    result = summary(KERNEL, [copies("device to host", count=1000, duration_ns=2_527_000_000, max_ns=3_000_000)])
    assert result["advice"][0]["remedy"].startswith("copy results on another stream")


@pytest.mark.parametrize(("each_ns", "found"), [(1_000, 0), (2_500, 1)])
def test_copies_as_short_as_their_start_are_not_worth_a_stream(each_ns, found):
    """Six copies cost the host some 12 µs on a stream of their own; behind 2 or 15 µs of computation they can hide 2 or 15."""
    few = copies("device to host", count=6, duration_ns=6 * each_ns, max_ns=each_ns)
    result = summary([("walk(int*)", "unknown", None, 1, 6 * each_ns / 1e6)], [few])
    assert len([one for one in result["advice"] if one["topic"] == "copies"]) == found


@pytest.mark.parametrize(("ns", "noted"), [(3_000_000, True), (300_000, False)])
def test_memory_sets_within_copying_are_noted(ns, noted):
    result = summary(
        [("add", "elementwise", "f32", 10, 2)],
        [copies(count=3, duration_ns=5_000_000), copies("set", count=4, duration_ns=ns)],
    )
    assert [note for note in result["notes"] if "memory sets" in note] == ["copying includes memory sets: 3.00 ms (30%)"] * noted


@pytest.mark.parametrize(("framework", "named"), [(None, ""), ("tensorflow", ".numpy()"), ("mxnet", ".asnumpy()")])
def test_results_are_fetched_less_by_what_the_framework_calls_it(framework, named):
    back = copies("device to host", count=200, duration_ns=5_000_000_000, max_ns=26_000_000)
    result = summary([("add", "elementwise", "f32", 10, 20)], [back], framework=framework)
    remedy = result["advice"][0]["remedy"]
    assert remedy.startswith("fetch fewer results")
    assert named in remedy
    assert framework or "numpy" not in remedy


# A matrix and one vector


def test_decoding_one_text_is_bound_by_memory():
    found = pieces(summary([(VECTOR, "gemm", "f16", 253_109, 16_650), ("rms_norm_f32", "normalisation", "f32", 100, 3000)]))[
        BY_VECTOR
    ]
    assert (found["saves_ns"], found["at_most"]) == (8_325_000_000, True)
    assert "quantised weights" in found["remedy"]


@pytest.mark.parametrize(
    "kernel",
    [
        ("void mul_mat_vec_q<(ggml_type)2, 1>(void const*)", "gemm", "f16", 100, 90),  # quantised already
        ("void gemvNSP_kernel<double, 1>(int)", "gemm", "f64", 100, 90),  # a solver
        (TURING, "gemm", "f16", 100, 90),
        (VECTOR, "gemm", "f16", 100, 20),
    ],
)
def test_other_products_read_their_matrix_for_many_vectors_or_few_bytes(kernel):
    assert BY_VECTOR not in pieces(summary([kernel, ("rest", "attention", "f16", 10, 60)]))


# Elementwise kernels


def of_rope(kernel="void at::native::elementwise_kernel<128, 2, at::native::BinaryFunctor<mul>>", more=()):
    return [
        row(f"{kernel}(int, float)", "0.000us", "0.000us", "36.000ms", "8"),
        row("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)", "0.000us", "0.000us",
            "18.000ms", "4"),
        *more,
    ]  # fmt: skip


def test_elementwise_kernels_that_take_most_of_the_time(table):
    found = table(of_rope())[ELEMENTWISE]
    assert found["at_most"]
    assert found["saves_ns"] == 54_000_000 - 4 * 4_500_000
    assert "torch.compile" in found["remedy"]


def test_elementwise_kernels_that_take_much_of_the_time(table):
    found = table(of_rope(more=[row("ampere_sgemm_128x64_tn", "0.000us", "0.000us", "60.000ms", "9")]))
    assert found[ELEMENTWISE.replace("most", "much", 1)]["saves_ns"] == 36_000_000


NATIVE = "void at::native::vectorized_elementwise_kernel<4, at::native::{}>(int)"


def by_hand(exponentials=10, products=20):
    """Kernels of an attention that a program writes out, as tools print them that know no framework."""
    return [
        (NATIVE.format("exp_kernel_cuda(at::TensorIteratorBase&)::{lambda()}"), "elementwise", None, exponentials, 20),
        (NATIVE.format("BinaryFunctor<float, float, float, at::native::binary_internal::DivFunctor<float>>"), "elementwise",
         None, 10, 30),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(int)", "reduction", None, 20, 10),
        ("ampere_sgemm_128x64_tn", "gemm", "f32", products, 10),
    ]  # fmt: skip


def test_kernels_of_pytorch_tell_the_framework():
    result = summary(by_hand())
    found = pieces(result)[ELEMENTWISE]
    assert result["framework"] == "pytorch"
    assert "torch.compile" in found["remedy"]
    assert "scaled_dot_product_attention" in found["remedy"]
    assert "10 exponentials, beside 20 reductions and 20 products" in found["evidence"][1]


@pytest.mark.parametrize("kernels", [by_hand(products=19), by_hand(exponentials=11)])
def test_too_few_products_and_sums_are_no_attention(kernels):
    found = pieces(summary(kernels))[ELEMENTWISE]
    assert "attention" not in found["remedy"]
    assert len(found["evidence"]) == 1


def test_few_kernels_of_pytorch_are_no_program_of_it():
    few = ("void at::native::reduce_kernel<512, 1>(int)", "reduction", None, 20, 4)
    assert summary([("mine(float*)", "elementwise", "f32", 10, 96), few])["framework"] is None


@pytest.mark.parametrize(
    "rows",
    [
        of_rope(more=[row("ampere_sgemm_128x64_tn", "0.000us", "0.000us", "130.000ms", "9")]),  # a smaller part
        of_rope("triton_poi_fused_add_mul_5"),
        of_rope()[:1],  # one operation
        [
            row("aten::copy_", "1.000ms", "1.000ms", "62.000ms", "20"),
            row("aten::_to_copy", "1.000ms", "2.000ms", "40.000ms", "10"),
        ],
    ],
)
def test_other_elementwise_kernels_are_left_alone(table, rows):
    assert ELEMENTWISE not in table(rows)


# Attention


def attention(*more, products="2", softmax="aten::_softmax"):
    return [
        row("aten::bmm", "1.000ms", "1.000ms", "40.000ms", products),
        row(softmax, "1.000ms", "1.000ms", "17.000ms", "1"),
        row("aten::mul", "1.000ms", "1.000ms", "7.000ms", "1"),
        *more,
    ]


def test_attention_by_parts(table):
    found = table(attention())[ATTENTION]
    assert (found["saves_ns"], found["at_most"]) == (24_000_000, True)
    assert "scaled_dot_product_attention" in found["remedy"]
    assert found["evidence"][0].startswith("2 batched products and 1 softmax, as attention needs")


@pytest.mark.parametrize(
    "rows",
    [
        attention(row("aten::_scaled_dot_product_flash_attention", "1.000ms", "1.000ms", "9.000ms", "1")),
        attention(products="1"),
        attention(softmax="aten::_log_softmax"),  # of a loss
        attention()[1:],
    ],
)
def test_other_softmaxes_are_no_attention(table, rows):
    assert ATTENTION not in table(rows)


def test_batched_products_whose_calls_are_not_printed(tmp_path):
    """Without columns of the processor and of calls, the kernels count, and the operator's row tells that it ran."""
    heading = ["Name", "Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"]
    product, softmax = "ampere_sgemm_128x64_tn", "void (anonymous namespace)::softmax_warp_forward<float>(int)"

    def found(operator):
        rows = [(operator, "80.000ms", "1%", "80.000ms", "8.000ms"), (product, "80.000ms", "1%", "80.000ms", "8.000ms"),
                (softmax, "20.000ms", "1%", "20.000ms", "2.000ms")]  # fmt: skip
        path = tmp_path / "table.txt"
        path.write_text(printed(heading, rows))
        return pieces(ks.advise(path))

    one = found("aten::bmm")[ATTENTION]
    assert one["saves_ns"] == 20_000_000
    assert one["evidence"][0].startswith("Batched products and softmaxes, as attention needs")
    assert ATTENTION not in found("aten::mm")


@pytest.mark.parametrize(("selects", "saves"), [("480", 945_000_000), ("481", 145_000_000), ("42", 145_000_000)])
def test_batched_products_that_loop_over_matrices_count_on_a_processor(table, selects, saves):
    """Two of 80 matrices of three tensors each select 480, of 7 they select 42; 800 ms of products, 145 ms of the rest."""
    rows = [
        on_cpu("aten::bmm", "800.000ms", "850.000ms", "2"),
        on_cpu("aten::_softmax", "100.000ms", "100.000ms", "1"),
        on_cpu("aten::mul", "45.000ms", "45.000ms", "1"),
        on_cpu("aten::select", "50.000ms", "50.000ms", selects),
    ]
    found = table(rows, heading=CPU)[ATTENTION]
    assert (found["saves_ns"], found["at_most"]) == (saves, True)
    assert any("one by one" in sentence for sentence in found["evidence"]) == (saves > 800_000_000)


# Casts


def test_casts_on_processors_include_the_copies_inside(table):
    rows = [
        on_cpu("aten::sub", "600.000ms", "1145.000ms", "10"),
        on_cpu("aten::mm", "500.000ms", "500.000ms", "10"),
        on_cpu("aten::_to_copy", "1.000ms", "545.000ms", "10"),
        on_cpu("aten::copy_", "544.000ms", "544.000ms", "10"),
    ]
    found = table(rows, heading=CPU)["tensors change their type"]
    assert found["saves_ns"] == 545_000_000
    assert found["remedy"].startswith("convert data once, outside of the loop")


def test_other_copies_on_processors_are_no_casts(table):
    rows = [
        on_cpu("aten::mm", "500.000ms", "500.000ms", "10"),
        on_cpu("aten::_to_copy", "1.000ms", "3.000ms", "10"),
        on_cpu("aten::copy_", "544.000ms", "544.000ms", "1000"),
    ]
    assert not table(rows, heading=CPU)


def conversions(number, layers="567"):
    return [
        row("aten::_convolution", "9.000ms", "9.000ms", "200.000ms", layers),
        row("aten::_to_copy", "9.000ms", "9.000ms", "10.000ms", number),
        row("aten::copy_", "9.000ms", "9.000ms", "35.000ms", "1204"),
    ]


def test_casts_of_each_layer_include_their_share_of_the_copies(table):
    found = table(conversions("602"))["tensors change their type"]
    assert found["saves_ns"] == pytest.approx(27_500_000)


@pytest.mark.parametrize("number", ["7", "100"])
def test_conversions_on_a_device_that_may_be_transfers_count_for_themselves(table, number):
    assert table(conversions(number))["tensors change their type in each step"]["saves_ns"] == 10_000_000


# The optimizer


def update(name, calls, own="147.000ms", step="Optimizer.step#Adam.step"):
    return [
        on_cpu("aten::mm", "400.000ms", "400.000ms", "225"),
        on_cpu(step, "12.000ms", "170.000ms", "45"),
        on_cpu(name, own, own, calls),
    ]


def test_an_update_tensor_by_tensor(table):
    found = table(update("aten::sqrt", "270"), heading=CPU)[ONE_BY_ONE]
    assert found["saves_ns"] == 147_000_000
    assert "torch.optim.Adam(..., fused=True" in found["remedy"]


@pytest.mark.parametrize(
    "rows",
    [
        update("aten::_fused_adam_", "45"),
        update("aten::sqrt", "45"),  # once for each update
        update("aten::sqrt", "270", own="20.000ms"),
        update("aten::sqrt", "270", step="train_step"),
    ],
)
def test_other_updates_are_no_topic(table, rows):
    assert ONE_BY_ONE not in table(rows, heading=CPU)


# oneDNN


def log(tmp_path, *primitives):
    lines = [f"onednn_verbose,exec,cpu,{one}" for one in primitives]
    path = tmp_path / "onednn.log"
    path.write_text("\n".join(["onednn_verbose,info,oneDNN v3.2.0 (commit 2a3fbc8)", *lines]) + "\n")
    return pieces(ks.advise(path))


TENSORS = " ".join(f"{name}_f32::blocked:abc::f0" for name in ("src", "wei", "dst"))
PRODUCT = f"matmul,gemm:jit:f32,undef,{TENSORS},,,1x12800x128:1x128x64,40"
RELU = "eltwise,jit:avx2,{},data_f32::blocked:abc::f0 diff_undef::undef:::,,alg:eltwise_relu alpha:0 beta:0,1x12800x64,20"


def test_activations_that_could_be_part_of_their_product(tmp_path):
    relu = RELU.format("forward_inference")
    found = log(tmp_path, PRODUCT, relu, PRODUCT, relu)[APART]
    assert (found["saves_ns"], found["at_most"]) == (40_000_000, True)
    assert "post_ops" in found["remedy"]
    assert log(tmp_path, PRODUCT, relu, relu)[APART]["saves_ns"] == 20_000_000, "a product has one activation after it"


def test_activations_of_training_stay(tmp_path):
    assert APART not in log(tmp_path, PRODUCT, RELU.format("forward_training"), RELU.format("backward_data"))
    assert APART not in log(tmp_path, PRODUCT)


# What takes longest


def test_the_longest_kernel_of_totals_is_named_even_if_it_is_a_small_part():
    kernels = [(f"kernel_{number}", "unknown", None, 10, 10 + number) for number in range(8)]
    assert summary(kernels)["longest"] == {"name": "kernel_7", "ns": 17_000_000}
    assert summary([(f"kernel_{number}", "unknown", None, 10, 10) for number in range(12)])["longest"] is None


def test_kernels_of_no_network_change_no_layout():
    kernels = [("scatter", "layout", None, 2000, 900), ("move_particles", "unknown", None, 2000, 3000)]
    assert not summary(kernels)["advice"]


def test_rows_around_others_compute_nothing(table, tmp_path):
    """aten::to makes a view: 4 of 964 us, which the sum below the table includes."""
    rows = [row("aten::pow", "1.000ms", "1.000ms", "960.000us", "1"), row("aten::view", "1.000ms", "1.000ms", "4.000us", "1")]
    table(rows, ("Self CPU time total: 1.000ms", "Self CUDA time total: 964.000us"))
    parts = ks.advise(tmp_path / "table.txt")["parts"]
    assert parts == [{"what": "computing", "ns": 960_000}, {"what": advice.AROUND, "ns": 4_000}]


SHORT = ("Cijk_Ailk_Bljk_SB_MT64x64", "gemm", "f32", 20_000, 120.0)  # 6 us each


def notes_of_short(*kernels):
    return [note for note in summary(kernels)["notes"] if "hardly longer than a launch" in note]


def test_many_short_kernels():
    (note,) = notes_of_short(SHORT, ("solve(double*)", "unknown", "f32", 10, 100.0))
    assert note.startswith("20,000 x Cijk_Ailk_Bljk_SB_MT64x64 (120 ms) takes 120 ms (55%), 6.00 µs each on average")
    assert "in one batched call" in note
    assert "totals do not show" in note


@pytest.mark.parametrize(
    "kernels",
    [
        [(*SHORT[:3], 9_000, 54.0)],  # not so many
        [(*SHORT[:4], 220.0)],  # 11 us each
        [SHORT, ("solve(double*)", "unknown", "f32", 10, 400.0)],  # a smaller part
        [("copy", "copy", "f32", 20_000, 120.0)],
    ],
)
def test_other_kernels_are_not_many_and_short(kernels):
    assert not notes_of_short(*kernels)
