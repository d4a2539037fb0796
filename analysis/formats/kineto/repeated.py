"""Host events that a trace has twice, for example because overlapping windows were merged into one list: each counts once.

`trace.duplicates` does the same for the device work of all formats. For host events it must happen earlier: before steps are cut
where the next one begins, and before operators and functions are nested, as a repeated event would be inside itself.
"""

from __future__ import annotations

from kernelscope.analysis.formats.kineto.tables import Scan
from kernelscope.analysis.trace import duplicates

_CALLED = {
    "operators": "operators", "annotations": "ranges and steps", "functions": "functions", "calls": "calls", "syncs": "waits",
    "memory": "allocations",
}  # fmt: skip
_NUMBERS = ("external_id", "correlation", "address", "queue")  # these distinguish short events of one name


def leave_out(scan: Scan, diagnostics: dict[str, int]) -> None:
    """Remove from a scan, in place, the events that repeat an earlier one in every column, and count them in `diagnostics`."""
    for name, called in _CALLED.items():
        table = scan.tables.get(name)
        if table is None or not len(table):
            continue
        again = duplicates.repeated(
            table, table.columns.tolist(), duplicates.told_apart(table, table["duration_ns"] > 0, _NUMBERS)
        )
        if again.any():
            diagnostics[f"{called} {duplicates.TWICE}"] = int(again.sum())
            scan.tables[name] = table[~again].reset_index(drop=True)
