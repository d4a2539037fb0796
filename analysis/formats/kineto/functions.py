"""Python functions in torch.profiler's traces (with_stack): which one the loop's thread was in at each instant.

Kineto names a function "file(line): name". The file is mostly written as an import finds it: without the folder of the script
or of site-packages. The line is the function's first one; for a function that was already open when recording began, it is the
line that ran then. The trace does not say which line of a function runs. Built-in functions and modules' calls have no file:
their time counts for the function around them.
"""

from __future__ import annotations

import re
import sys

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.formats import python_functions
from kernelscope.analysis.formats.kineto.tables import Scan
from kernelscope.analysis.formats.python_functions import FRAMEWORK, LIBRARY, PROGRAM, Place
from kernelscope.analysis.trace import conform

Int = npt.NDArray[np.int64]

MISSING = "the trace holds no Python functions: record it with torch.profiler.profile(with_stack=True)"

_FUNCTION = re.compile(r"(?P<file>.+)\((?P<line>\d{1,9})\): (?P<name>.+)", re.DOTALL)
_INSTALLED = re.compile(r".*[/\\](?:site-packages|dist-packages)[/\\]", re.DOTALL)
_OF_PYTHON = re.compile(r".*[/\\]lib[/\\]python\d(?:\.\d+)?[/\\]", re.DOTALL | re.IGNORECASE)
_TYPED_IN = re.compile(r"<(?:stdin|ipython-input)")  # other names in angle brackets are those of generated code
_MADE = re.compile(r"[/\\]torchinductor_|[/\\]\.?triton[/\\]cache[/\\]")
_ROOT = re.compile(r"[/\\]|\.py$")

_FRAMEWORKS = sys.stdlib_module_names | {"functorch", "torch", "torch_npu", "torch_xla", "torchgen", "triton", "triton_kernels"}
# Traces mostly do not say where a file is installed. Files of packages in neither list count as the program's; names that a
# program's own folders may have too, such as datasets, are in neither.
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


def host_lines(scan: Scan, tracks: pd.DataFrame, steps: pd.DataFrame, operators: pd.DataFrame) -> pd.DataFrame:
    """Return the functions of the loop's thread as the table `host_lines`: pieces that do not overlap; empty without functions.

    Leave in the scan's group "functions" only the rows that neither this table nor the modules' ranges use: functions of other
    threads.
    """
    rows = scan.tables["functions"]
    if rows.empty:
        return conform("host_lines", pd.DataFrame())
    thread = tracks["thread"].to_numpy()[rows["track"].to_numpy()]
    loop = _loop_thread(rows, thread, steps, operators)
    mine = thread == loop
    result = python_functions.host_lines(rows[mine], loop, _place_of)
    read = mine & bool(len(result)) | rows["module"].notna().to_numpy()
    scan.tables["functions"] = rows[~read]
    return result


def _loop_thread(rows: pd.DataFrame, thread: Int, steps: pd.DataFrame, operators: pd.DataFrame) -> int:
    """Return the thread of the steps; without steps, of the threads that run operators, the one that is in functions for longest.

    The backward thread may run more operators than the loop's, and is in functions only at times, for checkpoints and hooks.
    """
    if len(steps):
        return int(steps["thread"].iloc[0])
    running = np.isin(thread, operators["thread"].to_numpy(np.int64)) if len(operators) else np.zeros(len(thread), dtype=bool)
    return python_functions.longest_thread(rows, thread, running if running.any() else np.ones(len(thread), dtype=bool))


def _place_of(name: str) -> Place | None:
    """Return the place that a name describes; None for built-in functions and calls of modules."""
    match = _FUNCTION.fullmatch(name)
    if match is None:
        return None
    file = _INSTALLED.sub("", match["file"])
    installed = file != match["file"]
    file = _OF_PYTHON.sub("", file)
    return Place(file, match["name"], int(match["line"]), _owner(file, installed))


def _owner(file: str, installed: bool) -> int:
    """Return the owner of a file's code."""
    root = _ROOT.split(file, maxsplit=1)[0]
    if root in _FRAMEWORKS or (file.startswith("<") and not _TYPED_IN.match(file)) or _MADE.search(file):
        return FRAMEWORK
    return LIBRARY if installed or root in _LIBRARIES else PROGRAM
