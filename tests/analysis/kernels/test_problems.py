"""What kernels of a capture work on, held against the shapes that stand in the file itself."""

import gzip
import json
from collections import Counter

from kernelscope.analysis.recordings import reading
from tests.places import corpus

TIMESFORMER = "kineto/AMD-AGI__TraceLens__h100_timesformer.json.gz"


def test_products_of_a_capture_have_the_shapes_of_their_operators():
    path = corpus(TIMESFORMER)
    with gzip.open(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    operators = {
        one["args"]["External id"]: one for one in events if one.get("cat") == "cpu_op" and "External id" in one.get("args", {})
    }
    factors = {"aten::mm": slice(0, 2), "aten::addmm": slice(1, 3), "aten::bmm": slice(0, 2)}
    expected = Counter()
    for one in events:
        operator = operators.get(one.get("args", {}).get("External id")) if one.get("cat") == "kernel" else None
        if operator and operator["name"] in factors and "elementwise" not in one["name"]:
            shapes = operator["args"]["Input Dims"][factors[operator["name"]]]
            expected[one["name"], ":".join("x".join(map(str, shape)) for shape in shapes)] += 1
    kernels = reading.read(path).kernels
    mine = kernels[kernels["kind"] == "gemm"]
    found = Counter(zip(mine["name"].astype(str), mine["problem"].astype(str), strict=True))
    assert found == expected
    assert len(expected) == 11
    assert sum(expected.values()) == 133


def test_only_what_depends_on_a_problem_has_one_in_a_capture():
    kernels = reading.read(corpus(TIMESFORMER)).kernels
    known = set(kernels[kernels["problem"].notna()]["kind"].astype(str))
    assert "gemm" in known
    assert not known & {"elementwise", "activation", "normalisation", "softmax", "reduction"}
