"""Keras 3 in our workloads: its backend's hooks, applied to Keras's own layers, losses, optimizers and calls.

On torch a layer's range is a call of keras.layers.Layer, and its backward is found as for PyTorch's modules. On TensorFlow and
JAX layers come from the names of operators and operations, which carry the scopes that Keras opens around its layers. On all
backends "call" is the time in train_on_batch, predict_on_batch and the like (`_CALLS`).
"""

import os
from typing import Any, Dict

from kernelscope.tracer.inside.frameworks import keras as own
from kernelscope.tracer.inside.frameworks.jax import workload as jax
from kernelscope.tracer.inside.frameworks.pytorch import workload as pytorch
from kernelscope.tracer.inside.frameworks.pytorch.backward import BackwardLayers
from kernelscope.tracer.inside.frameworks.tensorflow import workload as tensorflow
from kernelscope.tracer.inside.frameworks.workload import Hooks

_CALLS = ("train_on_batch", "test_on_batch", "predict_on_batch", "fit", "predict")


class _OnBackend(Hooks):
    """The part common to all backends; it precedes the backend's own class among the bases."""

    backend = ""

    def configure(self) -> None:
        """Set the backend and the device, which Keras reads from the environment, and import the backend."""
        os.environ["KERAS_BACKEND"] = self.backend
        if not self.on_gpu:
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # Keras uses every visible GPU
        super(_OnBackend, self).configure()

    def versions(self) -> Dict[str, Any]:
        """Return the backend's versions with Keras's first."""
        import keras

        found = {"keras": keras.__version__}
        found.update(super(_OnBackend, self).versions())
        return found

    def settings(self) -> Dict[str, Any]:
        """Return the backend's settings with Keras's own."""
        import keras

        return dict(super(_OnBackend, self).settings(), backend=keras.backend.backend(), **own.settings(keras))

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges where the backend's hooks do and around the methods that run a batch; return how layers are found."""
        found = super(_OnBackend, self).attach_layers(program)
        for method in _CALLS:
            ranged = self.recorder.ranged(getattr(program.model, method), "phase", "call", "other")
            # bypasses the model's __setattr__, which would track the function
            program.model.__dict__[method] = ranged
        return found


class _Torch(pytorch.Hooks):
    """PyTorch's hooks on Keras's layers instead of modules."""

    replayer = Hooks.replayer  # PyTorch's replayer looks for modules, not for Keras's layers

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Hook Keras's layer and loss calls, the optimizer and backward; return how layers and phases are found."""
        import keras

        self.library.model = program.model
        backward = BackwardLayers(self.recorder, self.library.torch)
        pytorch.mark(program.model, pytorch.ROOT)
        for layer in program.model.layers:
            pytorch.mark(layer, layer.name)
        pytorch.mark(program.loss, "loss")
        for owner in (keras.layers.Layer, keras.losses.Loss):
            self.attach_calls(backward, owner)
        self.patches.wrap(self.library.torch.Tensor, "backward", backward.around)
        self.attach_optimizer(program.optimizer, ("apply",))
        # here the model clears the gradients, not the optimizer as in PyTorch
        cleared = self.recorder.ranged(program.model.zero_grad, "phase", "optimizer zero_grad", "optimizer")
        program.model.__dict__["zero_grad"] = cleared
        self.attach_synchronisation()
        return {
            "layers": "calls of Keras's layers; backward by hooks on the tensors between them",
            "phases": "calls of the model, Tensor.backward, the optimizer's apply and the model's zero_grad",
        }


class OnTorch(_OnBackend, _Torch):
    """The hooks of a pass over a Keras workload on PyTorch."""

    backend = "torch"


class OnTensorFlow(_OnBackend, tensorflow.Hooks):
    """The hooks of a pass over a Keras workload on TensorFlow."""

    backend = "tensorflow"


class OnJax(_OnBackend, jax.Hooks):
    """The hooks of a pass over a Keras workload on JAX."""

    backend = "jax"
