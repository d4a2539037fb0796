"""Keras 3: the hooks of its backend, told where Keras's own layers, losses, optimizers and calls are.

On torch a layer's range is a call of keras.layers.Layer, and its backward is found as for PyTorch's modules. On TensorFlow and
JAX layers come from the names of operators and operations, which carry the scopes that Keras opens around its layers. In all of
them "call" is the time in train_on_batch or predict_on_batch.
"""

import os

from kernelscope.tracer.inside.hooks import jax, pytorch, tensorflow

DEFAULT = "tensorflow"
_CALLS = ("train_on_batch", "test_on_batch", "predict_on_batch", "fit", "predict")


def environment(pass_name):
    """Return the variables of all backends: those of the others do no harm."""
    variables = {}
    for backend in (pytorch, tensorflow, jax):
        variables.update(backend.environment(pass_name))
    return variables


def backend_of(framework):
    """Return the backend of a framework's name, such as keras-torch."""
    return framework.partition("-")[2] or DEFAULT


class Hooks(object):
    """What a pass records of Keras: the backend's hooks do it; see the package's documentation for the order of calls."""

    def __new__(cls, spec, recorder):
        """Return the hooks of the backend that the framework's name says."""
        return _HOOKS[backend_of(spec["framework"])](spec, recorder)


class _OnBackend(object):
    """What is the same on every backend; comes before the backend's own class."""

    backend = None

    def configure(self):
        """Choose the backend and the device, which Keras takes from the environment, and import both."""
        os.environ["KERAS_BACKEND"] = self.backend
        if not str(self.spec.get("device") or "cpu").startswith("cuda"):
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # Keras takes every GPU that it sees
        super(_OnBackend, self).configure()

    def versions(self):
        """Return the backend's versions with Keras's first."""
        import keras

        found = {"keras": keras.__version__}
        found.update(super(_OnBackend, self).versions())
        return found

    def settings(self):
        """Return the backend's settings with those that Keras has of its own."""
        import keras

        found = super(_OnBackend, self).settings()
        found.update(
            backend=keras.backend.backend(),
            memory_format=keras.config.image_data_format().replace("_", " "),
            default_dtype=keras.config.floatx(),
            precision_policy=keras.config.dtype_policy().name,
        )
        return found

    def _range_batches(self, program):
        """Put a range around the model's methods that run a batch."""
        for method in _CALLS:
            ranged = self.recorder.ranged(getattr(program.model, method), "phase", "call", "other")
            # past the model's own setting of attributes, which would track the function
            program.model.__dict__[method] = ranged


class _OnTorch(_OnBackend, pytorch.Hooks):
    backend = "torch"
    replayer = None  # PyTorch's looks for modules, not for Keras's layers

    def attach_layers(self, program):
        """Hook Keras's calls of layers and losses, the optimizer and backward itself; return how layers and phases are found."""
        import keras

        self.model = program.model
        backward = pytorch.BackwardLayers(self.recorder, self.torch)
        pytorch.mark(program.model, pytorch.ROOT)
        for layer in program.model.layers:
            pytorch.mark(layer, layer.name)
        pytorch.mark(program.loss, "loss")
        for owner in (keras.layers.Layer, keras.losses.Loss):
            self._attach_calls(backward, owner)
        self._attach_backward(backward)
        self._attach_optimizer(program.optimizer, ("apply",))
        # PyTorch's own optimizer clears the gradients, here the model does
        program.model.__dict__["zero_grad"] = self.recorder.ranged(
            program.model.zero_grad, "phase", "optimizer zero_grad", "optimizer"
        )
        self._attach_synchronisation()
        self._range_batches(program)
        return {
            "layers": "calls of Keras's layers; backward by hooks on the tensors between them",
            "phases": "calls of the model, Tensor.backward, the optimizer's apply and the model's zero_grad",
        }


class _OnTensorFlow(_OnBackend, tensorflow.Hooks):
    backend = "tensorflow"

    def attach_layers(self, program):
        """Put ranges around the calls of the model and the reading of tensors; return how layers are found."""
        found = super(_OnTensorFlow, self).attach_layers(program)
        self._range_batches(program)
        return found


class _OnJax(_OnBackend, jax.Hooks):
    backend = "jax"

    def attach_layers(self, program):
        """Put ranges around the calls of the model and the reading of arrays; return how layers are found."""
        found = super(_OnJax, self).attach_layers(program)
        self._range_batches(program)
        return found


_HOOKS = {"torch": _OnTorch, "tensorflow": _OnTensorFlow, "jax": _OnJax}
