"""Makes the named changes, then traces and checks nodes, and prints what CNTK was asked for."""

import json
import sys

import cntk

from kernelscope.tracer.inside import changes
from kernelscope.tracer.inside.profiling.patches import Patches

asked = []


def told(original):
    def call(value):
        asked.append(value)
        original(value)

    return call


for name in ("set_computation_network_trace_level", "set_checked_mode"):
    setattr(cntk.debugging, name, told(getattr(cntk.debugging, name)))
met = []
changes.apply("cntk", sys.argv[1:], Patches(), lambda name, what: met.append([name.partition(":")[2], what]))
cntk.debugging.set_computation_network_trace_level(1000)
cntk.debugging.set_checked_mode(True)
print(json.dumps({"met": met, "asked": asked}))
