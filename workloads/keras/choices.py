"""Precision, layout and cuDNN's autotuning, if a run chooses them. Its own module, because most programs choose nothing."""

import os
from typing import Optional

import keras


def choose(precision: Optional[str] = None, layout: Optional[str] = None, autotune: Optional[bool] = None) -> None:
    """Apply a run's choices to Keras and its backend, before a model is built; None keeps the framework's default.

    precision: float32, or bfloat16 with weights in float32; layout: channels_last, in which the models are written; autotune:
    whether cuDNN benchmarks its algorithms (no effect on JAX, because XLA decides).
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
