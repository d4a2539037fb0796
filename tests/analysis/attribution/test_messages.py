"""Sizes and bandwidths of collectives: those that others worked out, and shapes and arguments as PyTorch writes them."""

import pandas as pd
import pytest

from kernelscope.analysis.attribution.messages import bandwidths, bus_factor, messages
from kernelscope.analysis.ranks.job import job
from kernelscope.analysis.trace import Trace, conform
from tests.places import corpus


def test_bandwidth_of_megatron_is_that_of_nccl_tests_formulas():
    """64 MiB on 8 A100: 603 us, 111.3 GB/s and 194.8 on the bus, from the ranks' least durations (corpus/ranks/MANIFEST.md)."""
    rows = job(sorted(corpus("ranks/megatron_tp8").glob("*.json.gz")), workers=1)["collectives"]
    large = [row for row in rows if row["bytes"] == 64 * 2**20]
    assert [(row["operation"], row["count"], row["members"]) for row in large] == [("all-reduce", 81, 8)]
    assert large[0]["algorithm_gb_s"] == pytest.approx(111.3, rel=0.03)
    assert large[0]["bus_gb_s"] == pytest.approx(194.8, rel=0.03)
    assert sum(row["count"] for row in rows) == 84


@pytest.mark.parametrize(
    ("operation", "members", "factor"),
    [("all-reduce", 8, 1.75), ("all-gather", 4, 0.75), ("reduce-scatter", 2, 0.5), ("all-to-all", 4, 0.75), ("broadcast", 8, 1)],
)
def test_what_a_link_carries(operation, members, factor):
    assert bus_factor(operation, members) == factor


CASES = [  # shapes, types, arguments, operation, element type of the kernel -> bytes, members
    ('[[[4, 8], [2]], [], []]', '["TensorList", "Scalar", ""]', '["", "7", "8"]', "all-reduce", "f16", 34 * 2, 8),
    ('[[25136], [], []]', '["c10::BFloat16", "", "Scalar"]', '["", "", "4"]', "all-gather", None, 25136 * 2 * 4, 4),
    ('[[], []]', '["Scalar", "Scalar"]', '["337", "1"]', "barrier", "f32", None, 1),
    ('[[16], []]', '["float", "Scalar"]', None, "all-reduce", None, 64, None),
    ('[[16], []]', '["float", "Scalar"]', None, "all-gather", None, None, None),
    ('[[16', "no JSON", '["x"]', "all-reduce", "f32", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("shapes", "types", "arguments", "operation", "dtype", "size", "members"), CASES)
def test_what_an_operator_tells(shapes, types, arguments, operation, dtype, size, members):
    operator = {"name": "record_param_comms", "thread": 1, "start_ns": 10, "end_ns": 30, "shapes": shapes, "types": types,
                "arguments": arguments}  # fmt: skip
    kernel = {"name": "nccl", "kind": "communication", "dtype": dtype, "launch_ns": 20, "launch_thread": 1, "count": 1,
              "start_ns": 40, "end_ns": 50, "duration_ns": 10}  # fmt: skip
    kernels = conform("kernels", [kernel, {**kernel, "launch_ns": 35}])
    found = messages(Trace(operators=conform("operators", [operator])), kernels, pd.Series([operation] * 2))
    assert [None if pd.isna(value) else value for value in found.iloc[0]] == [size, members, None]
    assert found.iloc[1].isna().all()  # launched by something else


def test_without_a_size_or_a_time_there_is_no_bandwidth():
    table = pd.DataFrame({"operation": "all-reduce", "bytes": pd.array([1000, None, 1000], dtype="Int64"),
                          "members": pd.array([2, 2, 2], dtype="Int64"), "transfer_ns": [10.0, 10.0, 0.0]})  # fmt: skip
    found = bandwidths(table)
    assert found["algorithm_gb_s"].tolist() == pytest.approx([100.0, float("nan"), float("nan")], nan_ok=True)
    assert found["bus_gb_s"].tolist() == pytest.approx([100.0, float("nan"), float("nan")], nan_ok=True)
