"""Hardware counters as evidence: which unit of the device the slower kernel keeps busy, and whether clocks differ."""

from kernelscope.analysis.explain import pair
from tests.analysis.formats.ncu.pages import launch, launched, occupancy, rule, section, speed


def explained(tmp_path, a, b):
    paths = [tmp_path / "before.txt", tmp_path / "after.txt"]
    for path, text in zip(paths, (a, b), strict=True):
        path.write_text(text)
    result = pair.read(*paths).explain()
    assert sum(row["delta_ns"] for row in result["rows"]) == result["wall_delta_ns"]
    return result


def test_the_units_that_a_kernel_keeps_busy_on_each_side(tmp_path):
    a = launch("sums(float *)", speed("3.84", 2.08, 17.98, 17.06, 99.84), occupancy(100, 25))
    b = launch("sums(float *)", speed("2.71", 3.94, 25.56, 21.48, 9.17), occupancy(100, 50))
    (finding,) = explained(tmp_path, a, b)["findings"]
    assert finding["explains_ns"] == -1_130_000
    assert finding["evidence"][-5:] == [
        "In A, sums keeps the L1 cache busy, 100% of its peak, and little else.",
        "In B, sums keeps no unit busy: its blocks end at different times.",
        "For about as many instructions the L1 cache works 15.4 times as long in A as in B: its threads access addresses that "
        "are further apart, or banks of shared memory that conflict.",
        "Of their peaks sums uses in A: arithmetic 2%, device memory 18%, L2 cache 17%, L1 cache 100%.",
        "Of their peaks sums uses in B: arithmetic 4%, device memory 26%, L2 cache 21%, L1 cache 9%.",
    ]
    assert finding["remedy"].startswith("in A: let neighbouring threads read neighbouring addresses")


def test_the_same_work_in_fewer_blocks_is_no_larger_problem(tmp_path):
    """4,096 blocks take 0.5 ms, one block takes 3.9 ms: the side with more blocks is the faster one."""
    a = launch("add(float *)", speed("0.50", 2, 1, 49, 1), grid="(4096, 1, 1)")
    (finding,) = explained(tmp_path, a, launch("add(float *)", speed("3.93", 0.1, 2, 1, 5), grid="(1, 1, 1)"))["findings"]
    assert finding["cause"] == "slower kernels"
    assert finding["remedy"].startswith("in B: launch more blocks")


def test_two_kernels_alone_are_compared_whatever_their_kind(tmp_path):
    a, b = launch("reduce_a(float *)", speed("0.05", 17, 75, 27, 23)), launch("atomic_red(float *)", speed("20.4", 0, 0, 1, 1))
    (finding,) = explained(tmp_path, a, b)["findings"]
    assert finding["explains_ns"] == 20_350_000
    assert "use one atomic operation for each block" in finding["remedy"]


def test_other_clocks_are_told_first(tmp_path):
    a = launch("sums(float *)", speed("3.84", 2.08, 17.98, 17.06, 99.84, clock="0.70"))
    b = launch("sums(float *)", speed("1.92", 2.08, 17.98, 17.06, 99.84, clock="1.41"))
    (finding,) = explained(tmp_path, a, b)["findings"]
    said = [sentence for sentence in finding["evidence"] if "clocks" in sentence]
    assert said == ["The clocks differ: 700 MHz in A, 1,410 MHz in B."]


def told(tmp_path, a, b):
    """Return the evidence and the remedy of the only finding."""
    (finding,) = explained(tmp_path, a, b)["findings"]
    return finding["evidence"], finding["remedy"]


def test_few_blocks_are_named_before_a_cache_that_few_multiprocessors_keep_busy(tmp_path):
    """4 blocks on 40 multiprocessors, active in 6% of the cycles: 92% of the L1 cache is 5% of all cycles."""
    a = launch("trmv(float *)", speed("0.347", 0.8, 2, 0.4, 91.6, 5.36, active=0.0585), launched(24, 40, 0.03), grid="(4, 1, 1)")
    b = launch("trmv2(float *)", speed("0.013", 26, 40, 10, 41, active=0.64), launched(29, 40, 0.8), grid="(128, 1, 1)")
    evidence, remedy = told(tmp_path, a, b)
    first = evidence.index("Launched in 4 blocks of 256 threads in A, in 128 blocks of 256 threads in B.")
    assert evidence[first + 1 : first + 3] == [
        "In A, trmv keeps no unit busy: its grid is too small (4 blocks, 36 of 40 multiprocessors idle).",
        "In B, trmv2 keeps no unit busy: its grid is too small (multiprocessors are active in 64% of the cycles).",
    ]
    assert any("L1 cache 5% (92% while multiprocessors are active)." in sentence for sentence in evidence)
    assert remedy.startswith(
        "in A: launch more blocks: split the work further, or batch several problems into one launch (B has 128"
    )
    assert "Active multiprocessors keep the L1 cache busy, too: let neighbouring threads" in remedy


def test_blocks_of_one_thread(tmp_path):
    a = launch("add(float *)", speed("575", 0.02, 1.7, 0.9, 0.8), grid="(1, 1, 1)", block="(1, 1, 1)")
    b = launch("add(float *)", speed("3.93", 0.1, 2, 1, 5), grid="(1, 1, 1)", block="(256, 1, 1)")
    evidence, remedy = told(tmp_path, a, b)
    assert evidence[0] == "Launched in 1 block of 1 thread in A, in 1 block of 256 threads in B."
    assert "In A, add keeps no unit busy: its grid and its blocks are too small." in evidence
    assert "In B, add keeps no unit busy: its grid is too small." in evidence
    assert remedy == "in A: launch blocks of 128 to 256 threads, and more of them (B has 1 block of 256 threads)"


def test_one_grid_on_both_sides_is_no_difference(tmp_path):
    """Both sides have 64 blocks; one's accesses take the L1 cache 8 times as long: 22.57 ms * 40.66% against 5.74 ms * 20%."""
    small = rule("OPT", "This kernel grid is too small to fill the available resources on this device, resulting in only 0.5",
                 "full waves across all SMs. Look at Launch Statistics for more details.")  # fmt: skip
    a = launch("rows(float *)", speed("22.57", 2.54, 30, 24, 48.35, memory=40.66, active=0.841), small, grid="(64, 1, 1)")
    b = launch("columns(float *)", speed("5.74", 10, 98, 26, 20, active=1), grid="(64, 1, 1)")
    evidence, remedy = told(tmp_path, a, b)
    assert not any(sentence.startswith("Launched") for sentence in evidence)
    assert "In A, rows keeps no unit busy: its grid is too small (multiprocessors are active in 84% of the cycles)." in evidence
    assert any(
        sentence.startswith("For about as many instructions the L1 cache works 7.99 times as long in A") for sentence in evidence
    )
    assert evidence[-1].startswith('Nsight Compute: "This kernel grid is too small to fill')
    assert evidence[-1].endswith('full waves across all SMs. Look at Launch Statistics for more details." (in A)')
    assert remedy.startswith("in A: let neighbouring threads read neighbouring addresses (coalescing), as B seems to")


def test_more_instructions_are_not_said_to_be_spread_accesses(tmp_path):
    a = launch("one(float *)", speed("8", 30, 30, 24, 48, memory=48), occupancy(100, 90))
    b = launch("other(float *)", speed("4", 20, 30, 26, 20), occupancy(100, 90))
    evidence, _ = told(tmp_path, a, b)
    assert not any("as many instructions" in sentence for sentence in evidence)


def test_rules_are_not_quoted_where_counters_tell(tmp_path):
    text = rule("OPT", "Est. Speedup: 90%", "Something else.")
    a = launch("sums(float *)", speed("3.84", 2.08, 17.98, 17.06, 99.84), text)
    evidence, _ = told(tmp_path, a, launch("sums(float *)", speed("1.20", 4, 90, 20, 9)))
    assert not any("Nsight Compute" in sentence for sentence in evidence)


def test_other_gpus_are_told_first_by_their_compute_capability(tmp_path):
    a = launch("sums(float *)", speed("96", 6, 0.5, 0.4, 98, clock="0.6"), capability="7.5")
    b = launch("sums(float *)", speed("15", 23, 0.4, 5, 99, clock="1.5"), capability="8.9")
    evidence, remedy = told(tmp_path, a, b)
    assert evidence[0] == "Compute capability 7.5 in A, compute capability 8.9 in B."
    assert not any("as many instructions" in sentence for sentence in evidence)
    assert remedy.startswith("run both on one GPU to see what the programs themselves differ by; in A: let neighbouring")


def test_other_gpus_of_one_capability_by_their_multiprocessors(tmp_path):
    a = launch("sums(float *)", speed("96", 6, 0.5, 0.4, 98), launched(32, 24))
    b = launch("sums(float *)", speed("15", 23, 0.4, 5, 99), launched(32, 66))
    evidence, _ = told(tmp_path, a, b)
    assert evidence[0].startswith("Different GPUs, or parts: 24 multiprocessors in A, 66 in B; ")


def test_products_whose_tiles_tell_of_another_size(tmp_path):
    """512 blocks compute tiles of 256x128: 16.8 million elements; 1.05 million threads compute 16 times fewer, if one each."""
    a = launch("matmul(float *)", speed("15.6", 23, 0.4, 5, 99), grid="(64, 64, 1)", block="(16, 16, 1)")
    name = "void cutlass::Kernel<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)"
    evidence, _ = told(tmp_path, a, launch(name, speed("4.77", 81, 15, 23, 44), grid="(256, 2, 1)"))
    (said,) = [sentence for sentence in evidence if "same product" in sentence]
    assert "at most 16,777,216 elements, and A has 1,048,576 threads" in said
    assert "16 times smaller" in said


def test_products_of_one_size_are_not_doubted(tmp_path):
    a = launch("matmul(float *)", speed("15.6", 23, 0.4, 5, 99), grid="(256, 256, 1)", block="(16, 16, 1)")
    name = "void cutlass::Kernel<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)"
    evidence, _ = told(tmp_path, a, launch(name, speed("4.77", 81, 15, 23, 44), grid="(256, 2, 1)"))
    assert not any("same product" in sentence or "at most so many" in sentence for sentence in evidence)


def test_a_kernel_without_a_name_is_called_it(tmp_path):
    a, b = speed("3.28", 3.12, 29, 43, 99.6, active=0.995), speed("0.77", 13, 90, 94, 27, active=0.97)
    evidence, _ = told(tmp_path, a, b)
    assert "In A, it keeps the L1 cache busy, 100% of its peak, and little else." in evidence
    assert not any("without a name" in sentence for sentence in evidence)


def hits(percent):
    return section("Memory Workload Analysis", {"L1/TEX Hit Rate": ("%", f"{percent:.2f}")})


TILED = "blocked_product(float *)"


def test_tiles_in_shared_memory_are_told_by_the_hit_rate(tmp_path):
    a = launch("plain_product(float *)", speed("90", 78, 11, 5, 79, memory=78), hits(93))
    b = launch(TILED, speed("61", 75, 12, 6, 90, memory=75), hits(0.6))
    evidence, remedy = told(tmp_path, a, b)
    assert evidence[0].startswith(
        "B keeps tiles in shared memory: hardly any access finds data in the L1 cache (hit rate 93% in A"
    )
    assert remedy.startswith("in A: keep tiles that are read again in shared memory, as B does")
    evidence, remedy = told(tmp_path, b, a)
    assert evidence[0].startswith("A keeps tiles in shared memory")
    assert remedy.startswith("in B: keep tiles")


def test_data_that_is_read_once_is_no_tile(tmp_path):
    """Streaming misses the cache, too, but leaves it idle."""
    a = launch("plain(float *)", speed("90", 78, 11, 5, 79, memory=78), hits(93))
    evidence, remedy = told(tmp_path, a, launch("stream(float *)", speed("61", 12, 88, 60, 20), hits(0.6)))
    assert not any("tiles in shared memory:" in sentence for sentence in evidence)
    assert "as B does" not in remedy


def test_memory_traffic_that_is_gone_is_told(tmp_path):
    a = launch("shade(Object *)", speed("900", 60, 45, 58, 66, memory=60))
    b = launch("shade(Object *)", speed("240", 50, 0.2, 9, 52, memory=50))
    evidence, remedy = told(tmp_path, a, b)
    assert evidence[0] == (
        "B moves far fewer bytes. At their peaks the units would need for them: device memory 405 ms in A, 480 µs in B; "
        "the L2 cache 522 ms in A, 21.6 ms in B."
    )
    assert remedy.startswith("in A: move fewer bytes, as B does")


def test_memory_traffic_that_stays_is_not(tmp_path):
    a = launch("shade(Object *)", speed("900", 60, 45, 58, 66, memory=60))
    evidence, remedy = told(tmp_path, a, launch("shade(Object *)", speed("240", 50, 44, 50, 52, memory=50)))
    assert not any("fewer bytes" in sentence for sentence in evidence)
    assert "fewer bytes" not in remedy


def test_accesses_that_are_as_coalesced_on_both_sides_are_not_to_be_coalesced(tmp_path):
    a = launch("walk(float *)", speed("90", 55, 20, 20, 85), occupancy(100, 90))
    _, remedy = told(tmp_path, a, launch("walk(float *)", speed("60", 60, 25, 25, 80), occupancy(100, 90)))
    assert remedy.startswith("in A: keep what is read again in registers")
