"""Tables that count in two ways, by kernel and by operator: kinds of work are all that can be compared."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.accounting.device_account import COMPUTE, COPY
from kernelscope.analysis.explain.device import account_rows, words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding

_COPIES = "copies"
_MOVES = ("copy", "cast", "layout")  # an operator that copies may launch kernels of any of these, or none
_NAMES = {"kernels": "kernel", "operators": "operator", "types": "type of operator", "nodes": "node of the graph"}
_ALIKE = "print both tables in the same way, with all rows: {}"
_OF_TFPROF = "the same view of tfprof (op, scope or graph)"
_OF_TORCH = "key_averages().table(row_limit=-1)"


def ways(case: DeviceCase) -> str:
    """Say how each side adds up its work."""
    a, b = (_NAMES.get(str(side.facts.get("counted")), "kernel") for side in (case.a, case.b))
    return f"{case.a.name}'s table is counted by {a}, {case.b.name}'s by {b}"


def kinds(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Yield a finding for each kind of work, copies of all sorts being one."""
    rows = case.left[case.left["part"].isin([COMPUTE, COPY]).to_numpy(bool)]
    labels = account_rows.labels(case).reindex(rows.index)
    moves = (rows["part"] == COPY) | labels.isin(_MOVES)
    labels = labels.mask(moves.to_numpy(bool), _COPIES)
    for kind in rows["delta_ns"].groupby(labels).sum().abs().sort_values(ascending=False).index:
        yield _of_kind(case, str(kind), rows[(labels == kind).to_numpy(bool)])


def _of_kind(case: DeviceCase, kind: str, rows: pd.DataFrame) -> DeviceFinding:
    """Return the finding that work of a kind takes longer on one side."""
    _, slower, _, faster = words.slower(case, rows)
    what = f"{_COPIES} take" if kind == _COPIES else f"{kind} work takes"
    title = f"{what} longer in {slower} than in {faster}: {words.of_rows(case, rows)}"
    said = f"{ways(case)}, so only kinds of work are compared."
    of_tfprof = any(side.facts.get("counted") in ("types", "nodes") for side in (case.a, case.b))
    remedy = _ALIKE.format(_OF_TFPROF if of_tfprof else _OF_TORCH)
    return DeviceFinding(f"more {kind}", title, rows["row"].tolist(), "medium", [said, *_named(case, rows)], remedy)


def _named(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return a sentence per side that names its work in these rows."""
    result = []
    for key in SIDES:
        names = rows.loc[(rows[f"{key}_ns"] > 0).to_numpy(bool), "name"].dropna().map(words.kernel)
        result += [f"{case.side(key).name}: {words.listed(names)}."] if len(names) else []
    return result


RULES = (kinds,)
