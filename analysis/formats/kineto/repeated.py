"""Events of the host that a trace holds twice, as where windows that overlap were put into one list: each counts once.

Of device work `trace.duplicates` knows it, for all formats. Here it must be known before steps are cut at the next one's begin,
and operators and functions are put into each other: what stands twice would be in itself.
"""

from __future__ import annotations

from kernelscope.analysis.formats.kineto.tables import Scan
from kernelscope.analysis.trace import duplicates

_CALLED = {
    "operators": "operators", "annotations": "ranges and steps", "functions": "functions", "calls": "calls", "syncs": "waits",
    "memory": "allocations",
}  # fmt: skip
_NUMBERS = ("external_id", "correlation", "address", "queue")  # which tell short events of one name apart


def leave_out(scan: Scan, found: dict[str, int]) -> None:
    """Take events out of a scan that stand there before with all they say, in place, and count them in `found`."""
    for name, called in _CALLED.items():
        table = scan.tables.get(name)
        if table is None or not len(table):
            continue
        again = duplicates.repeated(
            table, table.columns.tolist(), duplicates.told_apart(table, table["duration_ns"] > 0, _NUMBERS)
        )
        if again.any():
            found[f"{called} {duplicates.TWICE}"] = int(again.sum())
            scan.tables[name] = table[~again].reset_index(drop=True)
