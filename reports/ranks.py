"""What a job of several ranks does, for people: the answer, who makes others wait, and each rank's step in parts."""

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
_LEAST = 0.01  # of the job's time: what is less is not named
_MOST = 0.5  # of what makes a rank late: what alone takes as much is named
_SEVERAL = 3  # steps: then who is late by chance is not so in most of them
_MUCH = 0.1  # of the job's time: with less waiting nobody is named
_NAMED = 4  # parts in the answer
_UNDECIDED = "undecided"
HEADS = {  # of columns
    "compute": "computing", TRANSFER: "transfer", WAITING: "for ranks", UNMATCHED: "unmatched", "copy": "copies",
    HOST: "for the host", OTHER: "idle",
}  # fmt: skip
NAMES = {  # of parts, in sentences
    "compute": "computing", WAITING: "waiting for other ranks", TRANSFER: "transfer that nothing hides",
    UNMATCHED: "unmatched communication", HOST: "waiting for the host", OTHER: "idle otherwise", "copy": "copies",
}  # fmt: skip
RATES = {"algorithm_gb_s": "GB/s", "bus_gb_s": "on the bus"}  # bandwidths of nccl-tests
_UNEQUAL = 0.1  # of the mean work of ranks: by so much longer works a stage that the others wait for
_ROWS = 8  # of a table in the terminal
_IF = {  # changes, as one says them
    NO_LATE: "{} were as quick as the others",
    "balanced work": "all ranks were as quick as their mean",
    "no transfer": "transfers took no time",
}


def answer(result: Result) -> str:
    """Return what a step costs, where the time goes, who makes the others wait, and what could be won, a sentence for each."""
    return " ".join(filter(None, (costs(result), slowest(result), slow_links(result), gains(result))))


def costs(result: Result) -> str:
    """Return what a step costs, and where the time goes."""
    whole = sum(result["parts"].values()) or 1
    parts = sorted(result["parts"].items(), key=lambda part: -part[1])[:_NAMED]
    shares = ", ".join(f"{NAMES.get(name, name)} {ns / whole:.0%}" for name, ns in parts if ns > _LEAST * whole)
    return f"A step takes {units.duration(result['step_ns'])} on {len(result['ranks'])} ranks: {shares}."


def slowest(result: Result) -> str:
    """Return who makes the others wait most, and by what."""
    if result["partial"]:
        return f"Whom they wait for is not known: {result['missing']} of {result['world']} ranks are missing."
    if not result["matched"]:
        return "Whether ranks wait for one another is not known: no collective of all of them ends together."
    waited, late = result["parts"][WAITING], _late(result)
    share = waited / (sum(result["parts"].values()) or 1)
    if not late and share > _MUCH and _stages(result):
        return (
            f"No rank works longer than the others: {share:.0%} of all is waiting of a pipeline's stages for one another, which "
            "more micro-batches a step, or interleaved stages, make less."
        )
    if not late:
        return f"No rank makes the others wait much: waiting is {share:.0%} of all."
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
    """Return for which ranks others wait most, and the rows of that; none where waiting is not much."""
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
    """Return whether ranks wait for messages mostly, as the stages of a pipeline do, who wait even where all are equal."""
    waited = {row["operation"]: row["exposed_wait_ns"] for row in reversed(result["collectives"])}
    return bool(result["messages"]) and 2 * waited.get(MESSAGE, 0) > sum(row["exposed_wait_ns"] for row in result["collectives"])


def _work(result: Result) -> dict[int, int]:
    """Return how long each rank works in a step: all that is neither transfer nor waiting for other ranks, ns."""
    return {row["rank"]: sum(row[part] for part in ("compute", "copy", HOST, OTHER)) for row in result["ranks"]}


def _named(result: Result) -> list[int]:
    """Return the ranks that make others wait, together in half of the steps at least; none where it is so in fewer."""
    late = _late(result)
    times = sum(row["count"] for rows in late.values() for row in rows)
    return [] if result["steps"] >= _SEVERAL and times < result["steps"] / 2 else list(late)


def gains(result: Result) -> str:
    """Return by what a step would be shorter if ranks worked alike or transfers took no time; nothing where nobody can tell."""
    told = result["what_if"] or {"changes": []}
    if not told["changes"]:
        return ""
    late = told["late_ranks"] if told["late_ranks"] == _named(result) else []
    changes = [row for row in told["changes"] if row["saved_ns"] > _LEAST * told["measured_ns"]]
    won = [(row["saved_ns"], _IF[row["name"]].format(_ranks(late))) for row in changes if row["name"] != NO_LATE or late]
    if not won:
        return "Ranks that are all as quick as their mean, or transfers that take no time, would win less than 1%."
    said = ", by ".join(f"{units.duration(ns)} if {change}" for ns, change in sorted(won, reverse=True))
    return f"A step would be shorter by {said}."


def _cause(rows: Sequence[Mapping[str, Any]], hosts: str) -> str:
    """Return what makes ranks late, of all that does: kernels or hosts, where, and what alone is most of that."""
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
    """Return ranks, who makes others wait, and operations, times in ms per step."""
    unknown = (UNMATCHED,) if not result["parts"][UNMATCHED] else () if result["matched"] else (TRANSFER, WAITING)
    parts = [name for name in JOB_PARTS if name not in unknown]
    ranks = [
        {"rank": row["rank"], "step, ms": _ms(row["step_ns"]), **{HEADS.get(name, name): _ms(row[name]) for name in parts},
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
    made = [of_rows("ranks", ranks, title="Each rank's step, in ms: what it computes, transfers and waits for", first=first)]
    if blame and not result["partial"]:
        title = "Who makes the others wait: a step, added up over ranks"
        made.append(of_rows("blame", blame, title=title, first=("others wait, ms", "rank", "by")))
    if result["groups"]:
        title = "Groups of ranks: times added up over their ranks, a step"
        made.append(of_rows("groups", [_group(row) for row in result["groups"]], title=title))
    if operations:
        title = "Collectives: times added up over ranks, a step; what one takes and its bandwidth are medians"
        made.append(of_rows("operations", operations, title=title))
    return made


def group(row: Mapping[str, Any]) -> str:
    """Return what a group is called: its ranks, or who sends to whom."""
    return str(row["group"]).replace(">", " to ")


def hidden(row: Mapping[str, Any]) -> float:
    """Return which part of a group's communication its ranks compute beside."""
    return float(row["hidden_ns"] / row["time_ns"]) if row["time_ns"] else 0.0


def slower(row: Mapping[str, Any]) -> str:
    """Return how many times as long a group's transfers take as those of like groups; "" where that is not known."""
    return "" if row["slower"] is None else f"{row['slower']:.2f}\u00d7"


def _group(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ranks": group(row), "operations": ", ".join(row["operations"]), "time, ms": _ms(row["time_ns"]),
        "waiting, ms": _ms(row["wait_ns"]), "transfer, ms": _ms(row["transfer_ns"]), "hidden": f"{hidden(row):.0%}",
        "count": row["count"], "on the bus": rate(row["bus_gb_s"]), "slower": slower(row),
    }  # fmt: skip


def slow_links(result: Result) -> str:
    """Return which groups of ranks have transfers that take far longer than those of others that do the same; "" for none."""
    slow = sorted((row for row in result["groups"] if (row["slower"] or 0) >= SLOW), key=lambda row: -row["slower"])[:_NAMED]
    if not slow:
        return ""
    said = ", ".join(f"{group(row)} ({row['slower']:.1f} times)" for row in slow)
    return f"Transfers take longer than in like groups between ranks {said}: look at these links."


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
    """Return the first rows of a table; ranks are all shown while they are few."""
    most = 2 * _ROWS if table.name == "ranks" else _ROWS
    if len(table.rows) <= most:
        return table
    more = f"{table.title} (the first {most} of {len(table.rows)} rows; all: --format markdown)"
    return Table(table.name, table.columns, table.rows[:most], more, table.first)


def markdown(result: Result) -> str:
    """Return it as Markdown."""
    return answered.markdown(answer(result), tables(result), notes(result))


def notes(result: Result) -> list[str]:
    """Return what the numbers rest on."""
    clocks, matched = result["clocks"], result["matched"]
    if matched:
        apart, left = units.duration(clocks["apart_ns"]), units.duration(2 * clocks["uncertainty_ns"])
        said = _matched(result, left, apart)
    else:
        said = "no collective of all ranks ends together: clocks are not corrected, and waiting is not known"
    return [*_look(result), said, *_played(result["what_if"]), *_steps(result["ranks"]), *result["notes"]]


def _matched(result: Result, left: str, apart: str) -> str:
    """Return what was matched and by what clocks are corrected. left, apart: how far ends lie apart, with that and without."""
    messages = result["messages"]
    sent = f"{units.counted(messages, 'message')} between two ranks"
    if messages == result["matched"]:
        return f"{sent}, by the quickest of which clocks are corrected, to within {left}"
    together = units.counted(result["matched"] - messages, "collective")
    more = f", and {sent}" if messages else ""
    return f"{together} of all ranks{more}; their ends lie {left} apart with corrected clocks, {apart} without"


def _look(result: Result) -> list[str]:
    """Return where to look for what to do about the ranks that others wait for."""
    late = set(_named(result))
    paths = [row["path"] for row in result["ranks"] if row["rank"] in late]
    commands = " and ".join(f"kernelscope advise {shlex.quote(path)}" for path in paths)
    alone = "; what they say of communication is mostly waiting for the other ranks" if len(paths) > 1 else ""
    return [f"what to do about it: {commands}{alone}"] if paths else []


def _played(told: Mapping[str, Any] | None) -> list[str]:
    """Return how well the job can be played again, on which what could be won rests."""
    if told is None:
        return []
    error = told["error"]
    off = f"{abs(error):.1%} {'less' if error < 0 else 'more'} than measured" if abs(error) >= 0.0005 else "what was measured"
    if not told["changes"]:
        return [f"what could be won is not told: played again unchanged, the job takes {off}"]
    return [f"what could be won is the job played again with this changed; unchanged it takes {off}"]


def _steps(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    fewest = min(row["steps"] for row in ranks)
    return [f"{units.counted(fewest, 'step')} recorded: who is last may differ from step to step"] if fewest < 3 else []


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.3f}"
