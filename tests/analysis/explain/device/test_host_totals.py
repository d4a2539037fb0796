"""What the host's totals say beside the device's: which side is slower, a cold recording, a slower processor, and waits."""

import pytest

import kernelscope as ks
from kernelscope.reports import explanation
from tests.analysis.formats.torch_table.made import NEW, printed

HEADING = NEW[:11]


def row(name, host_ms, device_ms, count):
    host, device = f"{host_ms:.3f}ms", f"{device_ms:.3f}ms"
    return (name, "1%", host, "1%", host, "1.000us", device, "1%", device, "1.000us", str(count))


@pytest.fixture
def explained(tmp_path):
    """Explain two tables: (rows, the host's sum) each."""

    def run(*sides):
        paths = []
        for name, (rows, host_ms) in zip("ab", sides, strict=True):
            device = sum(float(one[6][:-2]) for one in rows if not one[0].startswith("aten"))
            totals = [f"Self CPU time total: {host_ms:.3f}ms", f"Self CUDA time total: {device:.3f}ms"]
            paths.append(tmp_path / f"{name}.txt")
            paths[-1].write_text(printed(HEADING, rows, totals))
        return ks.explain(*paths)

    return run


def kernels(products_ms, more=()):
    return [row("ampere_sgemm_128x64_nn", 0, products_ms, 10), *more]


EXTRA = row("void at::native::reduce_kernel<512, 1>(float*)", 0, 4, 4)


def test_the_answer_begins_with_the_host_where_it_says_the_opposite_by_more(explained):
    result = explained((kernels(49), 51), (kernels(40, [EXTRA]), 130))
    said = explanation.answer(result)
    assert said.startswith(
        "B takes 79.0 ms longer on the host (51.0 ms \u2192 130 ms), while its kernels and copies add up to 5.00 ms less"
    )
    assert explanation.brief(result)[1].startswith("B takes 79.0 ms longer on the host")
    assert not any("is the faster side" in one["remedy"] for one in result["findings"])
    assert "the printed operators and calls hold less than half of it; try: print key_averages()" in result["calls"]


@pytest.mark.parametrize(
    ("a_ms", "b_ms"), [(51, 52), (130, 51), (None, None)], ids=["no more than the device", "the same way", "unknown"]
)
def test_it_begins_with_the_device_elsewhere(explained, a_ms, b_ms):
    result = explained((kernels(49), a_ms or 0), (kernels(40, [EXTRA]), b_ms or 0))
    assert explanation.answer(result).startswith("Kernels and copies of B add up to 5.00 ms less than those of A (-10%)")
    assert result["host_ns"] is None


# --- a cold recording -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "slow_ms", "cold"),
    [(30, 33.4, True), (30, 0.9, False), (5000, 400.0, False)],
    ids=["cold", "a little slower", "a queue that is full"],
)
def test_as_many_launches_that_take_far_longer_are_a_first_use(explained, count, slow_ms, cold):
    launches = [row("cudaLaunchKernel", ms, 0, count) for ms in (slow_ms, 0.154 if count == 30 else 20.0)]
    first = [launches[0], row("cudaMalloc", 4.896, 0, 7)]
    result = explained(([*kernels(2), *first], 70), ([*kernels(2), launches[1]], 70))
    said = result["calls"] or ""
    assert ("as at the first use, when kernels are loaded" in said) is cold
    assert "CUDA graph" not in said, "their number is not what differs"
    assert ("as many calls take longer in A" in said) is not cold
    if cold:
        assert said.startswith(
            "the host spends 38.1 ms more in API calls in A, apart from the device's work: cudaLaunchKernel 30 calls"
        )
        assert "cudaMalloc 7 calls (4.90 ms) in A, none in B" in said
        assert "run the work several times before you record A" in said


# --- a slower processor ---------------------------------------------------------------------------------------------------------

NAMES = ("mm", "mul", "add_", "sum", "copy_", "to")


@pytest.mark.parametrize(
    ("times", "told"),
    [((2.0,) * 6, True), ((20.0, 1.0, 1.0, 1.0, 1.0, 1.0), False)],
    ids=["all operators", "one, which may compute there"],
)
def test_operators_called_equally_often_show_a_slower_host(explained, times, told):
    sides = [[row(f"aten::{name}", 100 * ratio, 0, 500) for name, ratio in zip(NAMES, ratios, strict=True)]
             for ratios in ((1.0,) * 6, times)]  # fmt: skip
    sums = [sum(float(one[2][:-2]) for one in side) for side in sides]
    result = explained(([*kernels(49), *sides[0]], sums[0]), ([*kernels(55), *sides[1]], sums[1]))
    sentence = "in operators that both sides call equally often the host spends 2 times as long in B (aten::"
    assert (sentence in result["calls"]) is told
    assert ("the processor or the profiler was slower" in result["calls"]) is told


# --- waits ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("waits", "told"), [((273, 140), True), ((140, 140), False)], ids=["waits", "other work"])
def test_waits_that_make_the_host_s_time_differ_are_a_note(explained, waits, told):
    sides = [([*kernels(148), row("cudaDeviceSynchronize", ms, 0, 1)], host) for ms, host in zip(waits, (280, 150), strict=True)]
    result = explained(*sides)
    assert result["findings"] == []
    notes = [
        note for note in result["notes"] if "waiting for the device (cudaDeviceSynchronize: 273 ms in A, 140 ms in B)" in note
    ]
    assert bool(notes) is told


# --- copies on the host beside a device that differs more -----------------------------------------------------------------------


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("name", "slow_ms", "fast_ms", "told"),
    [
        ("aten::copy_", 620, 2, True),
        ("aten::copy_", 620, 200, False),
        ("aten::copy_", 60, 2, False),
        ("aten::sum", 620, 2, False),
    ],
    ids=["one side", "both sides", "short", "no copy"],
)
def test_copies_in_which_one_side_s_host_is_are_a_note(explained, turned, name, slow_ms, fast_ms, told):
    """The device takes 875 and 206 ms: 669 ms more, and the host 644 ms."""
    sides = (
        (kernels(875, [row(name, slow_ms, 0, 2854)]), slow_ms + 53),
        (kernels(206, [row(name, fast_ms, 0, 4474)]), fast_ms + 27),
    )
    result = explained(*(sides[::-1] if turned else sides))
    said = [note for note in result["notes"] if "the host spends" in note]
    assert result["calls"] is None
    assert bool(said) is told
    slower, faster = ("B", "A") if turned else ("A", "B")
    if told:
        assert said[0].startswith(f"the host spends 620 ms in aten::copy_ in {slower}, 2.00 ms in {faster}: most of")
        assert "of which waiting for the device may be a part); try: find what triggers these copies" in said[0]
