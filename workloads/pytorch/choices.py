"""Precision, layout and cuDNN's autotuning, where a run chooses them: a module apart, for most programs choose nothing."""

import functools

import torch


def choose(program, precision, layout, autotune):
    """Change a program accordingly; None keeps PyTorch's own choice. Raises ValueError where one is not supported.

    precision: float32 or bfloat16; layout: channels_first or channels_last; autotune: whether cuDNN tries its algorithms out.
    """
    if precision not in (None, "float32", "bfloat16"):
        raise ValueError("pytorch: precision %s is not supported" % precision)
    if layout not in (None, "channels_first", "channels_last"):
        raise ValueError("pytorch: layout %s is not supported" % layout)
    if precision == "bfloat16":
        program.model.forward = in_bfloat16(program.model.forward, program.device)
    if layout == "channels_last":
        if len(program.network.input_shape) != 3:
            raise ValueError("pytorch: layout channels_last is not supported by %s, which takes no images" % program.network.name)
        program.memory_format = torch.channels_last
        program.model.to(memory_format=torch.channels_last)
    if autotune is not None:
        torch.backends.cudnn.benchmark = autotune


def in_bfloat16(function, device):
    """Return a function that computes in automatic mixed precision with bfloat16, and whose result is float32 again."""

    @functools.wraps(function)
    def mixed(*arguments):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            return function(*arguments).float()

    return mixed
