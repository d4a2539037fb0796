"""The CNTK hooks, run in CNTK's own environment; what its graph and slots look like, without it."""

import functools
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelscope.tracer.inside import interpose
from kernelscope.tracer.inside.frameworks import mkl_calls as cntk_mkl
from kernelscope.tracer.inside.frameworks.cntk import workload as hooks


@pytest.fixture(scope="module")
def run_inside(run_in):
    return functools.partial(run_in, "cntk")


HOOKS = """
import json, os, sys, tempfile
import numpy
from kernelscope.tracer.inside.frameworks.cntk import workload as hooks_module
from kernelscope.tracer.inside.ranges import Recorder

folder = tempfile.mkdtemp()
recorder = Recorder(folder, layers=True)
hooks = hooks_module.Hooks({"pass": "kernels", "folder": folder, "threads": 2, "device": "cpu", "batch": 4}, recorder)
hooks.configure()
import cntk as C

images, labels = C.input_variable((2, 8, 8)), C.input_variable(3)
stack = C.layers.Sequential([
    C.layers.Convolution2D((3, 3), 16, pad=True, name="first"), C.layers.Convolution2D((3, 3), 16, name="second"),
    C.layers.Dense(3, name="last"),
])
model = stack(images)
loss = C.squared_error(model, labels, name="distance")
trainer = C.Trainer(model, loss, [C.sgd(model.parameters, C.learning_parameter_schedule(0.01))])
methods = hooks.attach_layers(None)
feed = {images: numpy.random.rand(4, 2, 8, 8).astype("float32"), labels: numpy.eye(4, 3, dtype="float32")}
trainer.train_minibatch(feed)
hooks.start_operators(None)
for item in recorder.steps(iter([feed] * 2), 2):
    trainer.train_minibatch(item)
files = hooks.stop_operators()
trainer.train_minibatch(feed)
recorder.flush()
with open(os.path.join(folder, "graph.json")) as file:
    graph = json.load(file)
with open(os.path.join(folder, "calls.mkl.jsonl")) as file:
    calls = [json.loads(line) for line in file]
ranges = [json.loads(line) for line in open(os.path.join(folder, "ranges.jsonl"))]
print(json.dumps({"graph": graph, "calls": calls, "ranges": ranges, "files": files, "left": sorted(os.listdir(folder)),
                  "methods": methods, "settings": hooks.settings(), "versions": hooks.versions()}))
"""


@pytest.fixture(scope="module")
def hooked(run_inside):
    return run_inside(HOOKS)


@pytest.mark.slow
def test_calls_of_mkl_are_timed_inside_of_cntks_own_call(hooked):
    assert hooked["methods"]["mkl"] == "timed calls"
    outer = [row for row in hooked["ranges"] if row["name"] == "cntk call"]
    assert len(outer) == 2
    for call in hooked["calls"]:
        assert any(row["start_ns"] <= call["start_ns"] <= call["end_ns"] <= row["end_ns"] for row in outer)
    executions = [call for call in hooked["calls"] if call["function"].startswith("dnnConvolution")]
    kinds = sorted(call["kind"] for call in executions if call["problem"].startswith("mb4_ic16oc16_ih8oh6kh3"))
    assert kinds == sorted(2 * ["convolution forward", "convolution data gradient", "convolution weight gradient"])
    products = {(call["m"], call["n"], call["k"], call["transpose"]) for call in hooked["calls"] if call["kind"] == "gemm"}
    assert (3, 4, 16 * 6 * 6, "NN") in products


@pytest.mark.slow
def test_every_node_of_a_named_model_has_its_layer(hooked):
    nodes = hooked["graph"]["nodes"].values()
    layers = {node["layer"] for node in nodes if node["op"] in ("Convolution", "Times", "Plus")}
    assert layers == {"first", "second", "last"}
    assert {node["layer"] for node in nodes} == {"first", "second", "last", "distance"}
    assert {(row["layer"], row["name"]) for row in hooked["graph"]["parameters"].values()} == {
        (layer, name) for layer in ("first", "second", "last") for name in ("W", "b")
    }


@pytest.mark.slow
def test_files_settings_and_versions_are_those_of_the_pass(hooked):
    assert hooked["files"] == ["operators.cntk.json", "graph.json", "calls.mkl.jsonl"]
    assert hooked["left"] == sorted([*hooked["files"], "ranges.jsonl", "steps.jsonl"])
    assert hooked["settings"]["threads"] == 2
    assert hooked["settings"]["execution"] == "graph"
    assert hooked["settings"]["node_timing"] is True
    assert set(hooked["versions"]) == {"cntk", "numpy", "mkl"}
    assert hooked["versions"]["mkl"].startswith("20")


READER = """
import itertools, json, os, tempfile
from kernelscope.tracer.inside.frameworks.cntk import workload as hooks_module
from kernelscope.tracer.inside.ranges import Recorder

folder = tempfile.mkdtemp()
recorder = Recorder(folder, layers=True)
hooks = hooks_module.Hooks({"pass": "layers", "folder": folder, "threads": 1, "device": "cpu", "batch": 2}, recorder)
hooks.configure()
import cntk as C
from cntk.io import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs

path = os.path.join(folder, "train.ctf")
with open(path, "w") as out:
    out.write("|features 1 2 |labels 0 1\\n" * 4)
streams = StreamDefs(features=StreamDef(field="features", shape=2), labels=StreamDef(field="labels", shape=2))
source = MinibatchSource(CTFDeserializer(path, streams), randomize=False)
features, labels = C.input_variable(2), C.input_variable(2)
model = C.layers.Dense(2, name="only")(features)
learner = C.sgd(model.parameters, C.learning_parameter_schedule(0.01))
trainer = C.Trainer(model, C.squared_error(model, labels), [learner])
hooks.attach_layers(None)
read = (source.next_minibatch(2, {features: source.streams.features, labels: source.streams.labels}) for _ in range(9))
for item in recorder.steps(read, 3):
    trainer.train_minibatch(item)
recorder.flush()
ranges = [json.loads(line) for line in open(os.path.join(folder, "ranges.jsonl"))]
print(json.dumps([row["name"] for row in ranges]))
"""


@pytest.mark.slow
def test_what_cntks_own_reader_gives_is_trained_on_inside_of_cntks_own_call(run_inside):
    names = run_inside(READER)
    assert names.count("train_minibatch") == names.count("cntk call") == 3


NORMALISED = """
import json, sys, types
import numpy
from kernelscope.workloads import networks
from kernelscope.workloads.cntk import program as module
from kernelscope.workloads.networks.builder import Builder
import cntk as C

b = Builder((3, 4, 4))
b.batch_norm("bn").flatten("flatten").dense("fc", 2)
network = b.network("normalised", "Only a normalisation", "random", {"name": "sgd", "learning_rate": 0.0, "momentum": 0.0})

def normalised(network, dropout):
    normalise, last = C.layers.BatchNormalization(map_rank=1, name="bn"), C.layers.Dense(2, name="fc")
    return lambda images: last(C.reshape(normalise(images), (-1,), name="flatten"))

builders = sys.modules["kernelscope.workloads.cntk.normalised"] = types.ModuleType("normalised")
builders.normalised = normalised
module.MODELS["normalised"] = "normalised"
options = {"mode": "train", "batch": 5, "device": "cpu", "seed": 0, "threads": 1, "dropout": False}
program = module.Program(network, options)
images = numpy.random.RandomState(1).uniform(1, 3, (5, 3, 4, 4)).astype("float32")
program.train(program.stream(program.prepare([(images, numpy.array([0, 1, 0, 1, 0]))] * 2)))
statistics = {c.name: c.value.tolist() for c in program.model.constants if c.name != "aggregate_count"}
settings = ({"precision": "bfloat16"}, {"layout": "channels_last"}, {"autotune": True})
refused = {}
for name, changed in [("vit_s16", {}), ("bert_base", {})] + [("lenet", setting) for setting in settings]:
    try:
        module.Program(networks.get(name), dict(options, **changed))
    except ValueError as error:
        refused[" ".join([name] + list(changed))] = str(error)
from kernelscope.workloads.cntk import gpt2
rows = C.input_variable((4, 72))
attend = C.layers.Sequential([C.layers.Activation(C.tanh), gpt2._attention(4, 24, "attention")])(rows)
given = numpy.random.RandomState(2).uniform(-2, 2, (1, 4, 72)).astype("float32")
print(json.dumps({"images": images.tolist(), "statistics": statistics, "refused": refused,
                  "rows": given.tolist(), "attended": attend.eval({rows: given}).tolist()}))
"""


@pytest.fixture(scope="module")
def normalised(run_inside):
    return run_inside(NORMALISED)


@pytest.mark.slow
def test_a_normalisations_running_means_keep_nine_tenths_in_each_step(normalised):
    images = np.array(normalised["images"])
    mean, variance = images.mean((0, 2, 3)), images.transpose(1, 0, 2, 3).reshape(3, -1).var(axis=1, ddof=1)
    found = normalised["statistics"]
    np.testing.assert_allclose(found["aggregate_mean"], (1 - 0.9**2) * mean, rtol=1e-6)  # from 0
    np.testing.assert_allclose(found["aggregate_variance"], 0.9**2 + (1 - 0.9**2) * variance, rtol=1e-6)  # from 1


@pytest.mark.slow
def test_attention_of_twelve_heads_looks_at_no_later_row(normalised):
    query, key, value = np.tanh(np.array(normalised["rows"][0])).reshape(4, 3, 12, 2).transpose(1, 2, 0, 3)
    scores = np.where(np.tril(np.ones((4, 4))) > 0, query @ key.transpose(0, 2, 1) / 2**0.5, -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    expected = (weights @ value).transpose(1, 0, 2).reshape(4, 24)
    np.testing.assert_allclose(normalised["attended"][0], expected, atol=1e-6)


@pytest.mark.slow
def test_what_cntk_cannot_do_is_refused_with_the_reason(normalised):
    no_erf = "cntk: %s is not supported: CNTK has no error function, which its GELU needs"
    assert normalised["refused"] == {
        "vit_s16": no_erf % "vit_s16",
        "bert_base": no_erf % "bert_base",
        "lenet precision": "cntk: precision bfloat16 is not supported",
        "lenet layout": "cntk: layout channels_last is not supported",
        "lenet autotune": "cntk: autotune True is not supported",
    }


RECORDS = """
import itertools, json, sys
import numpy
from kernelscope.workloads import networks
from kernelscope.workloads.cntk import program, records

class Samples(object):
    images = numpy.random.RandomState(3).randint(0, 256, (10, 28, 28)).astype("uint8")
    labels = numpy.arange(10)[::-1]

    def __len__(self):
        return 10

    def take(self, numbers):
        return self.images[numbers], self.labels[numbers]

network = networks.get("lenet")
files = records.write(sys.argv[1], Samples(), network)
samples, losses = Samples(), {}
arrays = [samples.take(numpy.arange(first, first + 4) % 10) for first in (0, 4, 8)]
arrays = [(images.reshape(4, 1, 28, 28) / numpy.float32(255), labels) for images, labels in arrays]
for source in ("records", "arrays"):
    options = {"mode": "train", "batch": 4, "device": "cpu", "seed": 0, "threads": 1, "dropout": False}
    trained = program.Program(network, options)
    trained.load(networks.initial_weights(network, 0))
    read = records.batches(trained, sys.argv[1], 4) if source == "records" else trained.stream(trained.prepare(arrays))
    trained.train(itertools.islice(read, 3))
    losses[source] = trained.losses
lines = open(files[0]).read().splitlines()
print(json.dumps({"losses": losses, "lines": lines, "images": samples.images.tolist()}))
"""


@pytest.mark.slow
def test_records_hold_every_sample_and_train_as_the_arrays_do(run_inside, tmp_path):
    found = run_inside(RECORDS, tmp_path)
    assert len(found["lines"]) == 10
    labels, _, features = found["lines"][2].partition(" |features ")
    assert labels == "|labels 0 0 0 0 0 0 0 1 0 0"
    np.testing.assert_allclose(np.array(features.split(), dtype=float), np.ravel(found["images"][2]) / 255, rtol=1e-6)
    # the third batch is the last two samples and the first two again
    np.testing.assert_allclose(found["losses"]["records"], found["losses"]["arrays"], rtol=1e-6)


def test_a_convolutions_problem_reads_like_onednns():
    problem = cntk_mkl.convolution_problem([14, 15, 6, 64], [10, 11, 16, 64], [5, 6], [1, 2], [0, -2])
    assert problem == "mb64_ic6oc16_ih15oh11kh6sh2ph2_iw14ow10kw5sw1pw0"


def test_plain_layouts_are_named_by_the_order_of_their_dimensions():
    assert cntk_mkl.plain_layout([5, 7, 3, 64], [1, 5, 35, 105]) == "abcd"
    # width, height, channels, samples with channels closest together
    assert cntk_mkl.plain_layout([5, 7, 3, 64], [3, 15, 1, 105]) == "acdb"


def test_only_elf_files_have_slots(tmp_path):
    path = tmp_path / "text.so"
    path.write_bytes(b"no library" * 100)
    assert interpose.call_slots(str(path)) == {}
    libraries = [path for *_, path in interpose.mappings() if Path(path).name.startswith("libstdc++")]
    for library in libraries[:1]:
        slots = interpose.call_slots(library)
        assert "memcpy" in slots
        assert all(offset > 0 for offset in slots.values())


def test_mkl_reports_itself_only_where_its_calls_cannot_be_timed(monkeypatch):
    assert hooks.Hooks.environment("clean") == hooks.Hooks.environment("layers") == {}
    monkeypatch.setattr(interpose, "supported", lambda: False)
    assert hooks.Hooks.environment("kernels") == {"MKL_VERBOSE": "1"}
    assert cntk_mkl.Calls(lambda: True).install() == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_library_that_is_not_loaded_is_not_found():
    assert interpose.loaded("libCntk.Math") is None
    assert cntk_mkl.version() is None
