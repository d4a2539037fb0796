"""Nodes of ONNX Runtime's profiles that take longer on one side, though they have the same name, operator, shapes and types."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.accounting.levels import DISPATCH
from kernelscope.analysis.explain import again, onnx_nodes
from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.model import Case, Rule, Suspicion
from kernelscope.analysis.formats.onnxruntime import first_run

CAUSE = "slower nodes"

_FEW, _MOSTLY = 3, 0.8  # so many nodes are named, if they hold this share of the time that nodes take longer
_ALIKE = 0.15  # of a factor: if nodes of most of the time take so nearly the same factor longer, no node is the reason
_PLACE = ["layer", "operator"]
_FEW_RUNS = (
    "There are too few runs to know whether others would take as long: a run may be disturbed, and take many times as long."
)
_EVEN = "Nodes of most of the time take longer by about the same factor, so the reason is in no single one."
_QUEUED = (
    "Nodes of a GPU's provider queue work and wait for it at times: a node may also wait for the work of nodes before it, and "
    "the profile does not show the GPU's own time."
)


def slower_nodes(case: Case) -> list[Suspicion]:
    """The same nodes take longer on one side, by more than runs of one session differ: what differs, not yet why."""
    slow, fast = ("b", "a") if case.account.wall.delta_ns > 0 else ("a", "b")
    sides = {"a": case.a, "b": case.b}
    providers = case.setting("providers")
    if providers[0] != providers[1] or not all(first_run.is_profile(side.trace) for side in sides.values()):
        return []
    found = onnx_nodes.longer(sides[slow].trace, sides[fast].trace)
    claims = _claims(case, found) if len(found) else {}
    if not claims:
        return []
    even = _evenly(found, onnx_nodes.of(sides[slow].trace))
    few = onnx_nodes.runs_are_few(case.a.trace, case.b.trace)
    sentences = _times(case, found, slow, fast)
    sentences += [_FEW_RUNS] if few else []
    sentences += [_QUEUED] if any("kernels" in side.missing for side in sides.values()) else []
    sentences += [_EVEN] if even else []
    remedy = (
        f"find out what differs around {'the runs' if even else 'these nodes'}: other work on the machine, clocks (power, "
        "temperature), threads (SessionOptions.intra_op_num_threads), the version of ONNX Runtime or of the driver; then "
        f"record both with several runs each, {again.in_turns(case.a, case.b)}"
    )
    title = f"{_which(found)} {_factor(found)} times as long in {ev.name(case, slow)}"
    return [Suspicion(CAUSE, title, claims, "low" if few else "medium", sentences, remedy, precedence=2)]


def _times(case: Case, found: pd.DataFrame, slow: str, fast: str) -> list[str]:
    """Return the times of the first of these nodes on both sides, in sentences."""
    return [
        f"{onnx_nodes.names(found.iloc[[place]])}: {ev.duration(float(found['fast_ns'].iloc[place]))} a run in "
        f"{ev.name(case, fast)}, {ev.duration(float(found['slow_ns'].iloc[place]))} in {ev.name(case, slow)}, "
        f"{_same(found.iloc[place])}."
        for place in range(min(len(found), _FEW))
    ]


def _which(found: pd.DataFrame) -> str:
    """Return which nodes take longer, as a subject with its verb."""
    held = float(found["delta_ns"].head(_FEW).sum())
    if len(found) > _FEW and held < _MOSTLY * float(found["delta_ns"].sum()):
        return f"{len(found)} nodes, the same in both, take"
    named = found[(found["delta_ns"].cumsum().shift(fill_value=0.0) < _MOSTLY * found["delta_ns"].sum()).to_numpy(bool)]
    return f"{onnx_nodes.names(named, _FEW)} take{'s' if len(named) == 1 else ''}"


def _factor(found: pd.DataFrame) -> str:
    """Return how many times as long these nodes take in all."""
    factor = float(found["slow_ns"].sum()) / max(float(found["fast_ns"].sum()), 1.0)
    return f"{factor:,.0f}" if factor >= 10 or abs(factor - round(factor)) < 0.05 else f"{factor:.1f}"


def _same(node: pd.Series) -> str:
    """Return what is the same of a node on both sides."""
    return "with the same shapes" if any(letter.isdigit() for letter in node["shapes"]) else "under the same name"


def _evenly(found: pd.DataFrame, whole: pd.DataFrame) -> bool:
    """Return whether nodes that take most of all nodes' time take about the same factor longer."""
    factor = found["slow_ns"] / found["fast_ns"].clip(lower=1.0)
    usual = float(found["slow_ns"].sum() / max(float(found["fast_ns"].sum()), 1.0))
    near = ((factor / usual - 1.0).abs() <= _ALIKE).to_numpy(bool)
    return int(near.sum()) > 1 and float(found["slow_ns"][near].sum()) >= _MOSTLY * float(whole["ns"].sum())


def _claims(case: Case, found: pd.DataFrame) -> dict[str, float]:
    """Claim what these nodes take longer in the account; at most the difference of their medians, which rare runs do not move."""
    cells = case.account.cells
    inside = cells[(cells["operator"].notna() & (cells["cause"] != DISPATCH).fillna(True)).to_numpy(bool)]
    places = found.rename(columns={"name": "operator"})[_PLACE].drop_duplicates().assign(found=True)
    keys = inside[_PLACE].astype("string").fillna("")
    mine = inside[keys.merge(places, on=_PLACE, how="left")["found"].notna().to_numpy(bool)]
    claims = ev.cell_claims({side: mine[(mine["side"] == side).to_numpy(bool)] for side in ("a", "b")})
    rows = case.rows[case.rows.index.isin(list(claims))]
    sign = 1 if case.account.wall.delta_ns > 0 else -1
    return evidence.towards(case, sign * float(found["delta_ns"].sum()), rows)


RULES: tuple[Rule, ...] = (slower_nodes,)
