"""Operations of XLA and the calls that launched them."""

import pandas as pd

from kernelscope.analysis.attribution.frameworks.xla_launches import launches


def operations(*rows):
    """Return operations of (module, run, start)."""
    return pd.DataFrame(rows, columns=["stat_hlo_module", "stat_run_id", "start_ns"]).astype({"stat_run_id": "Int64"})


def events(*rows):
    """Return the host's events of (name, line, start, end)."""
    return pd.DataFrame(rows, columns=["name", "line_id", "start_ns", "end_ns"])


CALLS = events(
    ("PjitFunction(step)", 1, 10, 20),
    ("PjitFunction(step)", 1, 11, 19),  # the profiler has each twice
    ("PjitFunction(step)", 1, 30, 40),
    ("Wait for usage holds", 1, 45, 50),
    ("PjitFunction(<lambda>)", 1, 60, 70),
    ("PjitFunction(jit(ahead))", 1, 80, 82),
)


def test_executions_are_calls_in_their_order():
    found = launches(
        operations(
            ("jit_step", -7, 15),
            ("jit_step", -6, 90),
            ("jit_step", -7, 55),
            ("jit__lambda", -5, 95),
            ("jit_ahead", 4, 97),
            ("jit_add", 3, 99),
            (None, None, 99),
        ),
        CALLS,
    )
    assert found.tolist()[:5] == [10, 30, 10, 60, 80]
    assert found.isna().tolist()[5:] == [True, True]


def test_nothing_is_said_where_calls_and_executions_do_not_fit():
    assert launches(operations(("jit_step", 1, 15)), CALLS).isna().all()  # one execution, two calls
    assert launches(operations(("jit_step", 1, 15), ("jit_step", 2, 25)), CALLS).isna().all()  # the second before its call
    assert len(launches(operations(), CALLS)) == 0
    assert launches(operations(("jit_step", 1, 15)), events()).isna().all()
