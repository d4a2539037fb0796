"""Seeds programs that set no seed of their own; on PYTHONPATH, so that the programs stay as their authors wrote them.

FOREIGN_SEED names what is seeded when it is imported, beside random and numpy. FOREIGN_COST names a file for what our own call at
each end of a step took in the clean pass, in seconds: {"calls": every second of them, "timing": what it takes to time a function
that does nothing, in the place of the others, "between": those of "calls" that did what is done between steps (the end of a pass
or of a window, steps that do not count), which are not in "calls"}.
"""

import atexit
import json
import os
import sys
import time

_RECORDING = "kernelscope.tracer.inside.profiling.recording"


def _time_calls(recording):
    """Take the time of each call that may end a clean step."""
    calls, between, timing, stepped = [], [], [], recording.Recording.stepped
    clock = getattr(time, "thread_time", time.perf_counter)  # of this thread alone, from Python 3.7 on

    def nothing(self, *arguments, **keywords):
        pass

    def timed(self, *arguments, **keywords):
        if self.recording is None or self.recording.name != "clean":
            return stepped(self, *arguments, **keywords)
        own = len(calls) + len(between) <= len(timing)
        function, noting = stepped if own else nothing, self._ends
        begun = clock()
        function(self, *arguments, **keywords)
        taken = clock() - begun
        if not own:
            timing.append(taken)
            return stepped(self, *arguments, **keywords)
        more = noting is None or noting is not self._ends
        (between if more else calls).append(taken)
        return None

    def write():
        if timing:
            with open(os.environ["FOREIGN_COST"], "w") as out:
                json.dump({"calls": calls, "between": between, "timing": timing}, out)

    recording.Recording.stepped = timed
    atexit.register(write)


_AFTER = {
    _RECORDING: _time_calls,
    "numpy": lambda numpy: numpy.random.seed(0),
    "torch": lambda torch: torch.manual_seed(0),
    "tensorflow": lambda tensorflow: tensorflow.random.set_seed(0),
    "keras": lambda keras: keras.utils.set_random_seed(0),
    "mxnet": lambda mxnet: mxnet.random.seed(0),
    "cntk": lambda cntk: cntk.cntk_py.set_fixed_random_seed(0),
}


class _Waiting:
    """Stands first on sys.meta_path until the one module has been imported, and does what is to be done then."""

    def __init__(self, name):
        self.name = name

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            vars(spec.loader).pop("exec_module", None)
            execute(module)
            _AFTER[self.name](module)

        spec.loader.exec_module = exec_module
        return spec


def _seed(wanted):
    import random

    random.seed(0)
    for name in ("numpy", wanted):
        if name in _AFTER:
            sys.meta_path.insert(0, _Waiting(name))


if os.environ.get("FOREIGN_COST"):
    sys.meta_path.insert(0, _Waiting(_RECORDING))
if os.environ.get("FOREIGN_SEED"):
    _seed(os.environ["FOREIGN_SEED"])
