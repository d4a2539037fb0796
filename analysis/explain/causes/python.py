"""Python overhead: the interpreter's own time around layers, phases and in the loop, with the line if it is known."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.accounting import levels
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.causes.input_pipeline import rows_of_data
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion

CAUSE = "python overhead"
LIKE_AMOUNT = (0.4, 1.6)  # a statement's extra time over the claimed one: line_profiler itself costs some tens of percent
LONGEST_LINE = 60  # characters of a statement that a sentence quotes


def _lines(side: Side) -> pd.Series[float] | None:
    """Return ns per step of each statement of the profiled functions, by (file, line, text); None without a lines pass."""
    lines, steps = side.trace.lines, side.trace.info.get("lines_steps")
    if lines.empty or not steps:
        return None
    times = lines.groupby(["file", "line", "text"], dropna=False)["time_ns"].sum()
    return times.astype("float64") / float(steps)


def _line(case: Case, slow: Side, amount: float) -> list[str]:
    """Name the slow side's statement that takes about `amount` more than the same text on the other side.

    Statements that take far more than that run operators: their time is not Python's.
    """
    if not case.same_framework:
        return []
    mine, other = _lines(slow), _lines(case.a if slow is case.b else case.b)
    if mine is None:
        return []
    if other is not None:
        by_text = other.groupby(level="text").sum()
        mine = mine - by_text.reindex(mine.index.get_level_values("text")).fillna(0.0).to_numpy()
    mine = mine[(mine > amount * LIKE_AMOUNT[0]) & (mine < amount * LIKE_AMOUNT[1])]
    if mine.empty:
        return []
    file, line, text = (mine.index.get_level_values(level)[int(mine.argmax())] for level in ("file", "line", "text"))
    quoted = str(text) if len(str(text)) <= LONGEST_LINE else str(text)[: LONGEST_LINE - 1] + "…"
    return [
        f"Most of it at {file}:{line}, `{quoted}`: {evidence.duration(float(mine.max()))} per step more than on the other side."
    ]


def overhead(case: Case) -> list[Suspicion]:
    """Outside operators and calls, Python takes longer on one side."""
    rows = evidence.host(case, levels.IN_LAYER, levels.IN_PHASE, levels.IN_RANGE, levels.OUTSIDE, levels.SCRIPT)
    rows = rows[~rows["row"].isin(rows_of_data(case)["row"]).to_numpy(bool)]
    amount = evidence.noticed_ns(case, rows)
    removed = case.account.removed_ns  # the cost of recording is an estimate, and these rows give back most of it
    if abs(amount) < max(evidence.worth_ns(case), abs(removed["b"] - removed["a"])):
        return []
    slow = case.b if amount > 0 else case.a
    where = "in Python" if slow.framework else "on the host"  # a capture without a framework may be of any program
    both = evidence.both_times(case, rows["a_ns"].sum(), rows["b_ns"].sum())
    named = evidence.noticed(rows)
    largest = named.loc[named["delta_ns"].abs().nlargest(1).index]
    most = "".join(f"; most of the difference in {row.layer}, {row.cell}" for row in largest.itertuples())
    return [
        Suspicion(
            CAUSE,
            f"{slow.name} spends more time {where} outside operators",
            evidence.claims(rows),
            "medium",
            [f"Time {where} outside operators, per step: {both}{most}.", *_line(case, slow, abs(amount))],
            "move work out of the loop, or compile the step so that Python does not run in it",
            precedence=2,
        )
    ]


RULES: tuple[Rule, ...] = (overhead,)
