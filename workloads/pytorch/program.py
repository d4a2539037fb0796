"""The training and inference loops that all networks share, as a PyTorch user writes them."""

import torch
from torch import nn

from kernelscope.workloads.pytorch.cnn import CNN
from kernelscope.workloads.pytorch.lenet import LeNet
from kernelscope.workloads.pytorch.lstm import LSTM
from kernelscope.workloads.pytorch.mlp import MLP

MODELS = {"lenet": LeNet, "mlp": MLP, "cnn": CNN, "lstm": LSTM}

# canonical name of a recurrent layer's parameter -> PyTorch's; the order of the gates is the same
RECURRENT = {"input_weight": "weight_ih_l0", "hidden_weight": "weight_hh_l0", "bias": "bias_ih_l0"}


def make_optimizer(settings, parameters):
    """Return the optimizer of a network's description over these parameters."""
    if settings["name"] == "sgd":
        return torch.optim.SGD(parameters, lr=settings["learning_rate"], momentum=settings["momentum"])
    if settings["name"] == "rmsprop":
        return torch.optim.RMSprop(parameters, lr=settings["learning_rate"], alpha=settings["decay"], eps=1e-7)
    raise ValueError("no optimizer %r here" % settings["name"])


def unwrapped(model):
    """Return the network inside of modules that only wrap it, such as DataParallel: those with nothing but one child."""
    children = list(model.children())
    return unwrapped(children[0]) if len(children) == 1 and list(children[0].children()) else model


class Program(object):
    """One network with its loops; `options` are mode, batch, device, seed, threads and dropout."""

    def __init__(self, network, options):
        self.network = network
        self.mode = options["mode"]
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
        trainable = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = make_optimizer(network.optimizer, trainable)
        self.losses = []

    def load(self, weights):
        """Load {(layer, parameter): float32 array in canonical layout}, which is PyTorch's own but for recurrent names."""
        network = unwrapped(self.model)
        with torch.no_grad():
            for (layer, name), values in weights.items():
                parameter = getattr(getattr(network, layer), RECURRENT.get(name, name), None)
                if parameter is None:
                    parameter = getattr(getattr(network, layer), name)
                parameter.copy_(torch.from_numpy(values))

    def parameters(self):
        """Return what is trainable as a list of {layer, name, shape, count}, with PyTorch's names and shapes."""
        found = []
        for name, parameter in unwrapped(self.model).named_parameters():
            if parameter.requires_grad:
                layer, _, short = name.rpartition(".")
                shape = list(parameter.shape)
                found.append({"layer": layer, "name": short, "shape": shape, "count": parameter.numel()})
        return found

    def prepare(self, batches):
        """Return the host's batches: numpy arrays, images channels first and labels as class numbers, as they come."""
        return list(batches)

    def stream(self, host_batches):
        """Yield each host batch as tensors on the device."""
        for images, labels in host_batches:
            yield torch.from_numpy(images).to(self.device), torch.from_numpy(labels).to(self.device)

    def train(self, batches):
        """Train one step per batch and keep each step's loss."""
        self.model.train()
        for images, labels in batches:
            self.optimizer.zero_grad()
            logits = self.model(images)
            loss = self.loss(logits, labels)
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())

    def infer(self, batches):
        """Bring the logits of each batch to the host."""
        self.model.eval()
        with torch.inference_mode():
            for images, _ in batches:
                logits = self.model(images)
                logits.cpu().numpy()

    def outputs(self, images):
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""
        self.model.eval()
        with torch.inference_mode():
            return self.model(torch.from_numpy(images).to(self.device)).cpu().numpy()

    def layer_shapes(self, images):
        """Return {layer: shape of one sample's output}, observed while the model runs; an LSTM gives its last hidden state."""
        shapes, handles = {}, []

        def observe(name):
            def hook(module, _, output):
                kept = output[1][0][-1] if isinstance(module, nn.LSTM) else output
                shapes[name] = [int(size) for size in kept.shape[1:]]

            return hook

        for name, module in unwrapped(self.model).named_children():
            handles.append(module.register_forward_hook(observe(name)))
        self.outputs(images)
        for handle in handles:
            handle.remove()
        return shapes

    def functions(self):
        """Return the functions worth profiling line by line."""
        return [self.train if self.mode == "train" else self.infer, self.model.forward]
