from itertools import permutations

import pytest

from kernelscope.analysis import published


def cell(framework, rate, **more):
    row = {
        "sweep": "s", "framework": framework, "network": "lenet", "mode": "train", "batch": 64, "threads": 2, "device": "cpu",
        "devices": 1,
        "precision": None, "layout": None, "autotune": None, "hardware": "ours", "status": "done", "samples_per_second": rate,
        "gpu_memory_mib": None, "power_w": None,
    }  # fmt: skip
    return {**row, **more}


CELLS = [cell("pytorch", 10_000.0), cell("tensorflow", 9_000.0), cell("mxnet", 12_000.0), cell("cntk", 3_000.0)]
ON_CPU = {"CNTK": 1573, "TensorFlow": 818, "PyTorch": 1448, "MXNet": 1000}  # thesis, LeNet on cpu


def spearman(one, other):
    def ranks(values):
        return [sorted(values).index(value) + 1 for value in values]

    n = len(one)
    return 1 - 6 * sum((a - b) ** 2 for a, b in zip(ranks(one), ranks(other), strict=True)) / (n * (n * n - 1))


def test_ratios_are_to_one_framework_on_either_side():
    group = published.compare(CELLS)[0]
    assert (group.source, group.network, group.hardware, group.metric) == ("thesis", "LeNet", "cpu", "throughput")
    assert (group.same_kind, group.reference, group.n) == (True, "pytorch", 4)
    ratios = {pair.framework: (pair.published_ratio, pair.measured_ratio) for pair in group.pairs}
    assert ratios["pytorch"] == (1.0, 1.0)
    assert ratios["tensorflow"] == (pytest.approx(ON_CPU["TensorFlow"] / ON_CPU["PyTorch"]), pytest.approx(0.9))
    assert ratios["mxnet"] == (pytest.approx(ON_CPU["MXNet"] / ON_CPU["PyTorch"]), pytest.approx(1.2))


def test_rank_correlations_and_their_exact_p():
    group = published.compare(CELLS)[0]
    one, other = ([getattr(pair, side) for pair in group.pairs] for side in ("published", "measured"))
    rho = spearman(one, other)
    assert group.spearman == pytest.approx(rho)
    orders = [abs(spearman(list(order), other)) for order in permutations(one)]
    assert group.spearman_p == pytest.approx(sum(found >= abs(rho) - 1e-12 for found in orders) / 24)
    concordant = sum(
        ((a - c) * (b - d) > 0) * 2 - 1
        for i, (a, b) in enumerate(zip(one, other, strict=True))
        for c, d in list(zip(one, other, strict=True))[:i]
    )
    assert group.kendall == pytest.approx(concordant / 6)
    assert 0 < group.kendall_p <= 1


def test_two_frameworks_have_ratios_and_no_correlation():
    group = published.compare(CELLS[:2])[0]
    assert (group.n, group.spearman, group.spearman_p, group.kendall, group.kendall_p) == (2, None, None, None, None)
    assert published.compare(CELLS[:1]) == []


def test_groups_never_mix_conditions():
    rows = [*CELLS[:2], cell("mxnet", 1.0, batch=128), cell("cntk", 1.0, status="failed", samples_per_second=None)]
    groups = published.compare(rows)
    assert {group.n for group in groups} == {2}
    assert all({pair.framework for pair in group.pairs} == {"pytorch", "tensorflow"} for group in groups)
    assert [group.same_kind for group in groups] == [True, False, False, False, False]


def test_power_and_memory_are_compared_on_gpus_only():
    on_gpu = [cell(name, 1000.0, device="cuda", gpu_memory_mib=100.0, power_w=None) for name in ("pytorch", "mxnet")]
    metrics = {group.metric for group in published.compare([*CELLS, *on_gpu])}
    assert metrics == {"throughput", "gpu_memory"}, "power is unknown, and memory of a processor's run is none"
    same = [group for group in published.compare(on_gpu) if group.same_kind]
    assert {group.hardware for group in same} == {"1xK20m", "1xP100"}


def test_times_are_compared_by_the_sample():
    rows = [cell(name, rate, network="cifarcnn", device="cuda") for name, rate in (("pytorch", 500.0), ("chainer", 250.0))]
    group = next(group for group in published.compare(rows) if group.hardware == "1xK80")
    pair = next(pair for pair in group.pairs if pair.framework == "chainer")
    assert (pair.published_ratio, pair.measured_ratio) == (pytest.approx(162 / 169), pytest.approx(2.0))
