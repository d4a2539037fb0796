"""A script whose functions are watched line by line, and that says where its steps end: kind of file, folder, what to focus on.

Any Python from 3.6 on can run it; kernelscope is on its path.
"""

import json
import os
import sys

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.profiling import focus, host_lines

STEPS = 5
_began = []  # when each step began
_watching = []

# lambdas are no functions of their own to the profiler, so that this end of a step is not seen
stepped = lambda: (  # noqa: E731
    _began and _watching[0].end(True, _began[-1], now_ns()),
    _watching[0].begin(),
    _began.append(now_ns()),
)


def shifted(x):
    return x + 1


def batches(count):
    for number in range(count):  # noqa: UP028
        yield number


def failing():
    raise ValueError("twice")


class Layer:
    def forward(self, x):
        return shifted(x)


class Model:
    def call(self, x):
        for _ in range(2):
            try:
                failing()
            except ValueError:
                x += 1
        return Layer().forward(x)


def train_step(model, x):
    model.call(x)
    stepped()


def train():
    model = Model()
    for batch in batches(STEPS + 1):
        train_step(model, batch)
        model.sizes = [number * 2 for number in range(3)]


def main():
    train()


if __name__ == "__main__":
    host_lines._line_profiler = lambda codes: None  # what stands in for it is tried here
    chosen = focus.Focus(sys.argv[3:], focus.folders_of([]))
    kind = {"kernels": host_lines.Timeline, "lines": host_lines.Totals}[sys.argv[1]]
    _watching.append(kind(chosen, sys.argv[2]))
    main()
    report = _watching[0].close()
    with open(os.path.join(sys.argv[2], "report.json"), "w") as out:
        json.dump(dict(report, began=_began), out)
