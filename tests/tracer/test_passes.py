"""When a pass waits for the device, and which device a run is said to be of; without a GPU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelscope.analysis.recordings import device_ends
from kernelscope.analysis.trace.records import read_table
from kernelscope.tracer.inside import ranges
from kernelscope.tracer.inside.frameworks.pytorch import device_clock
from kernelscope.tracer.inside.frameworks.pytorch.library import Library
from kernelscope.tracer.inside.frameworks.script import Base
from kernelscope.tracer.inside.launching.outcome import Result
from kernelscope.tracer.inside.profiling import ends, passes
from kernelscope.tracer.inside.profiling.focus import Focus
from kernelscope.tracer.inside.profiling.passes import OVER, Pass
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import RANGE_FIELDS, Recorder
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
    spec = {"folder": str(tmp_path), "seconds": 60, "limit": 10**9, "mode": "auto"}
    opened = Pass(spec, adapter, {"pass": "layers", "skip": 2, "steps": 3}, {}, Focus([], [], False))
    ended = []
    for number in range(5):
        opened.begin_step(number)
        adapter.steps += 1
        ended.append(opened.end_step(None))
    assert ended == [None, None, None, None, OVER]
    assert adapter.waits == [0, 2, 5], "before the pass, after the last step that does not count, and at the end"


class Stream:
    """A GPU's stream as torch.cuda shows it: each step's work takes 100 ms of it, and it works on one after the other.

    The host's clock stands still but for what a test lets pass: `now` in ms.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.free = 0.0
        stream = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = max(stream.free, stream.now)

            def elapsed_time(self, other: Event) -> float:
                return other.at - self.at

        self.Event = Event

    def launch(self) -> None:
        self.free = max(self.free, self.now) + 100

    def synchronize(self) -> None:
        self.now = max(self.now, self.free)


class Torch:
    """torch, of which the clock takes cuda."""

    def __init__(self) -> None:
        self.cuda = Stream()


def test_clean_steps_have_the_device_s_pace_where_the_host_is_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host launches a step in 10 ms and waits for nothing; the device takes 100 ms for each."""
    torch = Torch()
    for module in (passes, ranges, device_clock, ends):
        monkeypatch.setattr(module, "now_ns", lambda: int(torch.cuda.now * 1e6))

    class Ahead(Base):
        framework = "pytorch"

        def watch(self):
            pass

        def device_clock(self):
            return device_clock.DeviceClock(torch)

        def settle(self):
            torch.cuda.synchronize()

    spec = {"folder": str(tmp_path), "seconds": 60, "limit": 10**9, "mode": "auto"}
    wanted = {"pass": "clean", "skip": 0, "steps": 10}
    opened = Pass(spec, Ahead(None), wanted, {}, Focus([], [], False))
    noting = None
    for number in range(10):
        if number == 0 or noting is None:
            opened.begin_step(number)
            noting = opened.ends("key")
        torch.cuda.now += 10
        torch.cuda.launch()
        if not (noting and noting.noted("key")):
            opened.noted(noting.stamps if noting else [])
            ended = opened.end_step(None)
            noting = None
    assert ended == OVER
    opened.close(None)
    table = read_table(tmp_path / "clean" / "1" / "steps.jsonl", "steps")
    report = json.loads((tmp_path / "clean" / "1" / "child.json").read_text())
    by_host = ((table["end_ns"] - table["start_ns"]) / 1e6).tolist()
    assert by_host == [10.0] * 9 + [920.0], "the last one waits for all of the device's work"
    placed = device_ends.placed(table, report)
    by_device = ((placed["end_ns"] - placed["start_ns"]) / 1e6).tolist()
    assert by_device == [110.0] + [100.0] * 9
    assert sum(by_device) == sum(by_host)
    for wrong in (None, [], [1] * 9, ["x"] * 10, [2**70] * 10, list(range(10, 0, -1))):
        assert device_ends.placed(table, {"device_ends_ns": wrong}) is table


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


class Tensor:
    """A tensor as torch has it: its value is on a GPU or on the host."""

    def __init__(self, is_cuda: bool) -> None:
        self.is_cuda = is_cuda

    def item(self) -> int:
        return 7

    cpu = numpy = tolist = item


@pytest.mark.parametrize(
    ("on_gpu", "kernels", "ranges"), [(True, False, ["sync"]), (False, True, ["phase"] * 2), (False, False, [])]
)
def test_only_values_on_a_gpu_are_waited_for(tmp_path: Path, on_gpu: bool, kernels: bool, ranges: list[str]) -> None:
    """Adam reads its count of steps for each parameter, from tensors on the host: 322 of the 323 calls of a step of vision.py."""
    library = Library(SimpleNamespace(Tensor=Tensor))
    recorder, patches = Recorder(str(tmp_path), layers=True), Patches()
    library.range_synchronisation(patches, recorder, on_gpu, kernels)
    recorder.begin_step()
    assert [Tensor(True).item(), Tensor(False).item()] == [7, 7]
    recorder.end_step()
    patches.undo()
    rows = [dict(zip(RANGE_FIELDS, row, strict=True)) for row in recorder.ranges()]
    assert [row["category"] for row in rows if row["name"] == "item"] == ranges
    assert Tensor.item.__name__ == "item"
