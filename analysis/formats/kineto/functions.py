"""Python's functions in torch.profiler's traces (with_stack): which one the loop's thread was in at each instant.

Kineto names a function "file(line): name". Its file is written as an import finds it, mostly: without the folder of the script or
of site-packages. The line is the one on which the function was entered, its first; of a function that was open when recording
began, it is the one that ran then. Which line of a function runs is not told. Built-in functions and modules' calls have no file:
their time is that of the function around them.

A user looks for his own code, and most time passes in what it calls. So an instant belongs to the innermost function of the
program; where none is open, to that of a library; else to the innermost one of all, which is PyTorch's or Python's. A function of
the program that has nearly all of the time says nothing, as one that calls a library's pipeline: what it calls of libraries comes
before it then.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.formats.kineto.tables import Scan
from kernelscope.analysis.trace import conform, intervals

Int = npt.NDArray[np.int64]

METHOD = "python functions"  # how breakdowns came by their rows
_MISSING = "the trace holds no functions of Python: record it with torch.profiler.profile(with_stack=True)"

_FUNCTION = re.compile(r"(?P<file>.+)\((?P<line>\d{1,9})\): (?P<name>.+)", re.DOTALL)
_INSTALLED = re.compile(r".*[/\\](?:site-packages|dist-packages)[/\\]", re.DOTALL)
_OF_PYTHON = re.compile(r".*[/\\]lib[/\\]python\d(?:\.\d+)?[/\\]", re.DOTALL | re.IGNORECASE)
_TYPED_IN = re.compile(r"<(?:stdin|ipython-input)")  # other names in brackets are those of code that code has made
_MADE = re.compile(r"[/\\]torchinductor_|[/\\]\.?triton[/\\]cache[/\\]")
_ROOT = re.compile(r"[/\\]|\.py$")

# Whose a function is, from the last that a user looks for to the first
_FRAMEWORK, _AROUND, _LIBRARY, _PROGRAM = range(4)
_ALL = 0.9  # of the time: a function that has as much is around all that is done
_FRAMEWORKS = sys.stdlib_module_names | {"functorch", "torch", "torch_npu", "torch_xla", "torchgen", "triton", "triton_kernels"}
# Where a file is installed is mostly not told. What is in no list counts as the program's; names that a program's own folders
# have too, such as datasets, are in none.
_LIBRARIES = frozenset({
    "IPython", "PIL", "_pytest", "absl", "accelerate", "aiter", "albumentations", "apex", "attr", "attrs", "av", "beartype",
    "bitsandbytes", "click", "colossalai", "cupy", "cv2", "decord", "deepspeed", "detectron2", "diffusers", "einops", "fairscale",
    "fairseq", "fastai", "filelock", "fire", "flash_attn", "flashinfer", "fsspec", "h5py", "huggingface_hub", "hydra", "ignite",
    "imageio", "ipykernel", "jaxtyping", "joblib", "kornia", "librosa", "lightning", "lightning_fabric", "lightning_utilities",
    "matplotlib", "mmcv", "mmengine", "monai", "networkx", "numba", "numpy", "omegaconf", "packaging", "pandas", "peft", "pluggy",
    "psutil", "pyarrow", "pydantic", "pytest", "pytorch_lightning", "ray", "regex", "requests", "safetensors", "scipy",
    "sentence_transformers", "sentencepiece", "sglang", "six", "skimage", "sklearn", "soundfile", "sympy", "tensorboard",
    "tensorboardX", "tiktoken", "timm", "tokenizers", "torch_geometric", "torchaudio", "torchdata", "torchmetrics", "torchrec",
    "torchvision", "tornado", "tqdm", "traitlets", "transformer_engine", "transformers", "trl", "typer", "typing_extensions",
    "ultralytics", "vllm", "wandb", "webdataset", "xformers", "yaml", "zarr", "zmq",
})  # fmt: skip


@dataclass(frozen=True)
class _Place:
    """A function of Python: its file without the folder that packages are installed in, and whose it is."""

    file: str
    function: str
    line: int
    owner: int


def describe(lines: pd.DataFrame, info: dict[str, Any]) -> None:
    """Say in a capture's info what its host lines are, or how to record some."""
    if len(lines):
        info["host_lines"] = METHOD
    else:
        info["unavailable"]["lines"] = _MISSING


def host_lines(scan: Scan, tracks: pd.DataFrame, steps: pd.DataFrame, operators: pd.DataFrame) -> pd.DataFrame:
    """Return the functions of the loop's thread as the table `host_lines`, pieces that do not overlap; empty without functions.

    Leaves in the scan's group "functions" what neither this nor the modules' ranges hold: functions of other threads.
    """
    rows = scan.tables["functions"]
    if rows.empty:
        return conform("host_lines", pd.DataFrame())
    thread = tracks["thread"].to_numpy()[rows["track"].to_numpy()]
    loop = _loop_thread(rows, thread, steps, operators)
    mine = thread == loop
    result = _pieces(rows[mine], loop)
    read = mine & bool(len(result)) | rows["module"].notna().to_numpy()
    scan.tables["functions"] = rows[~read]
    return result


def _loop_thread(rows: pd.DataFrame, thread: Int, steps: pd.DataFrame, operators: pd.DataFrame) -> int:
    """Return the thread of the steps; without steps the one that is in functions for longest, of those that run operators.

    Backward's thread may run more operators than the loop's, and is in functions now and then, for checkpoints and hooks.
    """
    if len(steps):
        return int(steps["thread"].iloc[0])
    running = np.isin(thread, operators["thread"].to_numpy(np.int64)) if len(operators) else np.zeros(len(thread), dtype=bool)
    chosen = running if running.any() else np.ones(len(thread), dtype=bool)
    start = rows["start_ns"].to_numpy()
    first, last = pd.Series(start[chosen]), pd.Series((start + rows["duration_ns"].to_numpy())[chosen])
    lasted = last.groupby(thread[chosen]).max() - first.groupby(thread[chosen]).min()
    return int(lasted.index.to_numpy()[lasted.to_numpy().argmax()])


def _pieces(rows: pd.DataFrame, thread: int) -> pd.DataFrame:
    """Return to which function each instant of a thread belongs."""
    places, at = _places(rows["name"])
    known = at >= 0
    if not known.any():
        return conform("host_lines", pd.DataFrame())
    at, start, end = at[known], rows["start_ns"].to_numpy()[known], (rows["start_ns"] + rows["duration_ns"]).to_numpy()[known]
    owners = np.array([place.owner for place in places], dtype=np.int64)
    row, begun, over = _innermost(owners[at], start, end)
    if _all_in_one(at[row], begun, over, owners):  # so those that call it are around all, too
        around = at[(end - start > _ALL * (over - begun).sum()) & (owners[at] == _PROGRAM)]
        owners[around] = _AROUND
        row, begun, over = _innermost(owners[at], start, end)
    place, begun, over = _joined(at[row], begun, over)
    columns = {
        name: pd.Categorical.from_codes(*_coded([getattr(one, name) for one in places], place)) for name in ("file", "function")
    }
    line = np.array([one.line for one in places], dtype=np.int64)[place]
    table = pd.DataFrame({**columns, "line": line, "start_ns": begun, "end_ns": over})
    return conform("host_lines", table.assign(thread=thread))


def _all_in_one(place: Int, start: Int, end: Int, owners: Int) -> bool:
    """Return whether a single function of the program has nearly all of the time."""
    times = np.bincount(place, weights=(end - start).astype(float), minlength=len(owners))
    longest = int(times.argmax())
    return bool(owners[longest] == _PROGRAM and times[longest] > _ALL * times.sum())


def _places(names: pd.Series) -> tuple[list[_Place], Int]:
    """Return the functions that names tell, and which of them each row has, -1 for built-in functions and modules' calls."""
    found = [_place_of(name) for name in names.cat.categories]
    known = np.array([place is not None for place in found] + [False])  # the last: events without a name
    number = np.where(known, np.cumsum(known) - 1, -1)
    return [place for place in found if place is not None], number[names.cat.codes.to_numpy()]


def _innermost(owner: Int, start: Int, end: Int) -> tuple[Int, Int, Int]:
    """Return the pieces of the innermost functions: those of the program first, others where none of those before is open.

    A program's function is open nearly always. So most of what is in PyTorch and Python is never looked at.
    """
    free = start.min(keepdims=True), end.max(keepdims=True)
    found = []
    for wanted in (_PROGRAM, _LIBRARY, _AROUND, _FRAMEWORK):
        rows = np.flatnonzero((owner == wanted) & intervals.reaching(start, end, *free))
        row, begun, over = intervals.leaves(np.zeros(len(rows), dtype=np.int64), start[rows], end[rows])
        index, _, begun, over = intervals.split_at(begun, over, *free)
        found.append((rows[row[index]], begun, over))
        free = intervals.uncovered(begun, over, *free)
    row, begun, over = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(begun, kind="stable")
    return row[order], begun[order], over[order]


def _joined(place: Int, start: Int, end: Int) -> tuple[Int, Int, Int]:
    """Return pieces of which those are one that follow each other in the same function."""
    changes = (place[1:] != place[:-1]) | (start[1:] != end[:-1])
    first = np.flatnonzero(np.append(True, changes)[: len(place)])
    last = np.append(first[1:], len(place))[: len(first)] - 1
    return place[first], start[first], end[last]


def _coded(texts: list[str], rows: Int) -> tuple[Int, pd.Index]:
    """Return texts of rows as numbers, and the texts by number."""
    codes, distinct = pd.factorize(np.array(texts, dtype=object))
    return codes[rows], pd.Index(distinct, dtype="object")


def _place_of(name: str) -> _Place | None:
    """Return what a name says; None for built-in functions and calls of modules."""
    match = _FUNCTION.fullmatch(name)
    if match is None:
        return None
    file = _INSTALLED.sub("", match["file"])
    installed = file != match["file"]
    file = _OF_PYTHON.sub("", file)
    return _Place(file, match["name"], int(match["line"]), _owner(file, installed))


def _owner(file: str, installed: bool) -> int:
    """Return whose code a file is."""
    root = _ROOT.split(file, maxsplit=1)[0]
    if root in _FRAMEWORKS or (file.startswith("<") and not _TYPED_IN.match(file)) or _MADE.search(file):
        return _FRAMEWORK
    return _LIBRARY if installed or root in _LIBRARIES else _PROGRAM
