"""Plant faults into one rank of jobs of gloo, record them, and see whether the rank, the place and the size are named.

    python tests/tools/ranks/planted.py [2 4]     numbers of ranks

Faults are those of job.py; `plain` has none, and nobody may be named. `clock` is `sleep` with a clock that is 250 ms ahead.
The size is what the others wait for: the fault's own length in the recording, times the number of the other ranks. It is right
within 10%, or within the uncertainty of the clocks. Recordings stay below out/ranks/planted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kernelscope.analysis.ranks.job import job
from kernelscope.reports.ranks import answer
from kernelscope.tracer.outside import environments

HERE, OUT = Path(__file__).parent, Path("out/ranks/planted")
LATE, STEPS, AHEAD_US = 1, 4, 250_000
WITHIN = 0.10
NAMES = {
    "sleep": "planted", "clock": "planted", "input": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "work": "aten::mm", "plain": None,
}  # fmt: skip


def main(worlds: list[int]) -> int:
    """Record, judge and print; return 1 if anything is wrong."""
    print("| ranks | fault | named | planted, ms | seen, ms | clocks, ms | right |\n|---:|---|---|---:|---:|---:|---|")
    wrong = 0
    for world in worlds:
        for fault, name in NAMES.items():
            files = recorded(fault, world)
            result = job(files, workers=2)
            row = judged(result, files, world, name)
            wrong += not row[-1]
            print(f"| {world} | {fault} | {' | '.join(map(str, row[:-1]))} | {'yes' if row[-1] else 'no'} |", flush=True)
    return int(wrong > 0)


def recorded(fault: str, world: int) -> list[Path]:
    """Return the captures of all ranks, recorded if they are not there."""
    folder = OUT / f"{fault}-{world}"
    asked = {"clock": "sleep"}.get(fault, fault)
    files = [folder / f"{asked}_rank{rank}.json" for rank in range(world)]
    if not all(file.is_file() for file in files):
        folder.mkdir(parents=True, exist_ok=True)
        python = str(environments.resolve("pytorch", None).python)
        commands = [[python, str(HERE / "job.py"), str(rank), str(world), asked] for rank in range(world)]
        started = [subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) for command in commands]
        if any(one.wait(300) for one in started):
            raise SystemExit(f"{folder}: a rank failed")
        if fault == "clock":
            _set_ahead(files[LATE])
    return files


def _set_ahead(file: Path) -> None:
    trace = json.loads(file.read_text())
    for event in trace["traceEvents"]:
        if "ts" in event:
            event["ts"] = float(event["ts"]) + AHEAD_US
    file.write_text(json.dumps(trace))


def planted_ms(files: list[Path], name: str) -> float:
    """Return how long the fault takes in a step, by plain sums over the events: of its range, or of its products."""
    sums = []
    for file in files:
        events = json.loads(file.read_text())["traceEvents"]
        mine = [float(event["dur"]) for event in events if event.get("ph") == "X" and event.get("name") == name]
        sums.append(sum(mine) / STEPS / 1000)
    others = [each for rank, each in enumerate(sums) if rank != LATE]
    return sums[LATE] - sum(others) / len(others)


def judged(result: dict[str, Any], files: list[Path], world: int, name: str | None) -> list[Any]:
    """Return who is named and by what, sizes in ms, and whether all is right."""
    sure_ms = result["clocks"]["uncertainty_ns"] / 1e6
    if name is None:
        calm = "No rank makes the others wait much" in answer(result)
        return ["nobody" if calm else "a rank", "", "", f"{sure_ms:.2f}", calm]
    first = result["blame"][0]
    mine = [row["ns"] for row in result["blame"] if (row["rank"], row["name"]) == (LATE, name)]
    planted, seen = planted_ms(files, name) * (world - 1), sum(mine) / 1e6
    size = abs(seen - planted) <= max(WITHIN * planted, sure_ms * (world - 1))
    right = (first["rank"], first["name"]) == (LATE, name) and size
    return [f"rank {first['rank']}, {first['name']}", f"{planted:.2f}", f"{seen:.2f}", f"{sure_ms:.2f}", right]


if __name__ == "__main__":
    sys.exit(main([int(text) for text in sys.argv[1:]] or [2, 4]))
