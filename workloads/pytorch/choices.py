"""Precision, layout and cuDNN's autotuning, if a run chooses them. Its own module, because most programs choose nothing."""

import functools
from typing import Any, Callable, Optional

import torch


def choose(program: Any, precision: Optional[str] = None, layout: Optional[str] = None, autotune: Optional[bool] = None) -> None:
    """Apply a run's choices to a program; None keeps PyTorch's default. Raise ValueError if the network has no such layout.

    precision: float32 or bfloat16; layout: channels_first or channels_last; autotune: whether cuDNN benchmarks its algorithms.
    """
    if precision == "bfloat16":
        program.model.forward = in_bfloat16(program.model.forward, program.device)
    if layout == "channels_last":
        if len(program.network.input_shape) != 3:
            raise ValueError("pytorch: layout channels_last is not supported by %s, which takes no images" % program.network.name)
        program.memory_format = torch.channels_last
        program.model.to(memory_format=torch.channels_last)
    if autotune is not None:
        torch.backends.cudnn.benchmark = autotune


def in_bfloat16(function: Callable[..., Any], device: Any) -> Callable[..., Any]:
    """Return a function that computes in automatic mixed precision with bfloat16 and returns float32."""

    @functools.wraps(function)
    def mixed(*arguments: Any) -> Any:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            return function(*arguments).float()

    return mixed
