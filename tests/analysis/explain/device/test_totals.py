"""Totals without a timeline: what adds up is not how long a program takes, and calls and copies tell what kernels do not."""

import pytest

import kernelscope as ks
from kernelscope.reports import explanation
from tests.analysis.formats.torch_table.made import NEW, printed, row
from tests.analysis.printed_totals import text_of


@pytest.fixture
def explained(tmp_path):
    def run(a, b):
        paths = []
        for name, (work, calls) in zip("ab", (a, b), strict=True):
            paths.append(tmp_path / f"{name}.txt")
            paths[-1].write_text(text_of(work, calls))
        return ks.explain(*paths)

    return run


SAXPY = [("saxpy(float*)", 10, 20.0)]


def test_the_answer_says_that_durations_add_up_and_no_more(explained):
    result = explained((SAXPY, []), ([("saxpy(float*)", 10, 30.0)], []))
    said = explanation.answer(result)
    assert said.startswith("Kernels and copies of B add up to 10.00 ms more than those of A (+50%): 20.00 → 30.00 ms")
    assert "slower" not in said.partition(";")[0]
    assert [line for line in explanation.gaps(result) if "timeline" in line] == [
        "both have no timeline: durations are added up, even of work that ran at the same time"
    ]


def test_calls_that_one_side_makes_in_its_loop_are_told_with_their_remedy(explained):
    calls = [("cudaMalloc", 1000, 300.0), ("cudaFree", 1000, 100.0), ("cudaDeviceSynchronize", 1000, 900.0)]
    result = explained((SAXPY, [("cudaMalloc", 2, 90.0)]), (SAXPY, calls))
    assert result["calls"].startswith(
        "the host spends 310 ms more in API calls in B, apart from the device's work: cudaMalloc 2 calls (90.0 ms) in A, "
        "1,000 calls (300 ms) in B; cudaFree none in A, 1,000 calls (100 ms) in B; try: allocate once"
    )
    assert result["calls"] in explanation.warnings(result)
    assert explanation.answer(result).endswith("; the host spends 310 ms more in API calls in B, apart from the device's work")


@pytest.mark.parametrize(
    "calls",
    [
        [("cudaMalloc", 2, 90.0)],  # the first use of the device, here and there
        [("cudaDeviceSynchronize", 1000, 900.0)],  # a wait
        [("cudaMalloc", 1000, 1.0)],  # little of the device's time
    ],
)
def test_other_calls_are_not_told(explained, calls):
    assert explained((SAXPY, []), (SAXPY, calls))["calls"] is None


def test_many_small_copies_are_told_by_their_number(explained):
    result = explained(([*SAXPY, ("[CUDA memcpy DtoH]", 4000, 6.0)], []), ([*SAXPY, ("[CUDA memcpy DtoH]", 4, 0.2)], []))
    (first,) = result["findings"]
    assert "4,000 copies of 1.50 µs on average in A, 4 copies of 50.0 µs on average in B" in first["title"]
    assert first["remedy"].startswith("one large copy in place of many small ones")
    assert first["explains_ns"] == -5_800_000


def test_copies_on_several_streams_may_overlap(explained):
    copies = [("[CUDA memcpy HtoD]", 30, 60.0)], [("[CUDA memcpy HtoD]", 30, 100.0)]
    calls = [("cudaHostAlloc", 3, 600.0)], [("cudaHostAlloc", 3, 600.0), ("cudaStreamCreate", 2, 0.1)]
    (first,) = explained((copies[0], calls[0]), (copies[1], calls[1]))["findings"]
    assert first["confidence"] == "low"
    assert "they may overlap on several streams" in first["title"]
    assert "waits" not in " ".join(first["evidence"])


def test_pinned_memory_is_told_by_the_call_that_allocates_it(explained):
    copies = [("[CUDA memcpy HtoD]", 3, 300.0)], [("[CUDA memcpy HtoD]", 3, 100.0)]
    (first,) = explained((copies[0], [("cudaMalloc", 3, 1.0)]), (copies[1], [("cudaHostAlloc", 3, 20.0)]))["findings"]
    assert "pinned memory in B, which allocates it" in first["title"]
    assert first["confidence"] == "medium"


def test_a_kernel_that_runs_more_often_is_told_apart_from_one_that_takes_longer(explained):
    (often,) = explained((SAXPY, []), ([("saxpy(float*)", 30, 60.0)], []))["findings"]
    assert "runs more often in B than in A: 20.0 ms in A, 60.0 ms in B, 10 and 30 executions" in often["title"]
    (longer,) = explained((SAXPY, []), ([("saxpy(float*)", 11, 60.0)], []))["findings"]
    assert "takes 3 times as long in B as in A" in longer["title"]
    assert longer["evidence"][0] == "One execution takes on average: saxpy 2.00 ms in A, 5.45 ms in B."
    assert "grids" in longer["remedy"]
    assert "leave out" not in longer["remedy"]


def test_each_of_the_programs_own_kernels_has_its_own_difference(explained):
    before = [
        ("render(int)", 1, 1240.0),
        ("create(int)", 1, 12.0),
        ("init(int)", 1, 8.0),
        ("free(int)", 1, 4.0),
        ("seed(int)", 1, 9.0),
    ]
    after = [
        ("render(int)", 1, 2982.0),
        ("create(int)", 1, 34.0),
        ("init(int)", 1, 8.2),
        ("free(int)", 1, 5.7),
        ("seed(int)", 1, 7.5),
    ]
    first, *others = explained((before, []), (after, []))["findings"]
    assert first["title"].startswith("render takes 2.4 times as long in B as in A: 1.24 s in A, 2.98 s in B, 1 execution each")
    assert first["explains_ns"] == 1_742_000_000, "its own, without the other kernels'"
    assert "clocks" not in [one["cause"] for one in (first, *others)], "one kernel alone shows no clock"


def test_lower_clocks_slow_all_kernels_alike(explained):
    before = [(f"k{number}(int)", 10, 10.0 + number) for number in range(8)]
    after = [(name, count, 1.3 * ms) for name, count, ms in before]
    (first,) = explained((before, []), (after, []))["findings"]
    assert first["cause"] == "clocks"


def test_everything_many_times_slower_is_another_device(explained):
    before = [("bounds(int)", 15, 1.6), ("blocks(int)", 12, 7.5), ("forces(int)", 12, 3.0)]
    after = [(name, count, 8.9 * ms) for name, count, ms in before]
    (first,) = explained((before, []), (after, []))["findings"]
    assert first["title"].startswith("all kernels take 8.90 times as long in B, of every kind: another device")
    assert "clocks" not in first["remedy"]
    after = [*after[:2], ("forces(int)", 12, 3.0)]
    assert not any("all kernels" in one["title"] for one in explained((before, []), (after, []))["findings"])


def test_a_kernel_of_16_bits_and_unknown_kind_on_one_side_alone(explained):
    before = [("swiglu_f16", 32, 4.0)]
    for name in ("mystery_f16", "void my_kernel<__half>(int)", "triton_my_thing_bf16"):
        result = explained((before, []), ([*before, (name, 32, 2.0)], []))
        assert [one["explains_ns"] for one in result["findings"]] == [2_000_000]


def test_calls_that_one_side_did_not_record_are_no_difference(explained):
    calls = [("cudaMalloc", 84, 218.0), ("cudaFree", 84, 30.0)]
    assert explained((SAXPY, calls), (SAXPY, []))["calls"] is None


def test_as_many_calls_in_about_the_same_time_are_no_difference(explained):
    before, after = ([("cudaLaunchKernel", 1000, ms)] for ms in (30.0, 22.0))
    assert explained((SAXPY, before), (SAXPY, after))["calls"] is None
    assert explained((SAXPY, before), (SAXPY, [("cudaLaunchKernel", 1000, 90.0)]))["calls"]


def test_kernels_of_like_names_take_each_other_s_place(explained):
    before = [("join_data_dynamic(int)", 1, 554.0), ("get_join_size_per_thread(int)", 1, 182.0)]
    after = [("join_data_dynamic_atomic(int)", 1, 2680.0), ("get_join_size(int)", 1, 974.0)]
    result = explained((before, []), (after, []))
    first, second = result["findings"]
    assert first["title"].startswith("join_data_dynamic_atomic in B takes 4.84 times as long as join_data_dynamic in A")
    assert (first["explains_ns"], second["explains_ns"]) == (2_126_000_000, 792_000_000)
    assert [part["part"] for part in result["parts"]] == ["join_data_dynamic_atomic", "get_join_size"]
    twice = [(after[0][0], 2, 2680.0), after[1]]
    assert "join_data_dynamic in A" not in explained((before, []), (twice, []))["findings"][0]["title"]


def test_programs_without_a_kernel_in_common_are_told_apart(explained):
    fractal = [("mandelbrot_kernel(int*, int)", 1, 303.0)]
    scene = [("generate_scene_data(int)", 1, 2760.0), ("render(float*)", 1, 228.0), ("free_world(int)", 1, 1.4)]
    sentence = "no kernel of A has a name like one of B's: these seem to be different programs"
    assert explained((fractal, []), (scene, []))["differs"] == [sentence]
    assert not explained((scene, []), ([("render_world(float*)", 1, 400.0), *fractal], []))["differs"]
    scans = "void cub::DeviceScanKernel<cub::DeviceScanPolicy<int>, int*>(int*)"
    assert explained((fractal, []), ([*scene, (scans, 1, 300.0)], []))["differs"] == [sentence], "little of it is a library's"
    assert not explained((fractal, []), ([*scene, (scans, 1, 3000.0)], []))["differs"], "a library's names tell nothing"


def test_a_single_kernel_takes_the_place_of_one_of_its_kind(explained):
    product, sum_of_two = [("matmul_tiled(float*, int)", 1, 303.0)], [("VecAdd_kernel(float*)", 1, 3.0)]
    result = explained((product, []), (sum_of_two, []))
    assert result["differs"] == ["no kernel of A has a name like one of B's: these seem to be different programs"]
    assert result["findings"][0]["title"].startswith("only A has gemm kernels (matmul_tiled)")
    rewritten = explained((product, []), ([("sharedABMultiply(float*, int)", 1, 30.0)], []))
    assert not rewritten["differs"]


def test_who_checks_printed_tables_finds_the_same_digits(explained):
    """Rounded to two decimals, 0.32 and 1.99 are not 2.30."""
    result = explained(([("k(int)", 1, 318.38)], []), ([("k(int)", 1, 2304.18)], []))
    assert "1.986 s more than those of A (+624%): 0.318 → 2.304 s" in explanation.answer(result)


DTOH, HTOD = "[CUDA memcpy DtoH]", "[CUDA memcpy HtoD]"


def test_copies_in_one_direction_are_told_without_those_in_the_other(explained):
    both = [*SAXPY, (DTOH, 11, 1400.0), (HTOD, 11, 231.0)]
    (first,) = explained((both, []), ([*SAXPY, (HTOD, 11, 236.0)], []))["findings"]
    assert first["explains_ns"] == -1_400_000_000
    assert "(memcpy DtoH)" in first["title"]
    assert first["title"].endswith("B has none")
    assert "Number of copies: 11 in A, 0 in B." in first["evidence"]
    assert first["remedy"].startswith("do not fetch results in each step")


BY_SIZE = """
CUDA Memory Operation Statistics (by time):

 Time(%)  Total Time (ns)  Count  Average (ns)  Minimum (ns)  Maximum (ns)  StdDev (ns)      Operation
 -------  ---------------  -----  ------------  ------------  ------------  -----------  ------------------
   100.0        {ns}          10     1000000.0       1000000       1000000          0.0  [CUDA memcpy HtoD]

CUDA Memory Operation Statistics (by size):

 Total (MB)  Count  Average (MB)  Minimum (MB)  Maximum (MB)  StdDev (MB)      Operation
 ----------  -----  ------------  ------------  ------------  -----------  ------------------
   {mb}         10        10.000        10.000        10.000        0.000  [CUDA memcpy HtoD]
"""
KERNELS = """CUDA Kernel Statistics:

 Time(%)  Total Time (ns)  Instances  Average (ns)  Minimum (ns)  Maximum (ns)  StdDev (ns)   Name
 -------  ---------------  ---------  ------------  ------------  ------------  -----------  -------
   100.0         10000000         10     1000000.0       1000000       1000000          0.0  saxpy
"""


@pytest.mark.parametrize(
    ("a", "said"),
    [
        (BY_SIZE.format(ns=10_000_000, mb="100.000"), "They move 100 MB in A (10.0 GB/s), 100 MB in B (2.50 GB/s)."),
        ("", "They move 100 MB in B."),
    ],
    ids=["rates", "none in A"],
)
def test_bytes_are_told_with_their_rates_and_only_of_the_sides_that_copy(tmp_path, a, said):
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, copied in zip(paths, (a, BY_SIZE.format(ns=40_000_000, mb="100.000")), strict=True):
        path.write_text(KERNELS + copied)
    (found,) = ks.explain(*paths)["findings"]
    assert said in found["evidence"]


@pytest.mark.parametrize(("ms", "named"), [(312.0, False), (200.0, True)])
def test_as_many_copies_of_unknown_sizes_vary_from_run_to_run(explained, ms, named):
    result = explained(([*SAXPY, (DTOH, 1001, 335.0)], []), ([*SAXPY, (DTOH, 1001, ms)], []))
    assert bool(result["findings"]) is named
    assert named or "is in as many copies on both sides, whose times vary from run to run" in result["abstained"]


def test_gradients_on_one_side_alone_are_other_work(explained):
    forward = ("cudnn::ops::implicit_convolve_sgemm<float>(int)", 1001, 6300.0)
    backward = ("dgrad2d_grouped_direct_kernel<float>(int)", 1001, 155_000.0)
    result = explained(([forward, backward], []), ([forward], []))
    assert result["differs"] == ["A computes gradients of convolutions (155 s), B none"]
    assert result["findings"][0]["remedy"] == "record the backward pass on both sides, or on neither"
    assert not explained(([forward, backward], []), ([forward, (*backward[:2], 15_000.0)], []))["differs"]


def test_helpers_of_convolutions_are_no_more_work(explained):
    conv, helper = (
        ("cudnn::ops::implicit_convolve_sgemm<float>(int)", 1001, 6500.0),
        ("cask_cudnn::computeOffsetsKernel(Params)", 1001, 2.0),
    )
    assert explained(([conv], []), ([conv, helper], []))["differs"] == []
    assert explained(([conv], []), ([(conv[0], 2002, 13_000.0), helper], []))["differs"]


SDPA, BMM = "fmha_cutlassF_f32_aligned_64x64_rf_sm80(Params)", "cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4"


def test_fused_attention_in_float32_is_no_other_precision(explained):
    """There is none in TF32, in which the products around it and of the other side are computed."""
    unfused = [(BMM, 1600, 87.0), ("softmax_warp_forward(float)", 500, 48.0)]
    (first,) = explained((unfused, []), ([(SDPA, 500, 203.0)], []))["findings"]
    assert first["cause"] == "attention algorithm"
    assert "float16 or bfloat16" in first["remedy"]
    (first,) = explained((unfused, []), ([(SDPA, 500, 20.0)], []))["findings"]
    assert first["cause"] == "attention algorithm"
    assert "float16" not in first["remedy"]


def test_ten_times_the_launches_are_no_noise_where_others_take_most_of_the_time(explained):
    before = [("norm(float*)", 1000, 1200.0), ("small(float*)", 1000, 4.0)]
    after = [("norm(float*)", 1000, 1200.0), ("small(float*)", 10_000, 40.0)]
    (first,) = explained((before, []), (after, []))["findings"]
    assert first["title"].startswith("small runs more often in B than in A: 4.00 ms in A, 40.0 ms in B, 1,000 and 10,000")
    assert (first["cause"], first["explains_ns"]) == ("more executions", 36_000_000)
    assert first["remedy"].startswith("let one launch do the work of many")


def test_more_executions_and_longer_ones_are_told_apart(explained):
    (first,) = explained(([("flux(float*)", 100, 100.0)], []), ([("flux(float*)", 150, 300.0)], []))["findings"]
    assert "100 ms in A, 300 ms in B, 100 and 150 executions" in first["title"]
    (back,) = explained(([("flux(float*)", 150, 300.0)], []), ([("flux(float*)", 100, 100.0)], []))["findings"]
    assert "300 ms in A, 100 ms in B, 150 and 100 executions" in back["title"]
    # 50 more at 1 ms each, and 150 that take 1 ms longer
    assert "B runs it more often (+50.0 ms), and an execution takes longer there (+150 ms)." in first["evidence"]


@pytest.fixture
def cut(tmp_path):
    """Explain two lists of which the rows behind the first ones were cut off."""

    def run(a, b, kept):
        paths = []
        for name, work in zip("ab", (a, b), strict=True):
            paths.append(tmp_path / f"{name}.txt")
            paths[-1].write_text("\n".join(text_of(work).splitlines()[: 4 + kept]) + "\n")
        return ks.explain(*paths)

    return run


def kernels(*times):
    return [(f"void k{number}(float*)", 10, ms) for number, ms in times]


def test_what_fell_off_a_list_that_was_cut_is_no_cause(cut):
    """k3 is the last row that A prints, and k2 the last of B: each may stand below on the other side."""
    common = [(1, 50.0)]
    result = cut(kernels(*common, (3, 20.2), (2, 20.0), (4, 9.8)), kernels(*common, (2, 20.1), (3, 20.0), (4, 9.8)), 2)
    assert result["wall_delta_ns"] == pytest.approx(-100_000, abs=20_000)
    assert result["findings"] == []
    assert {part["part"] for part in result["parts"]} >= {"(in rows that were not printed)"}
    assert result["a"]["coverage"] == pytest.approx(0.702, abs=0.001)


def test_what_is_more_than_all_that_was_cut_is_one_with_a_caveat(cut):
    product = ("ampere_sgemm_128x64_nn", 10, 60.0)
    result = cut([product, *kernels((1, 30.0), (4, 10.0))], kernels((1, 30.0), (4, 10.0), (5, 15.0)), 2)
    first = result["findings"][0]
    assert first["title"].startswith("only A prints gemm kernels (ampere_sgemm_128x64_nn): 60.0 ms")
    assert first["confidence"] == "low"
    # no longer than the shortest row that B prints
    assert first["evidence"][0] == "Up to 10.0 ms of this may be on the other side, too, in rows that were not printed."


def test_types_that_names_tell(explained):
    wide, narrow = ([(f"void stencil<{one}>({one}*, int)", 2, ms)] for one, ms in (("float", 9.0), ("__half", 8.0)))
    (first,) = explained((wide, []), (narrow, []))["findings"]
    assert first["title"] == "other types: A computes in f32, B in f16; 9.00 ms in A, 8.00 ms in B"
    assert first["confidence"] == "medium"
    assert not any(one["cause"] == "precision" for one in explained((wide, []), ([(narrow[0][0], 2, 12.0)], []))["findings"])


def test_fused_kernels_that_take_longer_are_no_reason_to_compile(explained):
    many = [(f"void at::native::vectorized_elementwise_kernel<4, at::native::f{n}>(int)", 100, 10.0) for n in range(4)]
    (first,) = explained((many, []), ([("triton_poi_fused_add_mul_0", 100, 60.0)], []))["findings"]
    assert first["title"] == "fused kernels of B take longer than the kernels of A that they replace: 40.0 ms in A, 60.0 ms in B"
    assert "compiler" in first["remedy"]
    assert "torch.compile the model" not in first["remedy"]


def test_a_dropout_of_pytorch_s_own_is_no_fused_kernel(explained):
    dropout = "void at::native::_GLOBAL__N__1::fused_dropout_kernel_vec<float>(int)"
    many = [(f"void at::native::vectorized_elementwise_kernel<4, at::native::f{n}>(int)", 100, 10.0) for n in range(4)]
    result = explained(([*many[:2], (dropout, 20, 30.0)], []), (many, []))
    assert not any("fusion" in one["cause"] for one in result["findings"])


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ((20.0, 6.0), "the host's own time adds up to 14.0 ms more in A, waits and the profiler's cost included: "),
        ((7.0, 2.0), None),  # a host that waits for the device, mostly
        ((20.0, 19.9), None),
    ],
)
def test_what_the_host_s_own_time_adds_up_to_in_torch_s_tables(tmp_path, hosts, said):
    paths = []
    for name, host, device in zip("ab", hosts, (5.0, 5.5), strict=True):
        paths.append(tmp_path / f"{name}.txt")
        own = f"{host:.3f}ms", f"{device:.3f}ms"
        rows = [
            row("aten::linear", own[0], own[0], "0.000us", "100"),
            row("ampere_sgemm_128x64_nn", "0.000us", "0.000us", own[1], "100"),
        ]
        paths[-1].write_text(printed(NEW, rows, [f"Self CPU time total: {own[0]}", f"Self CUDA time total: {own[1]}"]))
    assert ks.explain(*paths)["calls"] == (said and said + "20.0 ms in A, 6.00 ms in B")


def in_two_ways(tmp_path, kernels_ms=5, total_ms=5):
    """Explain a table of operators, 5 ms, against one of kernels."""
    operators = row("aten::mm", "1.000ms", "1.000ms", "5.000ms", "10")
    kernels = row("ampere_sgemm_128x64_nn", "0.000us", "0.000us", f"{kernels_ms}.000ms", "10")
    paths = []
    for name, one, whole in (("a", operators, 5), ("b", kernels, total_ms)):
        paths.append(tmp_path / f"{name}.txt")
        paths[-1].write_text(printed(NEW, [one], [f"Self CUDA time total: {whole}.000ms"]))
    return ks.explain(*paths)


def test_tables_of_one_profile_that_are_counted_in_two_ways_get_no_cause(tmp_path):
    assert in_two_ways(tmp_path)["findings"] == []


def test_whole_tables_that_are_counted_in_two_ways_are_compared_by_kind(tmp_path):
    (finding,) = in_two_ways(tmp_path, 8, 8)["findings"]
    assert finding["title"] == "gemm work takes longer in B than in A: 5.00 ms in A, 8.00 ms in B"
    assert finding["explains_ns"] == 3_000_000
    assert finding["evidence"][1:] == ["A: aten::mm.", "B: ampere_sgemm_128x64_nn."]


def test_cut_tables_that_are_counted_in_two_ways_get_no_cause(tmp_path):
    result = in_two_ways(tmp_path, 6, 8)
    assert result["findings"] == []
    assert result["abstained"].startswith("A's table is counted by operator, B's by kernel, and rows were not printed")
    assert result["parts"] == [{"part": "all work", "delta_ns": 3_000_000}]
    assert [(row["layer"], row["delta_ns"]) for row in result["rows"]] == [("all work", 3_000_000)]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("copy_kernel(float*)", "transpose_kernel(float*)"), "in B, move tiles through shared memory"),
        (("join(int*)", "join_atomic(int*)"), "in B, use fewer of them"),
        (("transpose_naive(float*)", "transpose_shared(float*)"), None),  # the slower one has its tiles
        (("copy_kernel(float*)", "transposition(float*)"), None),
        (("sgemm_transpose_a(float*)", "sgemm_transpose_b(float*)"), None),  # products, with an operand transposed
    ],
    ids=["transposition", "atomic", "in shared memory", "another word", "products"],
)
def test_what_a_name_says_is_told_with_what_mostly_helps(explained, names, said):
    (found,) = explained(([(names[0], 10, 20.0)], []), ([(names[1], 10, 60.0)], []))["findings"]
    hints = [text for text in ("shared memory", "use fewer") if text in found["remedy"]]
    assert bool(hints) is bool(said)
    assert not said or said in found["remedy"]


@pytest.mark.parametrize(("copied", "same"), [(90.0, True), (50.0, False)])
def test_equal_copies_mean_equal_data(explained, copied, same):
    both = [(HTOD, 3, 89.4)], [(HTOD, 3, copied)]
    found = explained(([("add(float*)", 1, 2300.0), *both[0]], []), ([("add(float*)", 1, 135.0), *both[1]], []))["findings"]
    first = next(one for one in found if "add takes" in one["title"])
    assert ("the data seems to have one size on both sides" in first["remedy"]) is same
    assert ("whether A's problem is larger" in first["remedy"]) is not same


def test_copies_of_all_directions_are_told_in_one_sentence(explained):
    (first,) = explained(([*SAXPY, (DTOH, 2, 13.3), (HTOD, 2, 14.0)], []), (SAXPY, []))["findings"]
    assert "Device to host: 13.3 ms in A, none in B; host to device: 14.0 ms in A, none in B." in first["evidence"]
