"""What trials of changes came to, for people: the answer, the lines to keep, and a row for each change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from kernelscope.reports import text
from kernelscope.reports.trimmed import Trimmed

Result = Mapping[str, Any]
_HEADS = ("claimed, ms", "seen, ms", "95% interval", "verdict", "change", "results", "tried because")
_NUMBERS = 3


def answer(result: Result) -> str:
    """Return in one sentence what helped."""
    step_ns, together, rows = result["step_ns"], result["together"], result["tried"]
    begin = f"A step takes {_ms(step_ns)} ms"
    if together:
        names = " and ".join(together["names"])
        low, high = (_ms(ns) for ns in together["interval_ns"])
        share = together["saved_ns"] / max(together["step_ns"], 1)
        make = "make" if len(together["names"]) > 1 else "makes"
        return f"{begin}; {names} {make} it {_ms(together['saved_ns'])} ms shorter ({share:.0%}; between {low} and {high} ms)."
    helped = [row for row in rows if row["verdict"] in ("confirmed", "partly")]
    if helped:
        return f"{begin}; nothing that was tried helps and leaves results as they are."
    return f"{begin}; nothing helps of {len(rows)} changes that were tried."


def shown(result: Result) -> Trimmed:
    """Return it for a terminal."""
    parts: list[Any] = [Text(answer(result), style="bold"), Text()]
    if result["keep"]:
        parts += [Text("To keep:"), *(Text(f"  {line}") for line in result["keep"]), Text()]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for place, head in enumerate(_HEADS):
        table.add_column(head, justify="right" if place < _NUMBERS else "left", overflow="fold")
    for row in result["tried"]:
        table.add_row(*map(Text, _cells(row)))
    return Trimmed(Group(*parts, table, Text(), *map(Text, notes(result))))


def markdown(result: Result) -> str:
    """Return it as Markdown."""
    lines = [f"### {text.markdown(answer(result))}", ""]
    lines += [*("    " + line for line in result["keep"]), ""] if result["keep"] else []
    lines += ["| " + " | ".join(_HEADS) + " |", "| ---: | ---: | ---: |" + " --- |" * (len(_HEADS) - _NUMBERS)]
    lines += ["| " + " | ".join(map(text.markdown, _cells(row))) + " |" for row in result["tried"]]
    return "\n".join([*lines, "", *(f"- {text.markdown(note)}" for note in notes(result))]).rstrip() + "\n"


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    interval = row["interval_ns"]
    title = row["title"] or "every program is tried with it"
    verdict = f"{row['verdict']} ({row['reason']})" if row["reason"] else row["verdict"]
    if row["bound"] and row["saved_ns"] is not None:
        verdict = "at most to be won: no remedy"
    return (
        _ms(row["claimed_ns"]), _ms(row["saved_ns"]), f"{_ms(interval[0])} to {_ms(interval[1])}" if interval else "—",
        verdict, row["name"], row["results"], text.printable(title),
    )  # fmt: skip


def notes(result: Result) -> list[str]:
    """Return what is to be known beside the table."""
    said = [
        f"{result['rounds']} runs of each, in turns with the unchanged program; a difference counts where chance is below 5%, "
        "corrected for how many were tried."
    ]
    said += [f"{one['name']} does not help beside {one['beside']}." for one in (result["together"] or {}).get("dropped", [])]
    if result["left_out"]:
        said.append(f"Not tried, for lack of time (--budget): {', '.join(result['left_out'])}.")
    if any(row["results"] == "not compared" for row in result["tried"]):
        said.append("Results are compared by the first losses; not compared: these are not seen, or differ from run to run.")
    return said


def _ms(ns: float | None) -> str:
    return "—" if ns is None else f"{ns / 1e6:,.2f}"
