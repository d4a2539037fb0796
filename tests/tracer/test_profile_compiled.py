"""What torch.compile generates for processors is computing, by the profiler's own record of compiled graphs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from kernelscope.analysis.attribution.frameworks import pytorch_compiled
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import environments
from tests.tracer.test_profile import profiled

SCRIPT = """
import torch
layers = torch.nn.Linear(64, 512), torch.nn.GELU(), torch.nn.LayerNorm(512), torch.nn.Linear(512, 8)
net = torch.compile(torch.nn.Sequential(*layers))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
values, labels = torch.randn(512, 64), torch.randint(0, 8, (512,))
for _ in range(80):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(values), labels).backward()
    optimizer.step()
"""


def own_pieces(file: Path) -> dict[str, list[float]]:
    """Return by graph the times, in us, between and around the operators of libraries inside of it, with nothing but json."""
    with gzip.open(file, "rt") as stream:
        events = [one for one in json.load(stream)["traceEvents"] if one.get("ph") == "X"]
    operators = [one for one in events if one.get("cat") == "cpu_op"]
    pieces: dict[str, list[float]] = {}
    for graph in events:
        if not graph["name"].startswith("## Call CompiledFxGraph"):
            continue
        end, at = graph["ts"] + graph["dur"], graph["ts"]
        inside = [one for one in operators if one["tid"] == graph["tid"] and graph["ts"] <= one["ts"] < end]
        for one in sorted(inside, key=lambda one: one["ts"]):
            pieces.setdefault(graph["name"], []).append(max(one["ts"] - at, 0))
            at = max(at, one["ts"] + one["dur"])
        pieces.setdefault(graph["name"], []).append(end - at)
    return pieces


@pytest.mark.slow
def test_generated_kernels_are_what_compiled_graphs_take_between_operators(tmp_path: Path) -> None:
    """Alone compiles a model on a processor, and adds up what the profiler recorded of its graphs."""
    script = tmp_path / "compiled.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "run"
    done = profiled(folder, str(environments.resolve("pytorch", None).python), str(script), options=("--steps", "10"))
    assert done.returncode == 0, done.stderr
    kernels = Run(folder).trace().kernels
    mine = kernels[kernels["name"] == pytorch_compiled.NAME]
    assert set(mine["phase"]) == {"forward", "backward"}
    assert set(mine["kind"]) == {"fused"}
    pieces = own_pieces(folder / "kernels" / "1" / "operators.pt.trace.json.gz")
    assert len(pieces) == 2, "a graph forward, and one backward"
    recorded = sorted(piece * 1e3 for graph in pieces.values() for piece in graph)
    found = mine["duration_ns"].to_numpy(float)
    near = np.abs(found[:, None] - np.array(recorded)[None, :]).min(axis=1)
    assert len(found) >= 2 * 5, "at least one piece forward and one backward in each of the five steps"
    # an end is a start and a duration, each rounded to 1 ns in the file, and so are ours; the rate between the two clocks is
    # that of readings at the ends of a pass of some ms
    assert (near <= 4 + 2e-4 * found).all(), "each is a piece that the profiler recorded, to the rounding of its two ends"
