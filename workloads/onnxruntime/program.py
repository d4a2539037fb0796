"""The inference loop shared by all networks, as a user of ONNX Runtime writes it."""

from typing import Any, Iterable

import onnx
import onnxruntime

from kernelscope.workloads.networks import Array, Network, Weights
from kernelscope.workloads.onnxruntime.graph import INPUT, Graph
from kernelscope.workloads.program import Functions, InferenceProgram, Options, Shapes, builder

# network -> module with the function of its name that builds it
MODELS = {
    "lenet": "lenet",
    "mlp": "mlp",
    "cnn": "cnn",
    "lstm": "recurrent",
    "cifarcnn": "cnn",
    "gru": "recurrent",
    "fcn5": "fcn",
    "fcn8": "fcn",
    "lstm32": "recurrent",
    "lstm64": "recurrent",
    "alexnet": "alexnet",
    "alexnet_cifar10": "alexnet",
    "vgg16": "vgg",
    "vgg16_cifar10": "vgg",
    "googlenet": "googlenet",
    "googlenet_cifar10": "googlenet",
    "resnet50": "resnet",
    "resnet50_cifar10": "resnet",
    "gpt2": "transformers",
    "bert_base": "transformers",
    "vit_s16": "transformers",
}


class Program(InferenceProgram):
    """One network with its loop; `options` are mode (infer), batch and threads."""

    FRAMEWORK = "onnxruntime"
    SETTINGS = {"precision": ("float32",), "layout": ("channels_first",)}

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, MODELS)
        self.options = onnxruntime.SessionOptions()
        if options.get("threads"):
            self.options.intra_op_num_threads = options["threads"]

    def load(self, weights: Weights) -> None:
        """Build the model from {(layer, parameter): float32 array in canonical layout} and create a session that runs it."""
        self.weights = weights
        build = builder("onnxruntime", MODELS[self.network.name], self.network.name)
        graph = Graph(weights)
        self.model = graph.model(self.network, build(graph, INPUT))
        self.open()

    def open(self) -> None:
        """Create a session with the current options."""
        self.session = onnxruntime.InferenceSession(
            self.model.SerializeToString(), self.options, providers=["CPUExecutionProvider"]
        )

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch, which are on the host anyway."""
        for images, _ in batches:
            self.session.run(None, {INPUT: images})

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for canonical images."""
        return self.session.run(None, {INPUT: images})[0]

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, as ONNX infers them from the model."""
        graph = onnx.shape_inference.infer_shapes(self.model, strict_mode=True, data_prop=True).graph
        shapes = {}
        for result in list(graph.value_info) + list(graph.output):
            shapes[result.name] = [int(size.dim_value) for size in result.type.tensor_type.shape.dim[1:]]
        return {layer.name: shapes[layer.name] for layer in self.network.layers if layer.name in shapes}

    def functions(self) -> Functions:
        """Return the functions worth profiling line by line."""
        return [self.infer]
