"""When a pass waits for the device, and which device a run is said to be of; without a GPU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from kernelscope.tracer.inside.frameworks.script import Base
from kernelscope.tracer.inside.launching.outcome import Result
from kernelscope.tracer.inside.profiling.focus import Focus
from kernelscope.tracer.inside.profiling.passes import OVER, Pass
from kernelscope.tracer.inside.run_record import RunRecord
from kernelscope.tracer.inside.scrubbing import Scrubber

VISION = Path(__file__).parents[1] / "data" / "gpu" / "h100" / "vision"


class Waiting(Base):
    """An adapter whose device works behind the host; notes after how many steps it was waited for."""

    framework = "pytorch"

    def watch(self):
        self.steps = 0
        self.waits = []

    def settle(self):
        self.waits.append(self.steps)


def test_measured_steps_have_the_device_s_work_of_just_these(tmp_path: Path) -> None:
    adapter = Waiting(None)
    adapter.watch()
    spec = {"folder": str(tmp_path), "seconds": 60, "limit": 10**9}
    opened = Pass(spec, adapter, {"pass": "layers", "skip": 2, "steps": 3}, {}, Focus([], [], False))
    ended = []
    for number in range(5):
        opened.begin_step(number)
        adapter.steps += 1
        ended.append(opened.end_step(None))
    assert ended == [None, None, None, None, OVER]
    assert adapter.waits == [0, 2, 5], "before the pass, after the last step that does not count, and at the end"


class Sampled:
    """Stands for the watcher: nothing was sampled."""

    def describe(self, place: str) -> dict[str, str]:
        return {}


def test_a_pass_that_the_script_s_end_cut_off_does_not_tell_the_device(tmp_path: Path) -> None:
    """As an H100 had it: when the lines pass ended the model was gone, and with it what is on a GPU."""
    folder = shutil.copytree(VISION, tmp_path / "vision")
    recorded = json.loads((folder / "run.json").read_text())
    told = {name: json.loads((folder / name / "1" / "child.json").read_text())["device"] for name in recorded["passes"]}
    assert told == {"clean": "cuda", "layers": "cuda", "kernels": "cuda", "lines": "cpu"}
    options = {**recorded["options"], "device": "cpu", "batch": None}
    record = {"framework": None, "version": None, "options": options}
    run = RunRecord(folder, record, Scrubber(False, {}, []))
    Result(run, 0, Sampled()).outcome()
    kept = json.loads((folder / "run.json").read_text())
    assert kept["options"]["device"] == "cuda"
    assert kept["options"]["batch"] == 64
