"""Render a job of several ranks: the answer, who makes others wait, and each rank's step in parts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.analysis.ranks.groups import SLOW
from kernelscope.analysis.ranks.parts import HOST, HOSTS, JOB_PARTS, LATE, MESSAGE, NO_LATE, OTHER, TRANSFER, UNMATCHED, WAITING
from kernelscope.reports import answered, units
from kernelscope.reports.table import Table, of_rows
from kernelscope.reports.trimmed import Trimmed

Result = Mapping[str, Any]
_LEAST = 0.01  # of the job's time: smaller parts are not mentioned
_MOST = 0.5  # of a rank's delay: a single kernel or call with more than this is named
_SEVERAL = 3  # steps: with so many, a rank that is late by chance is not late in most of them
_MUCH = 0.1  # of the job's time: with less waiting no rank is named
_NAMED = 4  # parts in the answer
_UNDECIDED = "undecided"
HEADS = {  # of columns
    "compute": "computing", TRANSFER: "transfer", WAITING: "for ranks", UNMATCHED: "unmatched", "copy": "copies",
    HOST: "for the host", OTHER: "idle",
}  # fmt: skip
HIDDEN = "hidden transfer"
NAMES = {  # of parts, in sentences
    "compute": "computing", WAITING: "waiting for other ranks", TRANSFER: "transfer that nothing hides",
    UNMATCHED: "unmatched communication", HOST: "waiting for the host", OTHER: "idle otherwise", "copy": "copies",
}  # fmt: skip
RATES = {"algorithm_gb_s": "GB/s", "bus_gb_s": "on the bus"}  # bandwidths of nccl-tests
_UNEQUAL = 0.1  # of the mean work of ranks: a pipeline stage is named only if it works longer by this much
_ROWS = 8  # of a table in the terminal
_IF = {  # changes, in words
    NO_LATE: "{} were as fast as the others",
    "balanced work": "all ranks were as fast as their mean",
    "no transfer": "transfers took no time",
}


def answer(result: Result) -> str:
    """Return the time of a step, where it goes, who makes the others wait, and what could be saved, in a sentence each."""
    return " ".join(filter(None, (costs(result), slowest(result), slow_links(result), gains(result))))


def costs(result: Result) -> str:
    """Return the time of a step, and where it goes."""
    whole = sum(result["parts"].values()) or 1
    parts = sorted(result["parts"].items(), key=lambda part: -part[1])[:_NAMED]
    shares = ", ".join(f"{NAMES.get(name, name)} {ns / whole:.0%}" for name, ns in parts if ns > _LEAST * whole)
    return f"A step takes {units.duration(result['step_ns'])} on {len(result['ranks'])} ranks: {shares}."


def slowest(result: Result) -> str:
    """Return which ranks make the others wait most, and why."""
    if result["partial"]:
        return f"Whom they wait for is unknown: {result['missing']} of {result['world']} ranks are missing."
    if not result["matched"]:
        return "Whether ranks wait for one another is unknown: no collective of all ranks ends at the same time."
    waited, late = result["parts"][WAITING], _late(result)
    share = waited / (sum(result["parts"].values()) or 1)
    if not late and share > _MUCH and _stages(result):
        return (
            f"No rank works longer than the others: {share:.0%} of the time the stages of the pipeline wait for one another; "
            "more micro-batches per step, or interleaved stages, reduce that."
        )
    if not late:
        return f"No rank makes the others wait much: waiting is {share:.0%} of the time."
    times = [sum(row["ns"] for row in rows) for rows in late.values()]
    much = f"{' and '.join(map(units.duration, times))} a step, added up over ranks"
    much += f" ({' and '.join(f'{ns / waited:.0%}' for ns in times)} of their waiting for one another)"
    if not _named(result):
        (rank, rows), *_ = late.items()
        count = sum(row["count"] for row in rows)
        often = "once" if count == 1 else f"{count} times"
        return f"No rank makes the others wait in most steps: rank {rank} did so {often} in {result['steps']} steps, for {much}."
    make, hosts = ("makes", "its host launches") if len(late) == 1 else ("make", "their hosts launch")
    cause = _cause([row for rows in late.values() for row in rows], hosts)
    return f"{_ranks(list(late)).capitalize()} {make} the others wait most: {much}, {cause}."


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {' and '.join(map(str, numbers))}"


def _late(result: Result) -> dict[int, list[Mapping[str, Any]]]:
    """Return the ranks that others wait for most, with the rows of their waiting; empty if waiting is small."""
    by_rank: dict[int, list[Mapping[str, Any]]] = {}
    for row in result["blame"]:
        if row["rank"] is not None:
            by_rank.setdefault(row["rank"], []).append(row)
    waited = result["parts"][WAITING]
    if not by_rank or waited < _MUCH * (sum(result["parts"].values()) or 1):
        return {}
    sums = {rank: sum(row["ns"] for row in rows) for rank, rows in by_rank.items()}
    first, *others = sorted(sums, key=lambda rank: -sums[rank])
    late = [first, *(rank for rank in others if sums[rank] > LATE * waited)]
    if _stages(result):
        work = _work(result)
        late = [rank for rank in late if work[rank] > (1 + _UNEQUAL) * sum(work.values()) / len(work)]
    return {rank: by_rank[rank] for rank in late}


def _stages(result: Result) -> bool:
    """Return whether ranks mostly wait for messages, like the stages of a pipeline, which wait even if all are equal."""
    waited = {row["operation"]: row["exposed_wait_ns"] for row in reversed(result["collectives"])}
    return bool(result["messages"]) and 2 * waited.get(MESSAGE, 0) > sum(row["exposed_wait_ns"] for row in result["collectives"])


def _work(result: Result) -> dict[int, int]:
    """Return how long each rank works in a step, in ns: everything but transfer and waiting for other ranks."""
    return {row["rank"]: sum(row[part] for part in ("compute", "copy", HOST, OTHER)) for row in result["ranks"]}


def _named(result: Result) -> list[int]:
    """Return the ranks that make others wait, if together they do so in at least half of the steps; else none."""
    late = _late(result)
    times = sum(row["count"] for rows in late.values() for row in rows)
    return [] if result["steps"] >= _SEVERAL and times < result["steps"] / 2 else list(late)


def gains(result: Result) -> str:
    """Return how much shorter a step would be if ranks worked equally or transfers took no time; "" if unknown."""
    replayed = result["what_if"] or {"changes": []}
    if not replayed["changes"]:
        return ""
    late = replayed["late_ranks"] if replayed["late_ranks"] == _named(result) else []
    changes = [row for row in replayed["changes"] if row["saved_ns"] > _LEAST * replayed["measured_ns"]]
    won = [(row["saved_ns"], _IF[row["name"]].format(_ranks(late))) for row in changes if row["name"] != NO_LATE or late]
    if not won:
        return "Ranks that are all as fast as their mean, or transfers that take no time, would save less than 1%."
    said = ", by ".join(f"{units.duration(ns)} if {change}" for ns, change in sorted(won, reverse=True))
    return f"A step would be shorter by {said}."


def _cause(rows: Sequence[Mapping[str, Any]], hosts: str) -> str:
    """Return the largest cause of lateness: kernels or hosts, where, and a single kernel or call if it is most of that."""
    sums: dict[tuple[str, str | None], int] = {}
    for row in rows:
        key = row["cause"], row["where"]
        sums[key] = sums.get(key, 0) + row["ns"]
    cause, where = max(sums, key=lambda key: sums[key])
    mine = [row for row in rows if (row["cause"], row["where"]) == (cause, where)]
    name = mine[0]["name"] if mine[0]["name"] and mine[0]["ns"] > _MOST * sums[cause, where] else None
    if cause == HOSTS:
        doing = " ".join(filter(None, (where, name and f"({name})")))
        return f"mostly because {hosts} late" + (f": {doing}" if doing else "")
    what = " in ".join(filter(None, (name, where)))
    return "mostly by kernels that take longer" + (f": {what}" if what else "")


def tables(result: Result) -> list[Table]:
    """Return the tables of ranks, of who makes others wait, and of operations, with times in ms per step."""
    unknown = (UNMATCHED,) if not result["parts"][UNMATCHED] else () if result["matched"] else (TRANSFER, WAITING)
    parts = [name for name in JOB_PARTS if name not in unknown]
    ranks = [
        {"rank": row["rank"], "step, ms": _ms(row["step_ns"]), **{HEADS.get(name, name): _ms(row[name]) for name in parts},
         **({HIDDEN: _ms(row["hidden_ns"])} if any(one["hidden_ns"] for one in result["ranks"]) else {}),
         "clock, ms": f"{row['offset_ns'] / 1e6:+,.3f}"}
        for row in result["ranks"]
    ]  # fmt: skip
    blame = [
        {"others wait, ms": _ms(row["ns"]), "rank": _UNDECIDED if row["rank"] is None else row["rank"],
         "before": row["operation"], "by": row["cause"], "what": row["name"], "where": row["where"], "times": row["count"]}
        for row in result["blame"]
    ]  # fmt: skip
    operations = [
        {"operation": row["operation"], "size": size(row), "waiting, ms": _ms(row["wait_ns"]),
         "of it exposed, ms": _ms(row["exposed_wait_ns"]), "transfer, ms": _ms(row["transfer_ns"]), "count": row["count"],
         "one takes": units.duration(row["single_ns"]), **{head: rate(row[key]) for key, head in RATES.items()}}
        for row in result["collectives"]
    ]  # fmt: skip
    first = ("rank", "step, ms", *(HEADS[name] for name in ("compute", WAITING, TRANSFER)))
    made = [of_rows("ranks", ranks, title="Each rank's step, in ms: computing, transfer and waiting", first=first)]
    if blame and not result["partial"]:
        title = "Who makes the others wait: per step, added up over ranks"
        made.append(of_rows("blame", blame, title=title, first=("others wait, ms", "rank", "by")))
    if result["groups"]:
        title = "Groups of ranks: times per step, added up over their ranks"
        made.append(of_rows("groups", [_group(row) for row in result["groups"]], title=title))
    if operations:
        title = "Collectives: times per step, added up over ranks; the time of one and its bandwidth are medians"
        made.append(of_rows("operations", operations, title=title))
    return made


def group(row: Mapping[str, Any]) -> str:
    """Return the name of a group: its ranks, or who sends to whom."""
    return str(row["group"]).replace(">", " to ")


def hidden(row: Mapping[str, Any]) -> float:
    """Return the share of a group's communication that computing hides."""
    return float(row["hidden_ns"] / row["time_ns"]) if row["time_ns"] else 0.0


def slower(row: Mapping[str, Any]) -> str:
    """Return the ratio of a group's transfer times to those of similar groups; "" if unknown."""
    return "" if row["slower"] is None else f"{row['slower']:.2f}\u00d7"


def _group(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ranks": group(row), "operations": ", ".join(row["operations"]), "time, ms": _ms(row["time_ns"]),
        "waiting, ms": _ms(row["wait_ns"]), "transfer, ms": _ms(row["transfer_ns"]), "hidden": f"{hidden(row):.0%}",
        "count": row["count"], "on the bus": rate(row["bus_gb_s"]), "slower": slower(row),
    }  # fmt: skip


def slow_links(result: Result) -> str:
    """Return which groups of ranks have far slower transfers than other groups that do the same; "" if none."""
    slow = sorted((row for row in result["groups"] if (row["slower"] or 0) >= SLOW), key=lambda row: -row["slower"])[:_NAMED]
    if not slow:
        return ""
    said = ", ".join(f"{group(row)} ({row['slower']:.1f} times)" for row in slow)
    return f"Transfers take longer than in similar groups between ranks {said}: check these links."


def size(row: Mapping[str, Any]) -> str:
    """Return how many bytes a collective moves (see analysis.ranks.messages)."""
    return units.size(row["bytes"])


def rate(gb_s: float | None) -> str:
    """Return a bandwidth in GB/s."""
    return units.UNKNOWN if gb_s is None else f"{gb_s:,.1f}" if gb_s >= 1 else f"{gb_s:.3f}"


def shown(result: Result) -> Trimmed:
    """Return it for a terminal."""
    return answered.shown(answer(result), map(head, tables(result)), notes(result))


def head(table: Table) -> Table:
    """Return the first rows of a table; of ranks twice as many."""
    most = 2 * _ROWS if table.name == "ranks" else _ROWS
    if len(table.rows) <= most:
        return table
    more = f"{table.title} (the first {most} of {len(table.rows)} rows; all: --format markdown)"
    return Table(table.name, table.columns, table.rows[:most], more, table.first)


def markdown(result: Result) -> str:
    """Return it as Markdown."""
    return answered.markdown(answer(result), tables(result), notes(result))


def notes(result: Result) -> list[str]:
    """Return notes on the numbers."""
    clocks, matched = result["clocks"], result["matched"]
    if matched:
        apart, left = units.duration(clocks["apart_ns"]), units.duration(2 * clocks["uncertainty_ns"])
        said = _matched(result, left, apart)
    else:
        said = "no collective of all ranks ends at the same time: clocks are not corrected, and waiting is unknown"
    return [*_look(result), said, *_played(result["what_if"]), *_steps(result["ranks"]), *result["notes"]]


def _matched(result: Result, left: str, apart: str) -> str:
    """Return what was matched to correct the clocks. left, apart: how far ends are apart with and without the correction."""
    messages = result["messages"]
    sent = f"{units.counted(messages, 'message')} between two ranks"
    if messages == result["matched"]:
        return f"{sent}; the fastest of them correct the clocks to within {left}"
    together = units.counted(result["matched"] - messages, "collective")
    more = f", and {sent}" if messages else ""
    return f"{together} of all ranks{more}; their ends are {left} apart with corrected clocks, {apart} without"


def _look(result: Result) -> list[str]:
    """Return how to get advice on the ranks that others wait for."""
    late = set(_named(result))
    paths = [row["path"] for row in result["ranks"] if row["rank"] in late]
    commands = " and ".join(f"kernelscope advise {shlex.quote(path)}" for path in paths)
    alone = "; communication in them is mostly waiting for the other ranks" if len(paths) > 1 else ""
    return [f"what to do about it: {commands}{alone}"] if paths else []


def _played(replayed: Mapping[str, Any] | None) -> list[str]:
    """Return how exact the replay of the job is, on which possible savings depend."""
    if replayed is None:
        return []
    error = replayed["error"]
    off = f"{abs(error):.1%} {'less' if error < 0 else 'more'} than measured" if abs(error) >= 0.0005 else "what was measured"
    if not replayed["changes"]:
        return [f"what could be saved is unknown: replayed unchanged, the job takes {off}"]
    return [f"possible savings come from replaying the job with each change; unchanged it takes {off}"]


def _steps(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    fewest = min(row["steps"] for row in ranks)
    return [f"{units.counted(fewest, 'step')} recorded: the last rank may differ from step to step"] if fewest < 3 else []


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.3f}"
