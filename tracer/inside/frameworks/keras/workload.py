"""Keras 3 in our workloads: the hooks of its backend, told where Keras's own layers, losses, optimizers and calls are.

On torch a layer's range is a call of keras.layers.Layer, and its backward is found as for PyTorch's modules. On TensorFlow and
JAX layers come from the names of operators and operations, which carry the scopes that Keras opens around its layers. In all of
them "call" is the time in train_on_batch or predict_on_batch.
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
    """What is the same on every backend; comes before the backend's own class."""

    backend = ""

    def configure(self) -> None:
        """Choose the backend and the device, which Keras takes from the environment, and import both."""
        os.environ["KERAS_BACKEND"] = self.backend
        if not self.on_gpu:
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # Keras takes every GPU that it sees
        super(_OnBackend, self).configure()

    def versions(self) -> Dict[str, Any]:
        """Return the backend's versions with Keras's first."""
        import keras

        found = {"keras": keras.__version__}
        found.update(super(_OnBackend, self).versions())
        return found

    def settings(self) -> Dict[str, Any]:
        """Return the backend's settings with those that Keras has of its own."""
        import keras

        return dict(super(_OnBackend, self).settings(), backend=keras.backend.backend(), **own.settings(keras))

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges where the backend's hooks do and around the methods that run a batch; return how layers are found."""
        found = super(_OnBackend, self).attach_layers(program)
        for method in _CALLS:
            ranged = self.recorder.ranged(getattr(program.model, method), "phase", "call", "other")
            # past the model's own setting of attributes, which would track the function
            program.model.__dict__[method] = ranged
        return found


class _Torch(pytorch.Hooks):
    """PyTorch's hooks on Keras's layers in the place of modules."""

    replayer = Hooks.replayer  # PyTorch's looks for modules, not for Keras's layers

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Hook Keras's calls of layers and losses, the optimizer and backward itself; return how layers and phases are found."""
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
        # PyTorch's own optimizer clears the gradients, here the model does
        cleared = self.recorder.ranged(program.model.zero_grad, "phase", "optimizer zero_grad", "optimizer")
        program.model.__dict__["zero_grad"] = cleared
        self.attach_synchronisation()
        return {
            "layers": "calls of Keras's layers; backward by hooks on the tensors between them",
            "phases": "calls of the model, Tensor.backward, the optimizer's apply and the model's zero_grad",
        }


class OnTorch(_OnBackend, _Torch):
    """What a pass records of Keras on PyTorch."""

    backend = "torch"


class OnTensorFlow(_OnBackend, tensorflow.Hooks):
    """What a pass records of Keras on TensorFlow."""

    backend = "tensorflow"


class OnJax(_OnBackend, jax.Hooks):
    """What a pass records of Keras on JAX."""

    backend = "jax"
