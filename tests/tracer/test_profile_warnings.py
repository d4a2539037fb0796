"""What a program and its libraries say by Python's `warnings`, and on stderr, is the same with us as without."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernelscope.tracer.inside import temporary
from kernelscope.tracer.outside import environments
from tests.tracer.toy import SHORT, profiled, unrecorded

_WRAPPER = """
def called(function):
    return function()
"""
_LIBRARY = """
import logging, warnings
def says():
    warnings.warn("of the caller", stacklevel=2)
    logging.warning("of the caller", stacklevel=2)
"""
_PROGRAM = """
import logging, sys, warnings
import library
from wrapper import called
logging.basicConfig(format="%(module)s %(message)s", stream=sys.stdout)
warnings.showwarning = lambda message, category, file, line, *more: print(file.rpartition("/")[2], message)
def asks():
    called(library.says)
asks()
"""
# In a thread, where libkineto has something to say; a hook of backward warns at the line that called `backward`
_TRAINS = """
import collections, sys, threading, torch, warnings

shown = collections.Counter()
warnings.simplefilter("default")
warnings.showwarning = lambda message, category, file, line, *more: shown.update([(file, line, str(message)[:30])])
model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
for layer in (model[0], model[2]):
    layer.register_full_backward_hook(lambda *given: None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def trains():
    for step in range(90):
        warnings.warn("again", stacklevel=1)
        optimizer.zero_grad()
        model(torch.ones(8, 16)).sum().backward()
        optimizer.step()

thread = threading.Thread(target=trains)
thread.start()
thread.join()
print(sorted(shown.items()))
"""


def test_frames_of_ours_are_not_counted(tmp_path: Path) -> None:
    """Where the staged code lies."""
    wrappers = tmp_path / f"{temporary.UNCOUNTED}1"
    wrappers.mkdir()
    (wrappers / "wrapper.py").write_text(_WRAPPER)
    (tmp_path / "library.py").write_text(_LIBRARY)
    (tmp_path / "program.py").write_text(f"import sys\nsys.path.append({str(wrappers)!r})\n{_PROGRAM}")
    done = unrecorded(sys.executable, str(tmp_path / "program.py"))
    assert done.stdout == "program.py of the caller\nprogram of the caller\n", done.stderr


@pytest.mark.slow
def test_pytorch_warns_where_and_as_often_as_without_us(tmp_path: Path) -> None:
    python = str(environments.resolve("pytorch", None).python)
    (tmp_path / "trains.py").write_text(_TRAINS)
    alone = unrecorded(python, str(tmp_path / "trains.py"))
    assert "again" in alone.stdout
    assert "Full backward hook is firing" in alone.stdout
    done = profiled(tmp_path / "run", python, str(tmp_path / "trains.py"), options=(*SHORT, "--once"))
    assert done.stdout == alone.stdout
    assert [line for line in done.stderr.splitlines() if "kernels 2" not in line] == alone.stderr.splitlines()
