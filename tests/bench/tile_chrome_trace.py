"""Write a chrome trace as large as wanted: the events of a smaller one again and again, later and with other numbers.

python tests/bench/tile_chrome_trace.py TRACE.json[.gz] OUT.json COPIES
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

NUMBERS = ("correlation", "External id", "external id")
APART = 10_000_000  # between the numbers of two copies


def shifted(event: dict[str, Any], copy: int, span: float) -> dict[str, Any]:
    """Return an event of a copy: later by the trace's length, its correlation and ids of arrows apart from other copies'."""
    event = dict(event)
    if isinstance(event.get("ts"), int | float):
        event["ts"] = round(event["ts"] + copy * span, 3)
    if isinstance(event.get("id"), int):
        event["id"] += copy * APART
    arguments = event.get("args")
    if isinstance(arguments, dict):
        event["args"] = {
            key: value + copy * APART if key in NUMBERS and isinstance(value, int) else value for key, value in arguments.items()
        }
    return event


def main() -> None:
    """Write the tiled trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("copies", type=int)
    options = parser.parse_args()
    content = options.trace.read_bytes()
    trace = json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)
    events = trace.pop("traceEvents")
    times = [event["ts"] for event in events if event.get("ph") == "X"]
    span = round(max(times) - min(times) + 1e6)
    with options.out.open("w") as out:
        out.write(json.dumps(trace)[:-1] + (", " if trace else "") + '"traceEvents": [')
        for copy in range(options.copies):
            texts = (json.dumps(shifted(event, copy, span)) for event in events)
            out.write((", " if copy else "") + ", ".join(texts))
        out.write("]}\n")


if __name__ == "__main__":
    main()
