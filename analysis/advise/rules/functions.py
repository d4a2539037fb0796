"""Functions of Python, in recordings that hold nothing else (cProfile's): those that load data, wait, sleep or loop.

A function's cumulative time includes what it calls, so it tells what a part of the program costs; who called whom is unknown.
What a function does follows from its name (explain.function_kinds).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.explain.function_kinds import DEVICE, FRAMEWORK, LOADER, NO_SAMPLE, OTHERS, SAMPLE, WAITS

_LEAST = 0.1  # of the time: functions with less get no advice
_HOLDS, _ALL = 0.3, 0.98  # of the time: a function in between is a part of the program, one with more is all of it
_NAMED = 3
_OWN = re.compile(r"^[^<{]+\.py: (?!<)")  # functions of Python, not built-in ones or modules
_SMALL, _SMALL_WAIT = 0.02, 0.04  # of the time: smaller parts with a known remedy are told from here on
_SEVERAL = 2  # of them are advice together
_TRANSFORMS = r"(?:^|/)(?:functional|_functional_\w+|transforms)\.py: (?:to_tensor|pil_to_tensor|resize|crop)$"
_FUSED = "foreach=True or fused=True of torch.optim's optimizers updates many tensors at once"
_BY_TENSOR = r"(?:^|/)\w+\.py: _single_tensor_\w+$"
_INSIDE = 0.5  # of a loader's time: samples that take as much are what it does
_FRAMES = re.compile(
    r"^(?:builtins\.)?(?:exec|eval|next|map)$|<module>|"
    r": (?:main|run\w*|__call__|\w*call_impl|\w*wrapper|decorate_context|inner)\b"
)
_TENSORS = r"torch|tensor"
_NEARLY, _BY_ITSELF = 0.8, 0.95  # of the time, and of the function's: one that calls nothing takes it all itself
_LONG_CALL = 10_000_000  # ns of its own in a call: a loop over many elements
_COMPILED = r"(?i)numba|jit|cython|\.pyx|(?:^|/)dispatcher\.py: "  # Numba's functions look like those of Python


def functions(subject: Subject) -> list[Advice]:
    """Functions that hold much of the time load data in the program's own process, or wait."""
    table = _table(subject)
    if table.empty:
        return []
    found = [*_waits(subject, table), *_together(subject, table)]
    loader = _loading(subject, table)
    if loader is None:
        return found
    if loader.remedy == LOADER.remedy:
        return [loader, *found]
    return [loader, *(one for one in found if one.topic != OTHERS.name)]  # that is what the loader waits for


def loops(subject: Subject) -> list[Advice]:
    """One function of Python takes nearly all of the time by itself, in long calls: it loops over elements, perhaps."""
    table = _table(subject)
    if table.empty or table["name"].str.contains(f"{_TENSORS}|{_COMPILED}").any():
        return []
    mine = table[table["name"].str.contains(_OWN).to_numpy(bool)].nlargest(1, "own_ns")
    own, whole = (float(mine[column].sum()) for column in ("own_ns", "whole_ns"))
    if own < max(_NEARLY * subject.step_ns, _BY_ITSELF * whole, _LONG_CALL * float(mine["count"].sum()), 1.0):
        return []
    return [
        Advice(
            "python loop",
            f"{words.kernel(mine['name'].iloc[0])} takes {own / subject.step_ns:.0%} of the time in its own code, and hardly "
            "calls others",
            own,
            "its whole time is a bound: what compiled code takes is not in the recording",
            [
                f"{_listed(subject, mine, 'own_ns')}. That is a loop in Python, or what else counts as a function's own: "
                "operators on whole arrays (a @ b), a file read line by line, code that Numba compiled. cProfile does not tell; "
                "line_profiler shows which lines take the time."
            ],
            "if it loops over elements, let NumPy compute on whole arrays (vectorise the loop), or compile the function: @njit "
            "of Numba, Cython",
            "https://numba.readthedocs.io/en/stable/user/5minguide.html",
            _rows(subject, mine),
        )
    ]


def notes(subject: Subject) -> list[str]:
    """Name the functions that hold most of the time with what they call, and what a framework computes."""
    table = _table(subject)
    if table.empty:
        return []
    holds = table[((table["whole_ns"] >= _HOLDS * subject.step_ns) & (table["whole_ns"] < _ALL * subject.step_ns)).to_numpy(bool)]
    calls = holds["whole_ns"] > holds["own_ns"]
    named = holds[(calls & ~holds["name"].str.contains(_FRAMES)).to_numpy(bool)].head(_NAMED)
    result = []
    if len(named):
        texts = (f"{words.kernel(name)} {ns / subject.step_ns:.1%}" for name, ns in named[["name", "whole_ns"]].to_numpy())
        nested = "; these may be nested" if len(named) > 1 else ""
        result.append(f"with what they call, of {words.duration(subject.step_ns)}: {', '.join(texts)}{nested}")
    result += [] if loops(subject) else _longest_itself(subject, table, set(named["name"]))
    result += [] if _together(subject, table) else [f"{said}: {remedy}" for _, said, remedy in _smaller(subject, table)]
    own = table[(table["name"].str.contains(FRAMEWORK) & ~table["name"].str.contains(DEVICE.pattern)).to_numpy(bool)]
    if (ns := int(own["own_ns"].sum())) >= _LEAST * subject.step_ns:
        result.append(
            f"functions of the framework itself take {words.share(subject, ns)}: {_listed(subject, own, 'own_ns')}. That is work "
            "of its libraries or of a device that they wait for: record with torch.profiler, or use `kernelscope profile`"
        )
    return result


def _longest_itself(subject: Subject, table: pd.DataFrame, named: set[str]) -> list[str]:
    """Name the function of Python whose own code takes longest, unless that is little or it is already named."""
    mine = table[(table["name"].str.contains(_OWN) & ~table["name"].str.contains(FRAMEWORK)).to_numpy(bool)].nlargest(1, "own_ns")
    if mine.empty or mine["own_ns"].iloc[0] < _LEAST * subject.step_ns or mine["name"].iloc[0] in named:
        return []
    one = mine.iloc[0]
    whole = words.share(subject, one["whole_ns"])
    also = f"; with what it calls {whole}" if one["whole_ns"] > one["own_ns"] else ""
    return [f"most time in its own code, of functions of Python: {_listed(subject, mine, 'own_ns')}{also}"]


def _together(subject: Subject, table: pd.DataFrame) -> list[Advice]:
    """Return one piece of advice on the smaller parts that have a known remedy, if there are several."""
    parts = _smaller(subject, table)
    if len(parts) < _SEVERAL:
        return []
    mine = pd.concat([rows for rows, *_ in parts])
    ns = float(mine["part_ns"].sum())
    title = f"{len(parts)} smaller parts with a known remedy take {ns / subject.step_ns:.0%} of the time together"
    remedies = "; ".join(dict.fromkeys(remedy for *_, remedy in parts))
    limit = "an upper bound: all of these parts, if none is in another"
    return [Advice("smaller parts", title, ns, limit, [f"{said}." for _, said, _ in parts], remedies, "", _rows(subject, mine))]


def _smaller(subject: Subject, table: pd.DataFrame) -> list[tuple[pd.DataFrame, str, str]]:
    """Return the parts that are too small for advice of their own and have a known remedy: row, what it is, remedy."""
    samples = (table["name"].str.contains(SAMPLE) & ~table["name"].str.contains(NO_SAMPLE)) | table["name"].str.contains(
        _TRANSFORMS
    )
    known = (
        (samples, "whole_ns", _SMALL, "work on single samples in this process", LOADER.remedy),
        (table["name"].str.contains(_BY_TENSOR), "whole_ns", _SMALL, "the optimizer's update, tensor by tensor", _FUSED),
        *((table["name"].str.contains(kind.pattern), "own_ns", _SMALL_WAIT, kind.what, kind.remedy) for kind in WAITS),
    )
    result = []
    for chosen, column, least, what, remedy in known:
        mine = table[chosen.to_numpy(bool)].nlargest(1, column)
        part = float(mine[column].iloc[0]) / subject.step_ns if len(mine) else 0.0
        if least <= part < _LEAST:
            said = f"{_listed(subject, mine, column)}: {what}"
            result.append((mine.assign(part_ns=mine[column]), said, remedy.partition(". ")[0]))
    return result


def _table(subject: Subject) -> pd.DataFrame:
    """Return the functions of a recording of functions: name, count, own_ns and whole_ns; no rows for any other recording."""
    if subject.trace.info.get("counted") != "functions" or not subject.step_ns:
        return pd.DataFrame()
    totals = subject.trace.totals[["name", "count", "duration_ns"]].rename(columns={"duration_ns": "whole_ns"})
    own = subject.trace.kernels.groupby("name")["duration_ns"].sum()
    result = totals.assign(name=totals["name"].astype("string"), own_ns=totals["name"].map(own).fillna(0).astype("int64"))
    return result.sort_values("whole_ns", ascending=False, kind="stable", ignore_index=True)


def _loading(subject: Subject, table: pd.DataFrame) -> Advice | None:
    """Return the advice on samples that the program makes itself, or on a loader that it waits for; None if neither is long."""
    if not table["name"].str.contains(f"{_TENSORS}|{LOADER.pattern}").any():
        return None
    samples = table[(table["name"].str.contains(SAMPLE) & ~table["name"].str.contains(NO_SAMPLE)).to_numpy(bool)]
    loaders = table[table["name"].str.contains(LOADER.pattern).to_numpy(bool)]
    longest = float(loaders["whole_ns"].max()) if len(loaders) else 0.0
    mine = samples[(samples["whole_ns"] >= max(_LEAST * subject.step_ns, _INSIDE * longest)).to_numpy(bool)].head(1)
    if len(mine):
        what, remedy = "the program makes its samples one by one, and computes nothing meanwhile", LOADER.remedy
    else:
        mine = loaders[(loaders["whole_ns"] >= _LEAST * subject.step_ns).to_numpy(bool)].head(1)
        waits = table[table["name"].str.contains(OTHERS.pattern).to_numpy(bool)]["own_ns"].sum()
        by_others = waits >= _INSIDE * longest
        what = f"the program {LOADER.what}" + (", which waits for its workers" if by_others else "")
        remedy = OTHERS.remedy if by_others else LOADER.remedy
    if mine.empty:
        return None
    name, ns = str(mine["name"].iloc[0]), int(mine["whole_ns"].iloc[0])
    part = f"{ns / subject.step_ns:.1%} ({ns / 1e9:,.2f} of {subject.step_ns / 1e9:,.2f} s)"
    title = f"{words.kernel(name)} with what it calls takes {part}: {what}"
    evidence = [f"{_listed(subject, mine, 'whole_ns')}."]
    limit = f"an upper bound: {LOADER.limit}"
    return Advice("input pipeline", title, float(ns), limit, evidence, remedy, "", _rows(subject, mine))


def _waits(subject: Subject, table: pd.DataFrame) -> Iterator[Advice]:
    """Yield the advice on functions that wait by themselves."""
    for kind in WAITS:
        mine = table[table["name"].str.contains(kind.pattern).to_numpy(bool)]
        mine = mine[(mine["own_ns"] >= kind.least_ns * mine["count"]).to_numpy(bool)]
        if (ns := int(mine["own_ns"].sum())) < _LEAST * subject.step_ns:
            continue
        title, limit = f"the program {kind.what}, for {ns / subject.step_ns:.0%} of the time", f"an upper bound: {kind.limit}"
        evidence = [f"{_listed(subject, mine, 'own_ns')}."]
        yield Advice(kind.name, title, float(ns), limit, evidence, kind.remedy, "", _rows(subject, mine))


def _rows(subject: Subject, mine: pd.DataFrame) -> frozenset[int]:
    return words.ids(subject.rows[subject.rows["name"].isin(mine["name"]).to_numpy(bool)])


def _listed(subject: Subject, mine: pd.DataFrame, column: str) -> str:
    """Name the functions that take longest, with their calls."""
    return "; ".join(
        f"{words.kernel(one['name'])} {words.share(subject, one[column])}, {one['count']:,} x "
        f"{words.duration(one[column] / one['count'])}"
        for one in mine.sort_values(column, ascending=False, kind="stable").head(_NAMED).to_dict("records")
    )


RULES: tuple[Rule, ...] = (functions, loops)
