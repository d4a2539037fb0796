"""Precision, layout and cuDNN's autotuning, where a run chooses them: a module apart, for most programs choose nothing."""

import os

import keras


def choose(framework, options):
    """Make Keras and its backend accordingly, before a model is built; raises ValueError where one is not supported.

    None keeps the framework's own choice. precision: float32, or bfloat16 with weights in float32; layout: channels_last, in
    which the models are written; autotune: whether cuDNN tries its algorithms out, which XLA decides by itself.
    """
    precision, layout, autotune = (options.get(name) for name in ("precision", "layout", "autotune"))
    if precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    elif precision not in (None, "float32"):
        raise ValueError("%s: precision %s is not supported" % (framework, precision))
    if layout not in (None, "channels_last"):
        raise ValueError("%s: layout %s is not supported" % (framework, layout))
    if autotune is None:
        return
    if keras.backend.backend() == "tensorflow":
        os.environ["TF_CUDNN_USE_AUTOTUNE"] = str(int(autotune))
    elif keras.backend.backend() == "torch":
        import torch

        torch.backends.cudnn.benchmark = autotune
    else:
        raise ValueError("%s: autotune is not supported: XLA decides when it compiles" % framework)
