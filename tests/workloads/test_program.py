"""What all programs share: what they refuse, what the tracer gets from a program that writes nothing but what it must."""

import numpy as np
import pytest

from kernelscope.workloads import lines, networks
from kernelscope.workloads.program import InferenceProgram, Program, builder, parameter

OPTIONS = {"mode": "train", "batch": 2, "seed": 0, "dropout": True}


class Smallest(Program):
    FRAMEWORK = "smallest"
    SETTINGS = {"precision": ("float32",), "layout": ("channels_first", "channels_last")}
    REASONS = {"autotune": "nothing is tried out"}

    def __init__(self, network, options):
        super().__init__(network, options, ("mlp", "lenet"))

    def load(self, weights):
        self.weights = weights

    def parameters(self):
        return [parameter(layer, name, values.shape) for (layer, name), values in self.weights.items()]

    def train(self, batches):
        self.losses.extend(float(images.mean()) for images, _ in batches)

    def infer(self, batches):
        pass

    def outputs(self, images):
        return images

    def layer_shapes(self, images):
        return {}


def test_arrays_pass_through_unless_a_program_says_otherwise():
    program = Smallest(networks.get("mlp"), OPTIONS)
    images, labels = np.ones((2, 3)), np.zeros(2)
    program.train(program.stream(program.prepare(iter([(images, labels)]))))
    assert program.losses == [1.0]
    assert program.functions() == [program.train]
    assert program.processes() == []


def test_parameters_are_rows_with_their_number_of_elements():
    program = Smallest(networks.get("lenet"), OPTIONS)
    program.load(networks.initial_weights(program.network, 0))
    assert program.parameters()[0] == {"layer": "conv1", "name": "weight", "shape": [6, 1, 5, 5], "count": 150}
    assert sum(row["count"] for row in program.parameters()) == networks.parameter_count(program.network)


def test_choices_are_kept_or_refused_with_the_reason():
    program = Smallest(networks.get("mlp"), dict(OPTIONS, layout="channels_last", precision=None))
    assert program.choices == {"layout": "channels_last"}
    for refused, message in (
        ({"precision": "bfloat16"}, "smallest: precision bfloat16 is not supported"),
        ({"layout": "tiled"}, "smallest: layout tiled is not supported"),
        ({"autotune": False}, "smallest: autotune False is not supported: nothing is tried out"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            Smallest(networks.get("mlp"), dict(OPTIONS, **refused))
    with pytest.raises(ValueError, match=r"^smallest: network cnn is not supported$"):
        Smallest(networks.get("cnn"), OPTIONS)


def test_a_class_that_lacks_a_method_says_which():
    class Unfinished(Smallest):
        outputs = Program.outputs

    with pytest.raises(TypeError, match="outputs"):
        Unfinished(networks.get("mlp"), OPTIONS)


def test_what_only_infers_says_so_and_has_its_weights_as_parameters():
    class Inferring(InferenceProgram):
        FRAMEWORK = "inferring"
        load = Smallest.load
        infer = Smallest.infer
        outputs = Smallest.outputs
        layer_shapes = Smallest.layer_shapes

        def __init__(self, network, options):
            super().__init__(network, options, {"mlp": None})

    program = Inferring(networks.get("mlp"), dict(OPTIONS, mode="infer"))
    program.load(networks.initial_weights(program.network, 0))
    assert {row["layer"] for row in program.parameters()} == {"fc1", "fc2", "fc3"}
    for network, mode in (("mlp", "train"), ("lenet", "infer")):
        refused = f"inferring: network {network} is not supported in mode {mode}"
        expected = f"{refused}: it only runs inference of mlp; give --mode infer"
        with pytest.raises(ValueError, match=expected):
            Inferring(networks.get(network), dict(OPTIONS, mode=mode))


def test_builders_are_found_by_the_network_they_build():
    assert builder("networks", "small", "lenet")().name == "lenet"


def test_what_all_programs_share_is_no_line_of_a_program():
    program = Smallest(networks.get("mlp"), OPTIONS)
    names = [module.__name__ for module in lines._modules(program)]
    assert __name__ in names
    assert not {name for name in names if name.startswith("kernelscope.workloads.program")}
