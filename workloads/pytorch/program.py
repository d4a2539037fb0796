"""The training and inference loops shared by all networks, as a PyTorch user writes them."""

from typing import Any, Dict, Iterable, Iterator

import torch
from torch import nn

from kernelscope.workloads import program
from kernelscope.workloads.networks import Array, Network, Settings, Weights
from kernelscope.workloads.program import Batch, Functions, Options, Parameters, Shapes, parameter
from kernelscope.workloads.pytorch.alexnet import alexnet, alexnet_cifar10
from kernelscope.workloads.pytorch.cifarcnn import CifarCNN
from kernelscope.workloads.pytorch.cnn import CNN
from kernelscope.workloads.pytorch.fcn import fcn5, fcn8
from kernelscope.workloads.pytorch.googlenet import googlenet, googlenet_cifar10
from kernelscope.workloads.pytorch.gru import GRU
from kernelscope.workloads.pytorch.lenet import LeNet
from kernelscope.workloads.pytorch.lstm import LSTM
from kernelscope.workloads.pytorch.mlp import MLP
from kernelscope.workloads.pytorch.resnet import resnet50, resnet50_cifar10
from kernelscope.workloads.pytorch.stacked_lstm import StackedLSTM
from kernelscope.workloads.pytorch.transformers import GPT2, BERTBase, ViTS16
from kernelscope.workloads.pytorch.vgg import vgg16, vgg16_cifar10

MODELS = {
    "lenet": LeNet,
    "mlp": MLP,
    "cnn": CNN,
    "lstm": LSTM,
    "cifarcnn": CifarCNN,
    "gru": GRU,
    "fcn5": fcn5,
    "fcn8": fcn8,
    "lstm32": StackedLSTM,
    "lstm64": StackedLSTM,
    "alexnet": alexnet,
    "alexnet_cifar10": alexnet_cifar10,
    "vgg16": vgg16,
    "vgg16_cifar10": vgg16_cifar10,
    "googlenet": googlenet,
    "googlenet_cifar10": googlenet_cifar10,
    "resnet50": resnet50,
    "resnet50_cifar10": resnet50_cifar10,
    "gpt2": GPT2,
    "bert_base": BERTBase,
    "vit_s16": ViTS16,
}

# canonical names of a recurrent layer's parameters -> PyTorch's; the gates have the same order
RECURRENT = {
    "input_weight": "weight_ih_l0",
    "hidden_weight": "weight_hh_l0",
    "bias": "bias_ih_l0",
    "input_bias": "bias_ih_l0",
    "hidden_bias": "bias_hh_l0",
}


def make_optimizer(settings: Settings, parameters: Any) -> Any:
    """Return the optimizer in a network's description, for these parameters; raise ValueError for an unknown one."""
    if settings["name"] == "sgd":
        return torch.optim.SGD(parameters, lr=settings["learning_rate"], momentum=settings["momentum"])
    if settings["name"] == "rmsprop":
        return torch.optim.RMSprop(parameters, lr=settings["learning_rate"], alpha=settings["decay"], eps=1e-7)
    if settings["name"] == "adam":
        betas = (settings["beta1"], settings["beta2"])
        return torch.optim.Adam(parameters, lr=settings["learning_rate"], betas=betas, eps=settings["epsilon"])
    raise ValueError("pytorch: unknown optimizer %r" % settings["name"])


def unwrapped(model: Any) -> Any:
    """Return the network inside modules that only wrap it, such as DataParallel: modules whose only child has children."""
    children = list(model.children())
    return unwrapped(children[0]) if len(children) == 1 and list(children[0].children()) else model


def kept_output(layer: Any, output: Any) -> Any:
    """Return the part of a layer's output that the next layer takes; of a recurrent one, the last or all hidden states."""
    if layer.type == "lstm":
        sequence, (hidden, _) = output
        return sequence if layer.settings["sequence"] else hidden[-1]
    return output[1][-1] if layer.type == "gru" else output


class Program(program.Program):
    """One network with its loops; `options` are mode, batch, device, seed, threads, dropout and those of CHOICES."""

    FRAMEWORK = "pytorch"
    SETTINGS = {"precision": ("float32", "bfloat16"), "layout": ("channels_first", "channels_last"), "autotune": (False, True)}

    def __init__(self, network: Network, options: Options) -> None:
        super().__init__(network, options, MODELS)
        self.device = torch.device(options.get("device") or "cpu")
        if options.get("threads"):
            torch.set_num_threads(options["threads"])
        torch.manual_seed(options.get("seed") or 0)
        self.model = MODELS[network.name]().to(self.device)
        if not options.get("dropout", True):
            for module in self.model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.0
        self.loss = nn.CrossEntropyLoss()
        self.memory_format = torch.contiguous_format
        if self.choices:
            from kernelscope.workloads.pytorch.choices import choose

            choose(self, **self.choices)
        trainable = [tensor for tensor in self.model.parameters() if tensor.requires_grad]
        self.optimizer = make_optimizer(network.optimizer, trainable)

    def layers(self) -> Dict[str, Any]:
        """Return {canonical name: module}. A module's path has dots where the canonical name has underscores."""
        return {path.replace(".", "_"): module for path, module in unwrapped(self.model).named_modules()}

    def load(self, weights: Weights) -> None:
        """Load {(layer, parameter): float32 array in canonical layout}; PyTorch's is the same, with other recurrent names."""
        layers = self.layers()
        with torch.no_grad():
            for (layer, name), values in weights.items():
                tensor = getattr(layers[layer], RECURRENT.get(name, name), None)
                if tensor is None:
                    tensor = getattr(layers[layer], name)
                tensor.copy_(torch.from_numpy(values))

    def parameters(self) -> Parameters:
        """Return the trainable parameters as a list of {layer, name, shape, count}, with PyTorch's names and shapes."""
        found = []
        for path, tensor in unwrapped(self.model).named_parameters():
            if tensor.requires_grad:
                layer, _, name = path.rpartition(".")
                found.append(parameter(layer.replace(".", "_"), name, tensor.shape))
        return found

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each host batch as tensors on the device."""
        for images, labels in host_batches:
            yield self.placed(images), torch.from_numpy(labels).to(self.device)

    def placed(self, images: Any) -> Any:
        """Return images as a tensor on the device, in the chosen layout."""
        return torch.from_numpy(images).to(self.device, memory_format=self.memory_format)

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss."""
        self.model.train()
        for images, labels in batches:
            self.optimizer.zero_grad()
            logits = self.model(images)
            loss = self.loss(logits, labels)
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch and copy them to the host."""
        self.model.eval()
        with torch.inference_mode():
            for images, _ in batches:
                logits = self.model(images)
                logits.cpu().numpy()

    def outputs(self, images: Array) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        self.model.eval()
        with torch.inference_mode():
            return self.model(self.placed(images)).cpu().numpy()

    def layer_shapes(self, images: Array) -> Shapes:
        """Return {layer: shape of one sample's output, channels first}, observed while the model runs; see `kept_output`."""
        shapes, handles, layers = {}, [], self.layers()

        def observe(layer: Any) -> Any:
            def hook(module: Any, _: Any, output: Any) -> None:
                shapes[layer.name] = [int(size) for size in kept_output(layer, output).shape[1:]]

            return hook

        for layer in self.network.layers:
            if layer.name in layers:
                handles.append(layers[layer.name].register_forward_hook(observe(layer)))
        self.outputs(images)
        for handle in handles:
            handle.remove()
        return shapes

    def functions(self) -> Functions:
        """Return the loop and the model's own function."""
        return super().functions() + [self.model.forward]
