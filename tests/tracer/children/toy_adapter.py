"""A script with a framework of its own, for tests: a model of two layers that an optimizer steps, and the adapter for it."""

import json
import sys
import time
import types

from kernelscope.tracer.inside import frameworks
from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.frameworks.script import Base
from kernelscope.tracer.inside.own import open, os
from kernelscope.tracer.inside.profiling import recording


class Adapter(Base):
    """Tells steps; puts a range around the layer; its libraries print a line of oneDNN's when told to."""

    framework = "pytorch"
    current = None

    def watch(self):
        Adapter.current = self
        self.recorder, self.verbose = None, False

    def attach(self, recorder, kernels):
        self.recorder = recorder
        return {"layers": "the toy's", "phases": "the toy's"}

    def detach(self):
        self.recorder = None

    def start_operators(self, folder):
        self.folder, self.began, self.parts = folder, self.recording.steps.count, 1

    def part_operators(self):
        if "TOY_PARTS" not in os.environ:
            return []
        self.parts += 1
        _grown.clear()
        return self._written(f"operators.{self.parts}.pt.trace.json.gz")

    def stop_operators(self):
        return self._written("operators.pt.trace.json.gz")

    def _written(self, name):
        if "TOY_WRITES_NOTHING" in os.environ:
            raise OSError("the toy's profiler has no folder")
        with open(os.path.join(self.folder, name), "wb") as out:
            out.write(b"x" * int(os.environ.get("TOY_TRACE", "0")) * (self.recording.steps.count - self.began))
        return [name]

    def printing(self, on):
        self.verbose = on
        return {}

    def versions(self):
        return {"pytorch": "toy"}


_grown = []
_ends = []  # when each end of a step was told, and when that call was over


def install():
    """Make the framework known and imported."""
    module = types.ModuleType(frameworks.__name__ + ".toy")
    module.Adapter = Adapter
    sys.modules[module.__name__] = module
    frameworks.SCRIPTS["toy"] = "toy"
    recording.of(os.environ["KERNELSCOPE_PROFILE"]).imported("toy")


def step(number):
    """One step: a layer, what the script prints and what a library prints meanwhile."""
    adapter = Adapter.current
    if adapter.recorder is not None:
        adapter.recorder.push("layer", "first", "first", "forward")
    slow = os.environ.get("TOY_SLOW", "0:0").split(":")  # the steps that take ten times as long
    time.sleep(0.01 if int(slow[0]) <= number < int(slow[1]) else 0.001)
    _grown.append(bytearray(int(os.environ.get("TOY_GROWS", "0"))))
    if adapter.recorder is not None:
        adapter.recorder.pop()
    os.write(1, b"step %d" % number)
    if adapter.verbose:
        os.write(1, b"onednn_verbose,v1,1.5,primitive,exec,cpu,relu,x,y,0.1\n")
    os.write(1, b", done\n")
    if number < int(os.environ.get("TOY_OTHERS", "0")):
        adapter.recording.stepped(adapter, 2)  # another optimizer, which the same round steps first
    before = now_ns()
    adapter.recording.stepped(adapter, 1, training=number >= int(os.environ.get("TOY_INFERS", "0")))
    _ends.append([before, now_ns()])


def main():
    """Run as many steps as asked for and end as asked for."""
    install()
    for number in range(int(sys.argv[1])):
        step(number)
    if "TOY_ENDS" in os.environ:
        with open(os.environ["TOY_ENDS"], "w") as out:
            json.dump(_ends, out)
    if sys.argv[2:] == ["exit"]:
        os._exit(7)
    if sys.argv[2:] == ["kill"]:
        os.kill(os.getpid(), 9)
    sys.exit(3 if sys.argv[2:] == ["three"] else 0)


if __name__ == "__main__":
    main()
