"""JAX's networks as JAX traces them, without compiling any: layers, shapes and parameters of all; what is refused."""

import pytest

from kernelscope.workloads import networks

TRACE = """
import json
import jax
from kernelscope.workloads import networks
from kernelscope.workloads.jax import program
found = {}
for name in networks.NETWORKS:
    network = networks.get(name)
    model = program.make_model(name, True)
    leaves = model.leaves()
    shapes = lambda own, kind="float32": {name: jax.ShapeDtypeStruct(size, kind) for name, size in own.items()}
    parameters = {layer: shapes(leaf.shapes) for layer, leaf in leaves.items() if leaf.shapes}
    statistics = {layer: shapes(leaf.statistics) for layer, leaf in leaves.items() if leaf.statistics}
    size = network.input_shape
    size = size[1:] + size[:1] if len(size) == 3 else size
    samples = jax.ShapeDtypeStruct((2,) + size, "int32" if network.words else "float32")
    def forward(parameters, statistics, samples, key=None):
        run = program.Run(parameters, statistics, key)
        result = run.block(model, samples)
        traced.update(run.shapes)
        return result, run.statistics
    traced = {}
    jax.eval_shape(forward, parameters, statistics, samples)
    halves = {layer: shapes(leaf.shapes, "bfloat16") for layer, leaf in leaves.items() if leaf.shapes}
    half = samples if network.words else jax.ShapeDtypeStruct(samples.shape, "bfloat16")
    made = [jax.eval_shape(forward, halves, statistics, half, *key) for key in ((), (jax.eval_shape(jax.random.key, 0),))]
    found[name] = {
        "outputs": {layer: list(shape[1:]) for layer, shape in traced.items()},
        "parameters": {layer: sum(one.size for one in own.values()) for layer, own in parameters.items()},
        "normalised": sorted(statistics),
        "bfloat16": [[str(result.dtype), kept == statistics] for result, kept in made],
    }
refusals = []
for options in ({"precision": "float16"}, {"layout": "channels_first"}, {"autotune": True}):
    try:
        program.Program(networks.get("lenet"), dict(options, mode="infer", batch=1))
    except ValueError as error:
        refusals.append(str(error))
print(json.dumps({"networks": found, "refusals": refusals}))
"""


def channels_first(shape):
    return shape[-1:] + shape[:-1] if len(shape) == 3 else shape


@pytest.mark.slow
def test_every_network_has_the_canonical_layers(run_in):
    found = run_in("jax", TRACE)
    assert list(found["networks"]) == list(networks.NETWORKS)
    for name, traced in found["networks"].items():
        layers = [layer for layer in networks.get(name).layers if layer.type != "loss"]
        assert {layer: channels_first(shape) for layer, shape in traced["outputs"].items()} == {
            layer.name: list(layer.output_shape) for layer in layers
        }
        expected = {layer.name: sum(networks.elements(p.shape) for p in layer.parameters) for layer in layers if layer.parameters}
        assert traced["parameters"] == expected
        assert traced["bfloat16"] == [["bfloat16", True]] * 2  # in inference and in training; statistics stay float32
        assert traced["normalised"] == sorted(layer.name for layer in layers if layer.type == "batch_norm")
    assert found["refusals"] == [
        "jax: precision float16 is not supported",
        "jax: layout channels_first is not supported",
        "jax: autotune True is not supported: XLA decides when it compiles",
    ]
