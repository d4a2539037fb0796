"""XLA's operations with their layers, on a small capture that this project recorded, and programs made by hand."""

import json
import shutil
from dataclasses import replace
from math import prod

import pandas as pd
import pytest

from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.attribution.frameworks import Clock, Context, jax
from kernelscope.analysis.attribution.frameworks.xla_names import ProgramNames
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.xplane import hlo
from kernelscope.analysis.formats.xplane import tables as xplane
from kernelscope.analysis.trace import Trace
from kernelscope.analysis.trace.records import read_object, read_table
from kernelscope.workloads import networks
from tests.places import ROOT

CAPTURE = ROOT / "tests" / "data" / "jax" / "lenet-train"
STEPS, BATCH = 3, 16


def context_of(folder):
    report = read_object(folder / "child.json")
    clock = Clock.from_anchors(report["anchors"])
    steps, ranges = read_table(folder / "steps.jsonl", "steps"), read_table(folder / "ranges.jsonl", "ranges")
    return Context(steps, ranges, report["network"], "train", report, clock)


@pytest.fixture(scope="module")
def context():
    return context_of(CAPTURE)


@pytest.fixture(scope="module")
def evidence(context):
    return jax.read(CAPTURE, context)


def of(kernels, layer, phase, kind):
    return kernels[(kernels["layer"] == layer) & (kernels["phase"] == phase) & (kernels["kind"] == kind)]


def test_the_steps_add_up_and_are_explained(context, evidence):
    trace = Trace(steps=context.steps, ranges=context.ranges, operators=evidence.operators, kernels=evidence.kernels)
    trace.check()
    found = partition(trace)
    assert found.cells["time_ns"].sum() == found.step_ns
    cells = found.cells
    known = (
        cells["layer"].notna()
        | cells["phase"].isin(["optimizer", "data"])
        | cells["cause"].isin(["in the framework", "synchronisation"])
    )
    assert cells[known]["time_ns"].sum() >= 0.95 * found.step_ns
    assert evidence.diagnostics["operations without their program"] == 0


def test_convolutions_have_their_passes_layers_and_problems(evidence):
    kernels = evidence.kernels
    expected = {
        ("conv1", "forward", "convolution forward"): "16x28x28x1:5x5x1x6:16x28x28x6",
        ("conv2", "forward", "convolution forward"): "16x14x14x6:5x5x6x16:16x10x10x16",
        ("conv1", "backward", "convolution weight gradient"): "1x28x28x16:28x28x16x6:1x5x5x6",
        ("conv2", "backward", "convolution weight gradient"): "6x14x14x16:10x10x16x16:6x5x5x16",
        ("conv2", "backward", "convolution data gradient"): "16x10x10x16:5x5x16x6:16x14x14x6",
    }
    for key, problem in expected.items():
        assert of(kernels, *key)["problem"].tolist() == [problem] * STEPS
    assert kernels["kind"].str.startswith("convolution").sum() == STEPS * len(expected)  # none for the images' gradient


def test_what_xla_made_itself_belongs_to_the_layer_that_uses_it(evidence):
    weights = of(evidence.kernels, "conv1", "backward", "convolution weight gradient")
    assert set(weights["attribution"]) == {"shape"}
    layouts = evidence.kernels[evidence.kernels["kind"] == "layout"]
    assert set(layouts["layer"]) == {"conv1", "conv2"}
    assert set(layouts["attribution"]) == {"graph order"}
    assert set(layouts["phase"]) == {"backward"}


def test_products_of_dense_layers_have_their_sizes(evidence):
    products = evidence.kernels[evidence.kernels["kind"] == "gemm"]
    sizes = {"fc1": (400, 120), "fc2": (120, 84), "fc3": (84, 10)}
    assert len(products) == STEPS * 3 * len(sizes)
    for layer, (inputs, outputs) in sizes.items():
        mine = products[products["layer"] == layer]
        found = sorted(zip(mine["phase"], mine["m"], mine["n"], mine["k"], strict=True))
        expected = [
            ("forward", BATCH, outputs, inputs),
            ("backward", inputs, outputs, BATCH),
            ("backward", BATCH, inputs, outputs),
        ]
        assert found == sorted(expected * STEPS)


def test_every_layer_that_computes_is_there_with_its_result(evidence):
    for layer in networks.get("lenet").layers:
        if layer.type in ("flatten", "loss"):
            continue
        forward = evidence.kernels[(evidence.kernels["layer"] == layer.name) & (evidence.kernels["phase"] == "forward")]
        results = {prod(map(int, problem.rsplit(":", 1)[-1].split("x"))) for problem in forward["problem"]}
        assert BATCH * prod(layer.output_shape) in results


def test_an_operation_lasts_until_its_mark_says_it_is_done():
    operations = pd.DataFrame({"start_ns": [10, 20, 100], "end_ns": [15, 40, 105], "stat_hlo_op": ["a", "b", "a"]})
    done = pd.DataFrame({"start_ns": [50, 39, 104, 5], "name": ["end: a", "end: b", "end: a", "end: a"]})
    assert jax._ends(operations, done).tolist() == [50, 40, 105]


def test_a_capture_without_programs_names_no_layers(context, tmp_path):
    for file in CAPTURE.iterdir():
        shutil.copy(file, tmp_path)
    programs = xplane.read_programs(CAPTURE / "operators.xplane.pb")
    assert list(programs) == ["jit_train_step(74)"]
    (tmp_path / "operators.xplane.pb").write_bytes(b"")
    with pytest.raises(EvidenceError, match=r"operators\.xplane\.pb: empty"):
        jax.read(tmp_path, context)
    with pytest.raises(EvidenceError, match="a compiled program in it cannot be read"):
        hlo.parse(b"\x0a\xff", "operators.xplane.pb")


def test_another_profiler_on_the_device_leaves_ranges_only(context):
    report = {**context.report, "operator_files": []}
    other = Context(context.steps, context.ranges, context.network, context.mode, report, context.clock)
    found = jax.read(CAPTURE, other)
    assert len(found.kernels) == len(found.operators) == 0


# --- programs made by hand ------------------------------------------------------------------------------------------------------


def program(*instructions, **computations):
    """Return a program of these (name, opcode, op_name, operands, called) and of named computations; roots come last."""
    proto = hlo._classes()["Proto"]()
    numbers, parts = {}, [*computations.items(), ("entry", instructions)]
    for number, (name, members) in enumerate(parts, start=1):
        computation = proto.module.computations.add(id=number)
        for member in members:
            numbers[member[0]] = len(numbers) + 1
            made = computation.instructions.add(
                name=member[0].encode(), opcode=member[1].encode(), id=numbers[member[0]],
                operands=[numbers[one] for one in member[3]],
                called=[list(computations).index(one) + 1 for one in (member[4] if len(member) > 4 else ())],
            )  # fmt: skip
            made.metadata.op_name = member[2].encode()
            if member[1] == "parameter":
                made.parameter_number = int(member[0].rsplit("_", 1)[-1])
        computation.root = numbers[members[-1][0]]
        assert name
    return hlo.parse(proto.SerializeToString(), "by hand")


def resolved(made, name, **described):
    layers = [{"name": "conv1", "type": "convolution"}, {"name": "fc1", "type": "dense"}, {"name": "loss", "type": "loss"}]
    found = ProgramNames(made, {"layers": layers, **described}).operation(name)
    return found.layer, found.phase, found.attribution


def test_scopes_with_transformations_name_layer_and_phase():
    cases = {
        "jit(step)/jvp(fc1)/dot_general": ("fc1", "forward", "operator name"),
        "jit(step)/jvp(conv1_pad)/pad": ("conv1_pad", "forward", "operator name"),
        "jit(step)/transpose(jvp(conv2_pad))/pad": (None, "backward", "none"),  # there is no conv2 here
        "jit(step)/transpose(jvp(fc1))/dot_general": ("fc1", "backward", "operator name"),
        "jit(step)/transpose(jvp(net/fc1))/while/body/mul": ("fc1", "backward", "operator name"),
        "jit(infer)/fc1/add": ("fc1", "forward", "operator name"),
        "jit(step)/optimizer/add": (None, "optimizer", "operator name"),
        "jit(step)/jvp(loss)/log": ("loss", "forward", "operator name"),
        "jit(step)/jvp()/fc1": (None, "forward", "none"),  # an operation called like a layer is none
        "jit(step)/random_bits": (None, None, "none"),
    }
    for scope, expected in cases.items():
        assert resolved(program(("x", "add", scope, ())), "x") == expected, scope


def test_users_are_followed_into_fusions_before_sources():
    made = program(
        ("p_0", "parameter", "", ()),
        ("source", "dot", "jit(s)/jvp(conv1)/dot_general", ("p_0",)),
        ("made", "copy", "", ("source",)),
        ("fused", "fusion", "jit(s)/optimizer/add", ("p_0", "made"), ("inner",)),
        inner=[
            ("i_0", "parameter", "", ()),
            ("i_1", "parameter", "", ()),
            ("cast", "bitcast", "jit(s)/transpose(jvp(fc1))/reshape", ("i_1",)),
            ("sum", "add", "jit(s)/optimizer/add", ("i_0", "cast")),
        ],
    )
    assert resolved(made, "made") == ("fc1", "backward", "graph order")
    assert resolved(made, "fused") == (None, "optimizer", "operator name")
    last = program(("p_0", "parameter", "", ()), ("d", "dot", "jit(s)/jvp(conv1)/dot", ("p_0",)), ("end", "copy", "", ("d",)))
    assert resolved(last, "end") == ("conv1", "forward", "graph order")


def test_what_devices_exchange_is_no_layers_and_tells_nothing_of_its_neighbours():
    made = program(
        ("p_0", "parameter", "", ()),
        ("gradient", "dot", "jit(s)/transpose(jvp(fc1))/dot_general", ("p_0",)),
        ("turned", "transpose", "", ("gradient",)),
        ("sums", "all-reduce", "jit(s)/transpose(jvp(loss))/mul", ("turned", "p_0")),
        ("one", "get-tuple-element", "", ("sums",)),
        ("updated", "multiply", "jit(s)/optimizer/mul", ("one",)),
        ("gathered", "all-gather-start", "jit(s)/jvp(conv1)/reshape", ("p_0",)),
    )
    assert resolved(made, "sums") == (None, "backward", "operator name")
    assert resolved(made, "gathered") == (None, "forward", "operator name")
    assert resolved(made, "turned") == ("fc1", "backward", "graph order")
    assert resolved(made, "one") == (None, "optimizer", "graph order")
    names = ProgramNames(made, {"layers": [{"name": "loss", "type": "loss"}]})
    assert [names.operation(name).kind for name in ("sums", "gathered")] == ["communication"] * 2


def test_loops_hold_and_cycles_end():
    made = program(
        ("p_0", "parameter", "", ()),
        ("loop", "while", "jit(s)/jvp(fc1)/while", ("p_0",), ("body",)),
        body=[("b_0", "parameter", "", ()), ("again", "copy", "", ("b_0",)), ("own", "call", "", ("again",), ("body",))],
    )
    layers = json.loads('[{"name": "fc1", "type": "dense"}]')
    names = ProgramNames(made, {"layers": layers})
    assert names.operation("loop").holds
    assert names.operation("again").layer == "fc1"
    assert names.operation("nowhere") is None


@pytest.mark.parametrize(("layers", "known"), [(["step", None, "loss"], False), (["step", "stem"], True), ([None], True)])
def test_without_scopes_coverage_is_of_whole_functions(context, layers, known):
    report = {"network": {"layers": [{"name": "step", "type": "function"}]}}
    mine = replace(context, network={}, report=report)
    found = jax._coverage_of(pd.DataFrame({"layer": pd.array(layers, dtype="string")}), mine)
    text = "whole functions: step opens no scopes, so forward is one layer"
    assert found == ({} if known else {"coverage_of": text})
