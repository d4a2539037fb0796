"""The workload without kernelscope around it: what the clean pass is compared with. Runs in the framework's interpreter.

It answers the same commands as a pass's child, so that it can take turns with one, but records nothing: a window is timed as
a whole, with two readings of the clock.
"""

import importlib
import itertools
import json
import os
import sys
import time
import types

from kernelscope.tracer.inside import frameworks
from kernelscope.workloads import data, networks


def main(path):
    """Serve warm-up and windows until told to finish."""
    with open(path) as file:
        spec = json.load(file)
    commands, answers = os.fdopen(spec["commands_fd"], "r"), os.fdopen(spec["answers_fd"], "w")
    network = networks.get(spec["network"])
    frameworks.hooks(spec["framework"])(spec, types.SimpleNamespace(in_step=False)).configure()  # the same threads
    program = importlib.import_module("kernelscope.workloads." + spec["framework"] + ".program").Program(network, spec)
    program.load(networks.initial_weights(network, spec["seed"]))
    host = data.batches(network, spec["batch"], spec["seed"], spec["batches"], None)
    batches = program.stream(itertools.cycle(program.prepare(host)))
    loop = program.train if spec["mode"] == "train" else program.infer

    def answer(**message):
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    settle = (
        importlib.import_module("mxnet").nd.waitall if spec["framework"] == "mxnet" else lambda: None
    )  # its engine is asynchronous

    answer(event="ready")
    for line in iter(commands.readline, ""):
        command = json.loads(line)
        if command["do"] == "finish":
            answer(event="finished")
            return
        count = command.get("steps", 40)
        start = time.perf_counter()
        loop(itertools.islice(batches, count))
        settle()
        answer(event="window", step_ns=[(time.perf_counter() - start) * 1e9 / count] * count)


if __name__ == "__main__":
    main(sys.argv[1])
