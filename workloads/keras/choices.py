"""Precision, layout and cuDNN's autotuning, where a run chooses them: a module apart, for most programs choose nothing."""

import os
from typing import Optional

import keras


def choose(precision: Optional[str] = None, layout: Optional[str] = None, autotune: Optional[bool] = None) -> None:
    """Make Keras and its backend accordingly, before a model is built.

    None keeps the framework's own choice. precision: float32, or bfloat16 with weights in float32; layout: channels_last, in
    which the models are written; autotune: whether cuDNN tries its algorithms out, which XLA decides by itself.
    """
    if precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    if autotune is None:
        return
    if keras.backend.backend() == "tensorflow":
        os.environ["TF_CUDNN_USE_AUTOTUNE"] = str(int(autotune))
    elif keras.backend.backend() == "torch":
        import torch

        torch.backends.cudnn.benchmark = autotune
