"""Makes the named changes, then traces and checks nodes and trains; prints what CNTK was asked for, and what updates."""

import json
import sys

import cntk
import numpy

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
features, label = cntk.input_variable(1), cntk.input_variable(1)
bias = cntk.parameter(1, init=0)
model = features + bias
rate = cntk.learning_parameter_schedule(0.25, minibatch_size=cntk.learners.IGNORE)
trainer = cntk.Trainer(model, cntk.squared_error(model, label), [cntk.adam([bias], rate, momentum=0.9)])
trainer.train_minibatch({features: numpy.zeros((1, 1), "float32"), label: numpy.full((1, 1), 3, "float32")})
print(json.dumps({"met": met, "asked": asked, "bias": float(bias.value[0])}))
