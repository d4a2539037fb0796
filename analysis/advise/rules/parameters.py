"""Python loops over a model's parameters outside its optimizer: averaged weights, clipping, logged norms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.device_account import COMPUTE, IDLE
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.kernels import aten
from kernelscope.analysis.trace import intervals

TOPIC = "loop over parameters"
READS = ("aten::item", "aten::_local_scalar_dense")
_MANY = 100  # kernels a step
_FEW = 10  # parameters
_MOST = 0.6  # of the parameters: by shape, a loop's operator works on at least this share
_EACH = 0.9  # of the parameters of a shape: an operator runs at least this often on tensors of that shape
_HALF = 0.5  # of an operator's calls
_PASSES, _APART = 4, 0.02  # by number, an operator runs at most so often for each parameter; the number may be so far off
_PART = 0.05  # of the loops' time: a line that takes this share is a loop
_GRADIENT = "torch::autograd::AccumulateGrad"  # PyTorch's autograd runs it for each parameter
_AT_ONCE = r"^aten::_(?:foreach|fused)_"

_REMEDIES = {
    "pytorch": "clip with torch.nn.utils.clip_grad_norm_(parameters, limit, foreach=True), average weights with "
    "torch._foreach_lerp_ (or torch._foreach_mul_ and torch._foreach_add_) or torch.optim.swa_utils.AveragedModel(model, "
    "multi_avg_fn=get_ema_multi_avg_fn(0.999)), take norms with torch._foreach_norm",
    "": "do it for all parameters at once: within one compiled function, or on one flat tensor that holds them",
}
_LINK = "https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html"
_BY_HAND = "; update with an optimizer of torch.optim"
_NO_READS = "; avoid .item() for each parameter: stack the values, and copy them to the host once"


@dataclass(frozen=True)
class Parameters:
    """How many parameters get gradients, and how many of each shape, written as in kernels' `problem`; empty if unknown."""

    number: int
    shapes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Loops:
    """What loops over parameters do: all rows, the rows of kernels on parameters among them, and the parameters."""

    rows: pd.DataFrame
    passes: pd.DataFrame
    parameters: Parameters

    @property
    def kernels(self) -> float:
        """How many kernels run in each step."""
        return float(self.rows.loc[(self.rows["part"] == COMPUTE).to_numpy(bool), "count"].sum())


def over_parameters(subject: Subject) -> list[Advice]:
    """Operators run once for each parameter, outside the layers and the optimizer."""
    found = loops(subject)
    if found is None:
        return []
    ns, number = words.time_of(found.rows), found.parameters.number
    passes_ns, passes = words.time_of(found.passes), max(float(found.passes["count"].sum()) / number, 1.0)
    lines = min(float(_lines(subject, found.rows)), passes)
    saves = passes_ns * (1 - lines / passes) + (ns - passes_ns) * (1 - 1 / number)
    named = words.lines_of(subject, found.rows)
    return [
        Advice(
            TOPIC,
            f"{words.count(found.kernels)} small operators run {subject.in_each} in loops over the model's {number} parameters",
            saves,
            f"{words.count(lines)} passes over all parameters, one for each line, instead of {words.count(passes)}; and the "
            "host's time around kernels only once",
            [
                f"Operators that run for each parameter, or for most parameters, take {words.share(subject, ns)} {subject.per}: "
                f"{words.largest(found.rows, 'operator')}.",
                *(named or words.lines(subject, 0.1 * ns, words.SLOWED * ns, hits=_EACH * number)),
            ],
            _remedy(subject, found.rows),
            _LINK if subject.framework == "pytorch" else "",
            words.ids(found.rows),
            modelled=True,
        )
    ]


def reads(subject: Subject) -> bool:
    """Return whether loops over parameters read a value of each one."""
    found = loops(subject)
    return found is not None and bool(found.rows["operator"].isin(READS).any())


def outside(subject: Subject) -> pd.DataFrame:
    """Return the rows of operators outside layers and outside the optimizer."""
    rows = subject.rows
    chosen = rows["layer"].isna() & rows["phase"].isin(["other", "data"]) & rows["operator"].notna()
    return rows[(chosen & rows["part"].isin([COMPUTE, IDLE])).to_numpy(bool)]


def loops(subject: Subject) -> Loops | None:
    """Return what loops over parameters do; None if there are none, or if the number of parameters is unknown.

    It is computed once; the rules on loops over samples and on single reads use it, too.
    """
    if TOPIC not in subject.derived:
        subject.derived[TOPIC] = _found(subject)
    result: Loops | None = subject.derived[TOPIC]
    return result


def _found(subject: Subject) -> Loops | None:
    if not subject.on_host or subject.program:
        return None
    rows = outside(subject)
    rows = rows[(rows["phase"] == "other").to_numpy(bool)]
    if float(rows.loc[(rows["part"] == COMPUTE).to_numpy(bool), "count"].sum()) < _MANY:
        return None
    known = parameters(subject)
    if known is None:
        return None
    rows = rows[~rows["operator"].isin(_at_once(subject)).to_numpy(bool)]
    computing = rows[(rows["part"] == COMPUTE).to_numpy(bool)]
    batch = int((subject.facts.get("options") or {}).get("batch") or 0)
    if known.shapes:
        passes = _by_shape(computing, known)
        rest = rows[~rows.index.isin(computing.index[_sizes(computing).to_numpy(bool)])]
    else:
        passes = _by_number(computing, known.number, batch)
        rest = rows.drop(computing.index)
    if passes["count"].sum() < _MANY:
        return None
    return Loops(pd.concat([passes, _by_number(rest, known.number, batch)]).sort_index(), passes, known)


# --- the parameters ------------------------------------------------------------------------------------------------------------


def parameters(subject: Subject) -> Parameters | None:
    """Return the parameters that get gradients, as autograd or the optimizer shows; None if neither does."""
    shapes = _of_gradients(subject)
    number = round(sum(shapes.values())) or _of_optimizer(subject)
    return Parameters(number, shapes) if number >= _FEW else None


def _of_gradients(subject: Subject) -> dict[str, float]:
    """Return how many parameters of each shape get a gradient in a backward pass of PyTorch's autograd, the most of any pass."""
    operators = subject.inside_steps(subject.trace.operators)
    mine = operators[(operators["name"] == _GRADIENT).fillna(False).to_numpy(bool)]
    texts = mine["shapes"].astype("string").fillna("")
    shapes = texts.map({text: aten.problem(text) for text in texts.unique() if text.startswith("[")})
    counts = shapes.groupby([_backward_pass(subject, mine), shapes]).size()
    return {str(shape): float(count) for shape, count in counts.groupby(level=1).max().items()}


def _backward_pass(subject: Subject, operators: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return the backward pass that each operator begins in; the step, if no range marks such passes."""
    ranges = subject.trace.ranges
    backward = ((ranges["category"] == "phase") & (ranges["phase"] == "backward")).fillna(False).to_numpy(bool)
    table = ranges[backward] if backward.any() else subject.trace.steps
    spans = (intervals.whole(column) for column in (table["start_ns"], table["end_ns"]))
    start, end = (np.sort(times) for times in spans)
    return intervals.containing(intervals.whole(operators["start_ns"]), start, end)


def _of_optimizer(subject: Subject) -> int:
    """Return the count that takes most time among the optimizer's repeated kernels in a step; 0 if none repeat."""
    rows = subject.kernels()
    rows = rows[(rows["phase"] == "optimizer").fillna(False).to_numpy(bool)]
    sums = rows.groupby(rows["operator"].fillna(rows["name"]).astype("string"))[["count", "time_ns"]].sum()
    sums = sums[(sums["count"] >= _FEW).to_numpy(bool)]
    times = sums.groupby(sums["count"].round())["time_ns"].sum()
    return int(times.index.to_numpy(np.int64)[int(times.to_numpy().argmax())]) if len(times) else 0


# --- the loops -----------------------------------------------------------------------------------------------------------------


def _sizes(rows: pd.DataFrame) -> pd.Series:
    """Return which rows name a first tensor of more than one element."""
    return ~_first(rows).isin(["", "1"])


def _first(rows: pd.DataFrame) -> pd.Series:
    """Return the shape of each row's first tensor; empty if unknown or a scalar."""
    return rows["problem"].astype("string").fillna("").str.replace(r":.*", "", regex=True)


def _by_shape(computing: pd.DataFrame, known: Parameters) -> pd.DataFrame:
    """Return the rows of kernels that run once or more for each of most parameters, by the shapes of their tensors."""
    first = _first(computing)
    number = first.map(known.shapes).astype("float64")
    counts = computing["count"].groupby([computing["operator"].astype("string"), first]).transform("sum")
    found = computing[(_sizes(computing) & number.notna() & (counts >= _EACH * number)).to_numpy(bool)]
    pairs = pd.DataFrame({"operator": found["operator"].astype("string"), "first": first[found.index]}).drop_duplicates()
    covered = pairs["first"].map(known.shapes).groupby(pairs["operator"]).sum()
    return found[found["operator"].isin(covered.index[(covered >= _MOST * known.number).to_numpy(bool)]).to_numpy(bool)]


def _by_number(rows: pd.DataFrame, number: int, batch: int) -> pd.DataFrame:
    """Return the rows of operators that run once for each parameter, or twice, ..., judging by their number alone.

    If the number also fits a loop over samples, with as few passes or fewer, it counts as that.
    """
    counts = rows.groupby(rows["operator"].astype("string"))["count"].transform("sum")
    times = (counts / number).round()
    fits = times.between(1, _PASSES) & ((counts - times * number).abs() <= np.maximum(_APART * counts, 1.0))
    if batch:
        samples = counts / batch
        fits &= ~(((samples - samples.round()).abs() <= _APART) & (samples.round() <= times))
    return rows[fits.to_numpy(bool)]


def _at_once(subject: Subject) -> list[str]:
    """Return the operators that mostly run inside one operator for many tensors, which PyTorch runs one by one on processors."""
    operators = subject.inside_steps(subject.trace.operators)
    loose = operators["layer"].isna() & (operators["phase"] == "other").fillna(False)
    mine = operators[loose.to_numpy(bool)].reset_index(drop=True)
    lists = mine[mine["name"].astype("string").str.contains(_AT_ONCE).fillna(False).to_numpy(bool)]
    if lists.empty:
        return []
    inside = intervals.innermost(*intervals.spans(lists), *intervals.spans(mine)[:2]) >= 0
    shares = pd.Series(inside).groupby(mine["name"].astype("string")).mean()
    return [str(name) for name in shares.index[(shares >= _HALF).to_numpy(bool)]]


def _lines(subject: Subject, rows: pd.DataFrame) -> int:
    """Return how many lines of the program these rows are in, as far as is known; at least one."""
    table = subject.lines_of_rows
    if table.empty:
        return 1
    mine = table[table["row"].isin(rows.index).to_numpy(bool)]
    times = mine.groupby(["file", "line"], dropna=False)["time_ns"].sum()
    return max(int((times >= _PART * words.time_of(rows)).sum()), 1)


def _remedy(subject: Subject, rows: pd.DataFrame) -> str:
    """Return what to do about these rows."""
    remedy = words.text(subject, _REMEDIES)
    if "pytorch" not in subject.framework:
        return remedy
    by_hand = not (subject.rows["phase"] == "optimizer").fillna(False).any()
    return remedy + _BY_HAND * by_hand + _NO_READS * bool(rows["operator"].isin(READS).any())


RULES: tuple[Rule, ...] = (over_parameters,)
