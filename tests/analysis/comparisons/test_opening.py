"""Comparisons that somebody changed are told in one line, with the place."""

import json
import re

import pytest

from kernelscope.analysis.comparisons.opening import recorded_comparison
from kernelscope.analysis.errors import EvidenceError

RECORD = {
    "schema": "kernelscope/compare/1",
    "frameworks": ["a"],
    "summary": [{"framework": "a", "step_median_ns": 5}],
    "kinds": [{"kind": "gemm", "time_ns": {"a": 5}}],
    "fairness": {"failed": False, "rows": []},
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kinds": [{"time_ns": -0.0}]}, r"Expected object, got float - at \$\.kinds\[0\]\.time_ns; record it again"),
        ({"layers": [{"layer": 0}]}, r"Object missing required field time_ns - at \$\.layers\[0\]; record it again"),
        ({"summary": [{"framework": "b", "step_median_ns": 5}]}, "its summary has no row for a; compare again"),
        ({"fairness": {"rows": [0]}}, r"Expected object, got int - at \$\.fairness\.rows\[0\]; record it again"),
    ],
)
def test_what_is_of_another_type_is_told_with_its_place(tmp_path, changed, said):
    file = tmp_path / "compare.json"
    file.write_text(json.dumps(RECORD))
    assert recorded_comparison([tmp_path]) == RECORD
    file.write_text(json.dumps({**RECORD, **changed}))
    with pytest.raises(EvidenceError, match=re.escape(f"{file}: ") + said):
        recorded_comparison([tmp_path])
