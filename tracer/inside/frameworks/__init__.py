"""The table of frameworks, which needs none of them imported, and the lookup of their hooks.

Each framework has one module or folder here. In a folder, `workload` has the hooks for our own programs (see `workload.Hooks`
beside this file), `script` those for unmodified scripts (see `script.Base` beside this file), and the other modules have what
both share. A framework that only our own programs use is a single module.
"""

import importlib
import os

MYPY = False  # typing is not imported by every process that starts
if MYPY:
    from typing import List, Tuple, Type

    from kernelscope.tracer.inside.frameworks.script import Base
    from kernelscope.tracer.inside.frameworks.workload import Hooks


class Framework(object):
    """What we know about a framework without importing it.

    imports: the modules that must be importable; the first one has the version. family: the name of its modules here, in
    workloads and in analysis.attribution.frameworks. hooks: the class of its hooks, as "module:class". reveals: what it shows of
    its kernels on a CPU, the same on every machine.
    """

    def __init__(self, imports: "Tuple[str, ...]", family: str, hooks: str, reveals: str) -> None:
        self.imports = imports
        self.family = family
        self.hooks = hooks
        self.reveals = reveals


FRAMEWORKS = {
    "pytorch": Framework(("torch",), "pytorch", "pytorch.workload:Hooks",
        "oneDNN and MKL calls with shapes; torch.profiler operators; layers through module hooks"),
    "tensorflow": Framework(("tensorflow",), "tensorflow", "tensorflow.workload:Hooks",
        "oneDNN calls with shapes; profiler operators whose names contain the layer"),
    "mxnet": Framework(("mxnet",), "mxnet", "mxnet.workload:Hooks",
        "oneDNN calls with shapes; mx.profiler operators; layers through Gluon blocks"),
    "cntk": Framework(("cntk",), "cntk", "cntk.workload:Hooks",
        "MKL calls with shapes; forward and backward time of each node, as totals; layers through node names"),
    "jax": Framework(("jax",), "jax", "jax.workload:Hooks",
        "XLA's operations with shapes; layers through jax.named_scope in the compiled programs"),
    "keras-torch": Framework(("keras", "torch"), "keras", "keras.workload:OnTorch",
        "as pytorch; layers through calls of Keras's layers"),
    "keras-tensorflow": Framework(("keras", "tensorflow"), "keras", "keras.workload:OnTensorFlow",
        "as tensorflow; layers through the scopes that Keras opens"),
    "keras-jax": Framework(("keras", "jax"), "keras", "keras.workload:OnJax",
        "as jax; layers through the scopes that Keras opens"),
    "onednn": Framework(("onednn",), "onednn", "onednn:Hooks",
        "its own calls with shapes; layers through the calls of primitives; inference of lenet only"),
    "cudnn": Framework(("cudnn",), "cudnn", "cudnn:Hooks",
        "GPU kernels; layers through the calls of cuDNN's graphs; inference of lenet only"),
    "chainer": Framework(("chainer",), "chainer", "chainer:Hooks",
        "numpy's calls of OpenBLAS with shapes; Chainer's functions; layers through its hooks"),
    "lasagne": Framework(("lasagne", "theano"), "lasagne", "lasagne:Hooks",
        "numpy's calls of OpenBLAS with shapes; Theano's profile of nodes; layers through the methods that made them"),
    "keras-theano": Framework(("keras", "theano"), "keras2", "keras2:OnTheano",
        "as lasagne; layers through calls of Keras's layers"),
    "keras-cntk": Framework(("keras", "cntk"), "keras2", "keras2:OnCntk",
        "as cntk; layers through Keras's layers, whose names are on their nodes"),
    "keras-mxnet": Framework(("keras", "mxnet"), "keras2", "keras2:OnMxnet",
        "as mxnet; layers through the names of Keras's symbols"),
    "onnxruntime": Framework(("onnxruntime",), "onnxruntime", "onnxruntime:Hooks",
        "nodes of its optimized graph with shapes; layers through node names; inference only"),
    "caffe2": Framework(("caffe2",), "caffe2", "caffe2:Hooks",
        "operators with shapes, one by one, and MKL calls; layers through blob names"),
}  # fmt: skip

_IMPORTED_AS = {"pytorch": "torch"}  # folder here -> the module that scripts import, if its name differs
_HERE = os.path.dirname(os.path.abspath(__file__))


def _with_adapters() -> "List[str]":
    """List the folders here that have a module `script`."""
    if os.path.isdir(_HERE):
        return sorted(name for name in os.listdir(_HERE) if os.path.isfile(os.path.join(_HERE, name, "script.py")))
    import pkgutil  # only the single-file agent needs it, and importing it takes longer than everything else in this file

    folders = [name for _, name, is_folder in pkgutil.iter_modules(__path__) if is_folder]
    return sorted(
        name for name in folders if any(one[1] == "script" for one in pkgutil.iter_modules([os.path.join(_HERE, name)]))
    )


# module that scripts import -> our module here; its class Adapter is instantiated once the import has finished
SCRIPTS = {_IMPORTED_AS.get(name, name): name + ".script" for name in _with_adapters()}


def described(framework: str) -> Framework:
    """Return a framework's entry; one that is not listed is a package of workloads whose program marks its own layers."""
    reveals = "numpy's calls of OpenBLAS with shapes; layers through functions that its program marks"
    return FRAMEWORKS.get(framework) or Framework((), framework.partition("-")[0], "marked:Hooks", reveals)


def hooks(framework: str) -> "Type[Hooks]":
    """Return the class of a framework's hooks for our workloads."""
    module, _, name = described(framework).hooks.partition(":")
    found: "Type[Hooks]" = getattr(importlib.import_module("%s.%s" % (__name__, module)), name)
    return found


def adapter(module: str) -> "Type[Base]":
    """Return the adapter class for scripts that import this module."""
    found: "Type[Base]" = importlib.import_module("%s.%s" % (__name__, SCRIPTS[module])).Adapter
    return found
