"""Lines of the program, in recordings that hold nothing else (line_profiler's): what those that take most of the time do.

What a line does follows from its text (explain.line_profiles.kinds). Nothing is said of lines whose text does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from kernelscope.analysis.advise import host_account, words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.explain.line_profiles import kinds
from kernelscope.analysis.explain.line_profiles.kinds import Kind, kind_of

_LEAST = 0.1  # of the time: lines of one kind with less get no advice
_NAMED, _PART = 3, 0.02  # so many lines are named, each with this share of the time
_OPAQUE, _CALL_NS = 0.5, 10_000  # of the time in one line that calls something, each time so long
_LONGEST, _FUNCTIONS = 80, 5
_CALL = re.compile(r"([\w.]*[\w\])])\(")  # with what is called; parentheses of arithmetic are none
# Compiled code, and Python's own functions: there are no lines to profile
_NO_LINES = re.compile(
    r"^(?:np|numpy|cp|cupy|jnp|math|scipy)\.|\.(?:sum|max|min|mean|std|any|all|dot|copy|astype|reshape|append|join|format)$"
    r"|\]$|^(?:range|len|int|float|str|list|tuple|dict|set|zip|enumerate|sorted|sum|min|max|abs|print|in|and|or|not|if|while|return)$"
)


@dataclass(frozen=True)
class _Statement:
    """A statement of one or several lines. rows: of the subject; place: of the line that takes most; hits: of the first line."""

    rows: tuple[int, ...]
    function: str
    file: str
    place: str
    text: str
    hits: int
    time_ns: int


def lines(subject: Subject) -> list[Advice]:
    """The lines that take most of the time wait, or do what could be done once or by compiled code."""
    found: dict[str, list[tuple[Kind, _Statement]]] = {}
    statements = _statements(subject)
    for one in statements:
        kind = kind_of(one.text, one.hits, one.time_ns)
        if kind is not None and kind.own:
            found.setdefault(kind.name, []).append((kind, one))
    named = {one for group in found.values() for _, one in group}
    result = [_advice(subject, group[0][0], [one for _, one in group]) for group in found.values()]
    return list(filter(None, [*result, *_elements(subject, [one for one in statements if one not in named])]))


def ranked(subject: Subject) -> list[Advice]:
    """Return this rule's advice, largest saving first."""
    return sorted(lines(subject), key=lambda one: -one.saves_ns)


def notes(subject: Subject) -> list[str]:
    """Say which of the longest lines are a framework's work, and which call what was not profiled."""
    statements = _statements(subject)
    works = [(kind_of(one.text, one.hits, one.time_ns), one) for one in statements]
    own = [one for kind, one in works if kind is not None and not kind.own]
    result = []
    if (ns := _sum(own)) >= _LEAST * subject.step_ns > 0:
        framework = next(one for one in kinds.KINDS if not one.own)
        result.append(f"the program {framework.what} for {words.share(subject, ns)}: {_listed(subject, own)}; {framework.remedy}")
    result += _elsewhere(subject)
    for kind, one in works:
        if kind is None and _is_opaque(subject, one):
            result.append(
                f"{one.place} `{one.text[:_LONGEST]}` takes {words.share(subject, one.time_ns)}: what it calls was not profiled; "
                "decorate that with @profile, too, if it is Python (a sampler such as py-spy also sees the rest)"
            )
    return result


def _elsewhere(subject: Subject) -> list[str]:
    """Name the profiled functions whose lines are not among the rows: whether they ran within them is not known."""
    if subject.trace.lines.empty or not subject.unrecorded:
        return []
    table, _ = host_account.opened_lines(subject.trace)
    lines = subject.trace.lines[~subject.trace.lines["function"].isin(table["function"]).to_numpy(bool)]
    sums = lines.groupby("function")["time_ns"].sum().sort_values(ascending=False, kind="stable")
    sums = sums[sums >= _PART * subject.step_ns]
    if sums.empty:
        return []
    named = [f"{str(name).rpartition('.')[2]} ({words.duration(float(ns))})" for name, ns in sums.head(_FUNCTIONS).items()]
    more = f" and {len(sums) - _FUNCTIONS} more" if len(sums) > _FUNCTIONS else ""
    return [f"other profiled functions are not in this time, unless it includes them: {', '.join(named)}{more}"]


def _is_opaque(subject: Subject, one: _Statement) -> bool:
    """Return whether most of the time is in a statement that calls something, for long each time, that may be Python."""
    calls = (found[1] for found in _CALL.finditer(kinds.code(one.text)))
    long = one.time_ns >= _OPAQUE * subject.step_ns and one.time_ns >= _CALL_NS * max(one.hits, 1)
    return long and any(not _NO_LINES.search(name) for name in calls)


def _statements(subject: Subject) -> list[_Statement]:
    """Return the statements of a recording of lines alone; none of any other."""
    if subject.trace.lines.empty or subject.trace.has_timeline() or len(subject.trace.kernels) or not subject.unrecorded:
        return []
    table, _ = host_account.opened_lines(subject.trace)
    if len(table) != len(subject.rows):
        return []
    table = table.assign(time_ns=subject.rows["time_ns"].to_numpy(), place=host_account.place_of_lines(table))
    table = table[(table["text"].notna() & (table["line"] > 0).fillna(False)).to_numpy(bool)]
    table = table.sort_values(["file", "function", "line"], kind="stable")
    return [_statement(group) for group in _joined(table)]


def _joined(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the lines of each statement."""
    for _, lines in table.groupby(["file", "function"], sort=False, dropna=False):
        begins = kinds.beginnings(zip(map(int, lines["line"]), map(str, lines["text"]), strict=True))
        for _, group in lines.groupby(begins, sort=False):
            yield group


def _statement(group: pd.DataFrame) -> _Statement:
    longest, first = group.iloc[int(group["time_ns"].to_numpy().argmax())], group.iloc[0]
    return _Statement(
        tuple(map(int, group.index)), str(first["function"]), str(first["file"]), str(longest["place"]),
        " ".join(" ".join(map(str, group["text"])).split()), int(first["count"]), int(group["time_ns"].sum()),
    )  # fmt: skip


def _sum(statements: list[_Statement]) -> int:
    return sum(one.time_ns for one in statements)


def _advice(subject: Subject, kind: Kind, statements: list[_Statement]) -> Advice | None:
    """Return the advice on statements of one kind; None if they take little of the time."""
    ns = _sum(statements)
    if ns < _LEAST * subject.step_ns:
        return None
    saves = sum(one.time_ns * (1 - 1 / max(one.hits, 1)) for one in statements) if kind.repeats else float(ns)
    rows = frozenset(row for one in statements for row in one.rows)
    evidence = [f"{_listed(subject, statements)}."]
    title = f"the program {kind.what}, for {ns / max(subject.step_ns, 1):.0%} of the time"
    return Advice(kind.name, title, saves, f"an upper bound: {kind.limit}", evidence, kind.remedy, "", rows)


def _elements(subject: Subject, statements: list[_Statement]) -> Iterator[Advice | None]:
    """Yield the advice on short lines that execute very often, function by function."""
    groups: dict[tuple[str, str], list[tuple[Kind, _Statement]]] = {}
    for one in statements:
        if (kind := kinds.short(one.hits, one.time_ns, one.file)) is not None:
            groups.setdefault((one.file, one.function), []).append((kind, one))
    for group in groups.values():
        yield _advice(subject, group[0][0], [one for _, one in group])


def _listed(subject: Subject, statements: list[_Statement]) -> str:
    """Name the statements that take longest, with their executions."""
    ordered = sorted(statements, key=lambda one: -one.time_ns)
    shown = [one for one in ordered if one.time_ns >= _PART * subject.step_ns][:_NAMED] or ordered[:1]
    return "; ".join(
        f"{one.place} `{one.text[:_LONGEST]}` {words.share(subject, one.time_ns)}, {one.hits:,} x "
        f"{words.duration(one.time_ns / max(one.hits, 1))}"
        for one in shown
    )


RULES: tuple[Rule, ...] = (lines,)
