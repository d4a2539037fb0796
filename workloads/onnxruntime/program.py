"""The inference loop that all networks share, as a user of ONNX Runtime writes it."""

import importlib

import onnx
import onnxruntime

from kernelscope.workloads.onnxruntime.graph import INPUT, Graph

# network -> the module that has a function of its name; families share one
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
DEFAULTS = {"precision": "float32", "layout": "channels_first"}


def check(options):
    """Raise ValueError where an option asks for what is not built here."""
    if options["mode"] != "infer":
        raise ValueError("onnxruntime: training is not supported: the package runs models that are trained; give --mode infer")
    for name in ("precision", "layout", "autotune"):
        value = options.get(name)
        if value is not None and value != DEFAULTS.get(name):
            raise ValueError("onnxruntime: %s %s is not supported" % (name, value))


class Program(object):
    """One network with its loop; `options` are mode (infer), batch and threads."""

    MADE_BY_LOADING = True  # there is no network before there are weights

    def __init__(self, network, options):
        check(options)
        self.network = network
        self.mode = options["mode"]
        self.options = onnxruntime.SessionOptions()
        if options.get("threads"):
            self.options.intra_op_num_threads = options["threads"]
        self.losses = []

    def load(self, weights):
        """Make the model of {(layer, parameter): float32 array in canonical layout} and a session that runs it."""
        self.weights = weights
        module = importlib.import_module("kernelscope.workloads.onnxruntime." + MODELS[self.network.name])
        graph = Graph(weights)
        self.model = graph.model(self.network, getattr(module, self.network.name)(graph, INPUT))
        self.open()

    def open(self):
        """Start a session with the options that are set."""
        self.session = onnxruntime.InferenceSession(
            self.model.SerializeToString(), self.options, providers=["CPUExecutionProvider"]
        )

    def parameters(self):
        """Return the weights as a list of {layer, name, shape, count}, in the layout in which the program has them."""
        return [
            {"layer": layer, "name": name, "shape": list(values.shape), "count": int(values.size)}
            for (layer, name), values in self.weights.items()
        ]

    def prepare(self, batches):
        """Return the host's batches: numpy arrays, images channels first and labels as class numbers, as they come."""
        return list(batches)

    def stream(self, host_batches):
        """Yield each host batch as it is: a session reads the array where it lies."""
        return iter(host_batches)

    def infer(self, batches):
        """Compute the logits of each batch."""
        for images, _ in batches:
            self.session.run(None, {INPUT: images})

    def outputs(self, images):
        """Return the logits as numpy [batch, classes] for canonical images."""
        return self.session.run(None, {INPUT: images})[0]

    def layer_shapes(self, images):
        """Return {layer: shape of one sample's output}, as ONNX infers them from the model."""
        graph = onnx.shape_inference.infer_shapes(self.model, strict_mode=True, data_prop=True).graph
        shapes = {}
        for result in list(graph.value_info) + list(graph.output):
            shapes[result.name] = [int(size.dim_value) for size in result.type.tensor_type.shape.dim[1:]]
        return {layer.name: shapes[layer.name] for layer in self.network.layers if layer.name in shapes}

    def functions(self):
        """Return the functions worth profiling line by line."""
        return [self.infer]
