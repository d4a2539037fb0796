"""Every capture of the corpus: each kernel is counted once, and tables and accounts add up to the step."""

import pytest

import kernelscope as ks
from kernelscope.analysis.accounting.breakdowns import BY, breakdowns
from kernelscope.analysis.attribution import steps
from tests.analysis.accounting.corpus import captures
from tests.analysis.accounting.unions import assert_adds_up, assert_counts_every_kernel


@pytest.fixture(scope="module", params=captures())
def trace(request):
    found = ks.read(request.param)
    if found.kernels.empty:
        pytest.skip("captures without kernels")
    return found


def test_every_kernel_is_counted_once_and_every_table_adds_up_to_the_step(trace):
    tables = {by: found for by, found in breakdowns(trace, tuple(BY)).items() if not isinstance(found, str)}
    rows = tables["kernel"].table
    rows = rows[~rows["kernel"].str.startswith("(").to_numpy(bool)]
    assert int(rows["count"].sum()) == int(trace.kernels["count"].sum())
    assert int(rows["duration_ns"].sum()) == int(trace.kernels["duration_ns"].sum())
    for by, found in tables.items():
        if by != "line" and found.step_ns is not None:
            assert int(found.table["time_ns"].sum()) == found.step_ns, by


def test_accounts_of_steps_and_of_the_whole_add_up(trace):
    if not trace.kernels["start_ns"].notna().any():
        assert_totals_add_up(trace)
        return
    found = steps.find(trace)
    applied = steps.applied(trace, found)
    assert_counts_every_kernel(applied, assert_adds_up(applied))
    if found is not None:
        assert_adds_up(steps.applied(trace, None))


def assert_totals_add_up(trace):
    done = assert_adds_up(trace)
    assert done.step_ns == int(trace.kernels["duration_ns"].sum()) + int(trace.copies["duration_ns"].sum())
    assert done.rows["count"].sum() == trace.kernels["count"].sum() + trace.copies["count"].sum()
