"""Rows become tables with the declared types, whatever they came as."""

import pandas as pd
import pytest

from kernelscope.analysis.trace import conform


@pytest.mark.parametrize("nothing", [None, float("nan"), pd.NA])
def test_a_column_of_texts_without_any_is_one_of_texts(nothing):
    rows = pd.DataFrame({"name": ["k"], "count": [1], "duration_ns": [5], "device": [nothing]})
    device = conform("kernels", rows)["device"]
    assert device.dtype == "category"
    assert device.isna().all()
