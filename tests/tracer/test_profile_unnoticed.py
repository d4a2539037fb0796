"""What a PyTorch program can see of its own process while it is recorded is as it is without us."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.inside.profiling import host_lines, printed
from kernelscope.tracer.outside import environments
from tests.tracer.toy import SHORT, profiled, unrecorded

_BEGINNING = """
import contextlib, gc, io, os, subprocess, sys, tempfile, torch, traceback, warnings, weakref, zlib
warnings.simplefilter("error")
torch.manual_seed(0)
depths, left = [], []

class Model(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.first, self.inner = torch.nn.Conv2d(1, 1, 3, padding=1), inner

    def forward(self, x):
        depths.append(sum(1 for _ in traceback.walk_stack(None)))
        x = self.first(x).relu()
        return x if self.inner is None else self.inner(x)

model = Model(Model(Model(None)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
# It captures what is printed in each step, as helpers do that hush libraries, saves a result, and starts processes
_LOOKS = (
    _BEGINNING
    + """
@contextlib.contextmanager
def captured(found):
    sys.stdout.flush()
    saved = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        yield
        os.dup2(saved, 1)
        os.close(saved)
        file.seek(0)
        found.append(file.read())

def step(number):
    given, found, saved = torch.ones(16, 1, 8, 8), [], io.BytesIO()
    with captured(found):
        output = model(given).sum()
        output.backward()
        os.write(1, b"mine")
    left.extend([weakref.ref(given), weakref.ref(output)])
    optimizer.step()
    optimizer.zero_grad()
    torch.save(output, saved)
    print(number, found, zlib.crc32(saved.getvalue()), vars(output), depths[-3:], flush=True)

gc.disable()
for number in range(40):
    step(number)
    print([one() is None for one in left])
    left.clear()
    if number % 6 == 0:
        subprocess.run("env | grep -c -e ONEDNN -e KINETO", shell=True)
with torch.profiler.profile() as profiler:
    model(torch.ones(1, 1, 8, 8))
"""
)
_TRACES = (
    _BEGINNING
    + """
def tracer(frame, event, argument):
    return tracer

# behind ours: while PyTorch goes through these hooks, passes begin and end
counted = []
from torch.optim.optimizer import register_optimizer_step_post_hook
register_optimizer_step_post_hook(lambda *_: counted.append(1))
traced = False
for number in range(40):
    if not traced and (sys.gettrace() is not None or number == 30):  # where lines are recorded
        sys.settrace(tracer)
        traced = True
    model(torch.ones(16, 1, 8, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    print(number, not traced or sys.gettrace() is tracer, len(counted), flush=True)
"""
)

# It keeps loss functions, as keys and in a model that it pickles, and saves a model with hooks
_KEEPS = (
    _BEGINNING
    + """
import inspect, pickle
from torch.nn import functional
handled = {functional.mse_loss: lambda *_: 5.0, functional.cross_entropy: lambda *_: 7.0}
found = str(inspect.signature(functional.cross_entropy)), inspect.getsource(functional.mse_loss)[:20]

class Given:
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        return handled[function]()

model.loss, clip = functional.mse_loss, torch.nn.utils.clip_grad_norm_
handle = model.register_forward_hook(lambda *_: None)
for number in range(40):
    output = model(torch.ones(16, 1, 8, 8))
    model.loss(output, torch.zeros_like(output)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    again = pickle.loads(pickle.dumps(model.loss))
    assert clip is torch.nn.utils.clip_grad_norm_ and pickle.loads(pickle.dumps(clip)) is clip
    said = [again is functional.mse_loss, functional.mse_loss(Given(), Given()), functional.cross_entropy(Given(), Given())]
    same = found == (str(inspect.signature(functional.cross_entropy)), inspect.getsource(functional.mse_loss)[:20])
    print(number, said, same, handle.id, output.sum().item(), flush=True)
"""
)
# It compiles a model with its loss, clipping, and an optimizer's steps; nothing may be compiled again, and a warning is an error
_COMPILES = """
import torch, torch._dynamo, warnings
from torch.nn import functional
warnings.simplefilter("error")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 3, padding=1), torch.nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
compiled = torch.compile(lambda x: functional.mse_loss(model(x), torch.zeros_like(x)), backend="eager", fullgraph=True)
clip = torch.compile(lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0), backend="eager")
step = torch.compile(optimizer.step, backend="eager")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for _ in range(3):
        compiled(torch.ones(16, 1, 8, 8)).backward()
        clip(), step(), optimizer.zero_grad()
torch.compiler.set_stance("fail_on_recompile")
graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
for number in range(120):
    loss = compiled(torch.ones(16, 1, 8, 8))
    loss.backward()
    clip(), step(), optimizer.zero_grad()
    print(number, loss.item(), torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs, flush=True)
"""


def _steady(text: str) -> str:
    """Return what is printed without times of day, times that calls took, and places in memory."""
    text = re.sub(r"^USDT:.*?\] |^W\d{4} [\d:.]+ \d+ ", "", text, flags=re.MULTILINE)
    return re.sub(r",[\d.e-]+$|[\d.]+[num]?s |0x[0-9a-f]{6,}", "", text, flags=re.MULTILINE)


_NESTED = """
import torch
class Own(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)

model = torch.nn.Linear(8, 8)
kinds = torch.optim.Adam, torch.optim.SGD, Own
optimizers = [kind(model.parameters(), lr=0.01) for kind in kinds]
for number in range(150):
    model(torch.ones(64, 8)).sum().backward()
    if number == 3:
        try:
            optimizers[2].step(lambda: 1 / 0)
        except ZeroDivisionError:
            pass
    optimizers[number % 3].step()
    model.zero_grad()
"""


@pytest.mark.slow
def test_a_step_that_calls_its_base_class_is_one_step(tmp_path: Path) -> None:
    """All recorded steps call the model equally often; a step that failed leaves nothing behind."""
    python = str(environments.resolve("pytorch", None).python)
    script = tmp_path / "program.py"
    script.write_text(_NESTED)
    profiled(tmp_path / "run", python, str(script), options=(*SHORT, "--once"))
    trace = Run(tmp_path / "run").trace()
    calls = trace.ranges[
        ((trace.ranges["layer"] == "Linear") & (trace.ranges["phase"] == "forward")).fillna(False).to_numpy(bool)
    ]
    measured = trace.steps[~trace.steps["warmup"].to_numpy(bool)]
    starts = calls["start_ns"].to_numpy()
    inside = [int(((starts >= one.start_ns) & (starts < one.end_ns)).sum()) for one in measured.itertuples()]
    assert len(set(inside)) == 1
    assert inside[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "variables", "missing"),
    [
        pytest.param(_LOOKS, {}, {"lines of libraries": printed.LOST}, id="looks"),
        pytest.param(_KEEPS, {}, {}, id="keeps"),
        pytest.param(_COMPILES, {}, {}, id="compiles"),
        pytest.param(
            _TRACES, {"ONEDNN_VERBOSE": "1"}, {"lines": host_lines.OWN_TRACER, "lines of oneDNN": printed.UNTIMED}, id="traces"
        ),
    ],
)
def test_a_program_sees_what_it_sees_without_us(
    tmp_path: Path, program: str, variables: dict[str, str], missing: dict[str, str]
) -> None:
    python = str(environments.resolve("pytorch", None).python)
    script = tmp_path / "program.py"
    script.write_text(program)
    environment = {**os.environ, **variables, "OMP_NUM_THREADS": "1"}
    alone = unrecorded(python, str(script), env=environment)
    assert alone.returncode == 0, alone.stderr
    done = profiled(tmp_path / "run", python, str(script), options=(*SHORT, "--once"), env=environment)
    assert _steady(done.stdout) == _steady(alone.stdout)
    told = [line for line in _steady(done.stderr).splitlines() if not line.startswith("kernelscope: ")]
    assert told == _steady(alone.stderr).splitlines()
    assert "steps: clean 5, layers 2, kernels 2" in done.stderr
    report = json.loads((tmp_path / "run/kernels/1/child.json").read_text())
    assert report.get("unavailable", {}) == missing
