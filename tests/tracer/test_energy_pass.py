"""The energy pass with a child that only sleeps: the order of its parts, what it writes, and when it calls a machine steady."""

import json
import time

import pyarrow.parquet as pq
import pytest

from kernelscope.tracer.inside.child import Child
from kernelscope.tracer.inside.frameworks.workload import CannotReplay, Hooks
from kernelscope.tracer.inside.ranges import Recorder
from kernelscope.tracer.outside import energy
from kernelscope.tracer.outside.energy import Measurement, Plan
from kernelscope.tracer.outside.samplers.sampler import Sample, Sampler

SHORT = Plan(
    windows=2, window_s=0.1, idle_s=0.1, block_s=0.05, blocks=2, cooldown_limit_s=1.0, warmup_limit_s=1.0, replay_warmup_s=0.02
)


class Sleeper:
    """A child whose step takes 5 ms, and 1 ms its layers but fc1, which cannot be replayed."""

    pid = 4321

    def __init__(self):
        self.told = []

    def tell(self, **command):
        self.told.append(command)
        if command["do"] == "warmup":
            return {"event": "warm"}
        if command["do"] == "replay":
            return self._replay(command)
        time.sleep(0.005 * command["steps"])
        return {"event": "window", "step_ns": [5_000_000] * command["steps"]}

    def _replay(self, command):
        if command["layer"] == "fc1":
            return {"event": "cannot replay", "reason": "it is not called in a step"}
        start = time.monotonic_ns()
        time.sleep(0.001 * command["steps"])
        return {
            "event": "replay", "start_ns": start, "end_ns": time.monotonic_ns(), "step_ns": [1_000_000] * command["steps"],
        }  # fmt: skip

    def wait_until_asleep(self):
        """It sleeps."""


class Meter:
    """A GPU at a power and a temperature that follow from the time since it was made."""

    name = "meter"

    def __init__(self, watts, heat):
        self._start, self._watts, self._heat = time.monotonic(), watts, heat

    def sample(self, pid):
        t = time.monotonic() - self._start
        return [
            Sample("gpu_power_w", self._watts(t), gpu=1),
            Sample("gpu_energy_j", 100.0 * t, gpu=1),
            Sample("gpu_temperature_c", self._heat(t), gpu=1),
            Sample("gpu_temperature_c", 1000.0 * t, gpu=0),  # another GPU is nobody's business
        ]

    def describe(self):
        return {"source": "meter"}


def _record(tmp_path, meter, plan=SHORT, layers=()):
    child = Sleeper()
    with Sampler([meter], rate_hz=200) as sampler:
        Measurement(child, sampler, tmp_path, 1, plan, layers).record()
        sampler.write(child.pid, tmp_path / "samples.parquet", {1: "cuda:0"})
    return child, [json.loads(line) for line in (tmp_path / energy.FILE).read_text().splitlines()]


def test_parts_come_in_order_and_windows_are_counted_by_time(tmp_path):
    child, rows = _record(tmp_path, Meter(lambda t: 100.0, lambda t: 40.0))
    assert [row["kind"] for row in rows] == ["cooldown", "idle", "warmup", "window", "window"]
    assert all(row["steady"] for row in rows[:3])
    assert rows[2]["temperature_c"] == 40.0
    assert rows[2]["power_w"] == pytest.approx(100.0)
    assert child.told[0] == {"do": "warmup"}
    windows = [command for command in child.told if command["do"] == "window"]
    assert [command["window"] for command in windows] == list(range(len(windows)))
    assert windows[0]["steps"] == 5, "to find out how long a step takes"
    # 100 ms and a twentieth, in steps of 5 ms
    assert [command["steps"] for command in windows[-2:]] == [row["steps"] for row in rows[-2:]] == [21, 21]
    assert [row["window"] for row in rows[-2:]] == [windows[-2]["window"], windows[-1]["window"]]
    ends = [0] + [row["end_ns"] for row in rows]
    assert all(row["start_ns"] >= before for row, before in zip(rows, ends, strict=False))
    table = pq.read_table(tmp_path / "samples.parquet").to_pandas()
    assert set(table["device"]) == {"cuda:0"}
    assert table["time_ns"].max() > rows[-1]["end_ns"] + 100_000_000, "power is polled until the counter was updated once more"


def test_layers_run_alone_after_the_windows_and_a_reason_stands_where_one_cannot(tmp_path):
    child, rows = _record(tmp_path, Meter(lambda t: 100.0, lambda t: 40.0), layers=["conv2", "fc1", "conv1"])
    assert [row["kind"] for row in rows[-4:]] == ["window", "window", "replay", "replay"], "two layers, as planned"
    conv2, fc1 = rows[-2:]
    # 1 ms a call: five to find that out, 20 ms of warm-up, then 100 ms, with a twentieth more of each
    told = [command for command in child.told if command.get("layer") == "conv2"]
    assert [command["steps"] for command in told] == [5, 21, 105]
    assert (conv2["layer"], conv2["steps"], conv2["window"]) == ("conv2", 105, told[-1]["window"])
    assert conv2["end_ns"] - conv2["start_ns"] >= 105e6, "the time of the calls, as the child told it"
    assert (fc1["layer"], fc1["steps"], fc1["reason"]) == ("fc1", None, "it is not called in a step")
    numbers = [command["window"] for command in child.told if "window" in command]
    assert numbers == list(range(len(numbers)))
    table = pq.read_table(tmp_path / "samples.parquet").to_pandas()
    assert table["time_ns"].max() > conv2["end_ns"] + 100_000_000, "power is polled until the counter was updated once more"


class Captured:
    """Hooks of a framework whose layers can run alone, but for fc1; `told` is what was done."""

    def __init__(self):
        self.told = []

    def replayer(self, program, layer, step):
        step()
        if layer == "fc1":
            raise CannotReplay("it has modules inside")
        return lambda: self.told.append(layer)


def test_the_child_captures_a_layer_once_and_answers_times_or_a_reason(tmp_path):
    spec = {"folder": str(tmp_path), "pass": "energy", "framework": "mxnet", "mode": "train"}
    child = Child(spec)
    child.recorder, child.batches, child.hooks = Recorder(str(tmp_path)), iter(range(9)), Captured()
    child.recorder.window = 7
    child.program = type("Program", (), {"train": staticmethod(list)})
    answers = [child.replay("conv1", 8, 3), child.replay("conv1", 9, 2), child.replay("fc1", 10, 2), child.replay("conv1", 11, 1)]
    assert child.hooks.told == ["conv1"] * 6
    assert [answer["event"] for answer in answers] == ["replay", "replay", "cannot replay", "replay"]
    assert answers[0]["end_ns"] - answers[0]["start_ns"] == sum(answers[0]["step_ns"])
    assert len(answers[0]["step_ns"]) == 3
    assert answers[2]["reason"] == "it has modules inside"
    steps = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [(step["window"], step["warmup"]) for step in steps] == [(None, True)] * 3, "captured steps are of no window"
    child.hooks = Hooks(spec, child.recorder)
    assert child.replay("conv2", 12, 1) == {"event": "cannot replay", "reason": "not supported for mxnet"}


def test_layers_with_most_operations_come_first():
    layers = [{"name": name, "flops": flops} for name, flops in (("a", 5), ("b", 70), ("c", 70), ("d", 6))]
    assert energy.heaviest({"layers": layers}) == ["b", "c", "d", "a"]
    assert energy.heaviest(None) == []


def test_a_machine_that_warms_on_is_said_to_be_unsteady(tmp_path):
    plan = Plan(windows=1, window_s=0.05, idle_s=0.05, block_s=0.05, blocks=2, cooldown_limit_s=0.3, warmup_limit_s=0.3)
    _, rows = _record(tmp_path, Meter(lambda t: 100.0, lambda t: 40.0 + 100.0 * t), plan)
    assert {row["kind"]: row["steady"] for row in rows[:3]} == {"cooldown": False, "idle": False, "warmup": False}
    assert rows[-1]["kind"] == "window", "it is measured all the same"


def test_power_that_drifts_is_unsteady_too(tmp_path):
    plan = Plan(windows=1, window_s=0.05, idle_s=0.05, block_s=0.05, blocks=2, cooldown_limit_s=0.3, warmup_limit_s=0.3)
    _, rows = _record(tmp_path, Meter(lambda t: 100.0 + 400.0 * t, lambda t: 40.0), plan)
    assert rows[2]["steady"] is False


def test_on_a_processor_the_packages_counters_tell_the_power(tmp_path):
    class Packages:
        name = "packages"

        def sample(self, pid):
            t = time.monotonic_ns()
            return [
                Sample("cpu_energy_j", watts * t / 1e9, core=core, time_ns=t + core) for core, watts in ((0, 40.0), (1, 60.0))
            ]

        def describe(self):
            return {}

    child = Sleeper()
    with Sampler([Packages()], rate_hz=200) as sampler:
        Measurement(child, sampler, tmp_path, None, SHORT).record()
    rows = [json.loads(line) for line in (tmp_path / energy.FILE).read_text().splitlines()]
    assert rows[2]["power_w"] == pytest.approx(100.0, rel=1e-3)
    assert rows[2]["temperature_c"] is None
    assert rows[2]["steady"] is True


def test_without_any_source_the_reason_is_told(monkeypatch):
    monkeypatch.setattr(energy.RaplSource, "__init__", _no_rapl)
    found, reason = energy.sources("cpu")
    assert found == []
    assert reason == "no RAPL here"


def _no_rapl(self, root="/"):
    self._counters, self._reason, self.unavailable = [], None, "no RAPL here"
