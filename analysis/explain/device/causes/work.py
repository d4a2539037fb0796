"""Work: kinds of kernels that one side executes more of, or that take longer there, for which no other rule has a reason."""

from __future__ import annotations

from collections.abc import Iterator

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, Case, Finding

_MORE = "leave out what the step does not need; see which operators they are of with `breakdown --by operator`"
_LONGER = "see their shapes and grids with `breakdown --by kernel`: larger problems, or another implementation"


def by_kind(case: Case) -> Iterator[Finding]:
    """Yield a finding for each kind of kernel."""
    rows = case.kernels()
    kinds = rows.groupby("kind", dropna=False)["delta_ns"].sum().abs().sort_values(ascending=False)
    for kind in kinds.index:
        mine = rows[((rows["kind"] == kind) if isinstance(kind, str) else rows["kind"].isna()).to_numpy(bool)]
        counts = {key: float(mine[f"{key}_count"].sum()) for key in SIDES}
        slow, slower, fast, faster = words.slower(case, mine)
        more = counts[slow] > 1.02 * counts[fast] + 0.5
        name = f"{kind} kernels" if isinstance(kind, str) and kind != "unknown" else "kernels of unknown kind"
        named = words.kernel(mine.sort_values("delta_ns", key=lambda delta: -delta.abs())["name"].iloc[0])
        if counts[fast]:
            both = f"{words.of_rows(case, mine)}, {words.count(counts['a'])} and {words.count(counts['b'])} {case.per}"
            title = f"{name} ({named}) take longer in {slower} than in {faster}: {both}"
        else:
            time = words.ms(float(mine[f"{slow}_ns"].sum()))
            title = f"only {slower} has {name} ({named}): {time}, {words.count(counts[slow])} {case.per}"
        cause = f"more {name}" if more else f"slower {name}"
        yield Finding(cause, title, mine["row"].tolist(), "medium", words.both(case, mine), _MORE if more else _LONGER)


RULES = (by_kind,)
