"""More recordings of an NVIDIA H200: nsys, JAX's CUDA graphs, a comparison of frameworks, energy.

The pair of nsys captures is of tests/tools/gpu/plants.py (`precision`), the runs of workloads. GPT-2 was recorded twice: as JAX
runs it, in CUDA graphs, whose kernels the profiler names after the graph; and with graphs off, where it names the instruction
of each kernel, and so tells what the first must say.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import kernelscope
import kernelscope as ks
from kernelscope.analysis import energy
from kernelscope.analysis.formats.xplane import hlo, schedules
from kernelscope.analysis.formats.xplane import tables as xplane
from kernelscope.analysis.recordings.run import Run
from tests.commands import called

DATA = Path(__file__).parents[1] / "data" / "gpu" / "h200"


@pytest.fixture
def run(tmp_path):
    """Return a function that copies one of the recorded runs, so that its cache is not written beside it."""
    return lambda name: Path(shutil.copytree(DATA / name, tmp_path / name))


def explained(a, b):
    return json.loads(called("explain", a, b, "--format", "json").stdout)


def unpacked(name, folder):
    path = folder / name.removesuffix(".gz")
    path.write_bytes(gzip.decompress((DATA / name).read_bytes()))
    return path


# --- nsys ---------------------------------------------------------------------------------------------------------------------


def test_a_run_under_nsys_has_the_kernels_of_its_file_and_their_layers(run):
    folder = run("lenet-pytorch-nsys")
    trace = Run(folder).trace()
    kernels = trace.kernels[(trace.kernels["device"] != "cpu").to_numpy(bool)]
    assert len(kernels) == 20 * 53  # as PyTorch's profiler and CUPTI count there, too
    layered = kernels["layer"].notna() | (kernels["phase"] == "optimizer")
    assert kernels.loc[layered, "duration_ns"].sum() > 0.99 * kernels["duration_ns"].sum()
    with sqlite3.connect(folder / "kernels" / "1" / "nsys.sqlite") as file:
        counted = file.execute("select count(*), sum(end - start) from CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    every = ks.read(folder / "kernels" / "1" / "nsys.sqlite").kernels
    assert (len(every), int(every["duration_ns"].sum())) == counted
    whole = ks.breakdown(trace, "layer")
    assert int(whole.table["time_ns"].sum()) == whole.step_ns


def test_float32_for_bfloat16_is_named_from_captures_of_nsys(tmp_path):
    said = explained(DATA / "nsys-precision-a.sqlite.gz", DATA / "nsys-precision-b.sqlite.gz")
    first = said["findings"][0]
    assert (first["cause"], first["confidence"]) == ("precision", "high")
    busy = []
    for side in "ab":
        with sqlite3.connect(unpacked(f"nsys-precision-{side}.sqlite.gz", tmp_path)) as file:
            busy.append(file.execute("select sum(end - start) / 5.0 from CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0])
    assert first["explains_ns"] == pytest.approx(busy[1] - busy[0], rel=0.02)  # five steps, one stream
    assert [said[side]["step_ns"] / 1e6 for side in "ab"] == pytest.approx([38.0, 91.0], abs=0.1)
    assert "A computes in bf16, B in tf32 and f32; products and attention (mostly attention) take" in first["title"]
    assert "Flash attention, which A uses, supports 16-bit types only." in first["evidence"]
    assert "6 x fmha_cutlassB_f32_aligned_64x64_k64_sm80 (24.8 ms)" in " ".join(first["evidence"])  # by SQL 124.2 ms in 5 steps


def test_gaps_before_kernels_that_were_launched_in_time_are_the_devices_own():
    """By SQL: of 4.72 ms in gaps of five steps, 3.753953 ms are before work whose launching call had ended when the gap began."""
    path = DATA / "nsys-precision-a.sqlite.gz"
    shown = {part["what"]: part["ns"] for part in kernelscope.advise(path)["parts"]}
    assert shown["between kernels"] == pytest.approx(3_753_953 / 5, rel=0.001)
    assert shown["waiting for the host"] + shown["waiting for copies"] < 0.5e6
    rows = kernelscope.breakdown(path, by="idle").table
    assert rows.set_index("cause")["time_ns"]["device: between kernels"] == pytest.approx(3_753_953 / 5, rel=0.001)


# --- JAX's CUDA graphs --------------------------------------------------------------------------------------------------------


def program(name, folder):
    """Return the kernels of the step's program in the order of their start, and its schedule."""
    path = unpacked(name, folder)
    space = xplane.read_planes(path, ("program_id", "run_id"), ("hlo_op", "hlo_module", "tf_op", "name"))
    events = next(plane.events for plane in space.planes if plane.name == "/device:GPU:0")
    events = events[(events["stat_hlo_module"] == "jit_train_step").to_numpy(bool)].sort_values("start_ns", kind="stable")
    contents = xplane.read_programs(path)
    key = xplane.program_key(contents, "jit_train_step", str(events["stat_program_id"].iloc[0]))
    return events, schedules.Schedule(hlo.parse(contents[key], str(path)))


def test_kernels_of_graphs_have_the_instructions_that_the_profiler_tells_without_graphs(tmp_path):
    told, with_names = program("gpt2-float32-no-graphs.xplane.pb.gz", tmp_path)
    names = told["stat_hlo_op"].astype(str).tolist()
    unnamed = np.full(len(told), -1, dtype=np.int64)
    places = with_names.places(told["name"], unnamed)  # as if it had told none
    assert [with_names.order[place].name for place in places if place >= 0] == [
        name for name, place in zip(names, places, strict=True) if place >= 0
    ]
    kernels = ~told["name"].astype(str).str.startswith("Mem").to_numpy()
    assert (places[kernels] >= 0).all()

    graphs, schedule = program("gpt2-float32-graphs.xplane.pb.gz", tmp_path)
    found = schedule.places(graphs["name"], np.full(len(graphs), -1, dtype=np.int64))
    step = len(graphs) // 10
    mine = [
        (str(name), schedule.order[place].name)
        for name, place in zip(graphs["name"].iloc[:step], found[:step], strict=True)
        if not str(name).lower().startswith("mem")
    ]
    theirs = [(str(name), names[row]) for row, name in enumerate(told["name"].iloc[: len(told) // 5]) if kernels[row]]
    assert len(mine) == 851
    assert mine == theirs


def test_layers_of_a_program_in_graphs_are_known(tmp_path):
    trace = ks.read(unpacked("gpt2-float32-graphs.xplane.pb.gz", tmp_path))
    kernels = trace.kernels
    product = kernels["name"].astype("string").str.startswith("sm90_xmma_gemm").to_numpy(bool)
    assert product.sum() == 10 * (156 - 12)  # of ten steps; 156 products, of which twelve are cutlass's
    assert not kernels.loc[product, "operator"].astype("string").str.startswith("command_buffer").any()


def test_a_loop_of_an_lstm_in_graphs_is_of_its_layer(run):
    trace = Run(run("lstm-jax")).trace()
    kernels = trace.kernels
    rounds = kernels[(kernels["name"] == "loop_add_fusion").to_numpy(bool)]
    assert len(rounds) == 10 * 2 * 28  # forward and backward over 28 time steps share the kernel
    assert set(rounds["layer"]) == {"lstm1"}
    assert rounds["phase"].astype("string").value_counts().to_dict() == {"forward": 280, "backward": 280}
    whole = ks.breakdown(trace, "layer")
    assert whole.coverage > 0.9
    assert int(whole.table["time_ns"].sum()) == whole.step_ns


def test_a_network_that_one_framework_launches_as_graphs_is_slower_where_python_starts_each_operator(run):
    jax, pytorch = run("lstm-jax"), run("lstm-pytorch")
    said, turned = explained(jax, pytorch), explained(pytorch, jax)
    assert [said[side]["step_ns"] / 1e6 for side in "ab"] == pytest.approx([2.0, 2.9], abs=0.1)
    first, *_, last = said["findings"]
    assert "starts every operator from Python; the other side runs a graph" in first["title"]
    assert first["explains_ns"] > said["wall_delta_ns"]  # because JAX's own kernels take longer, and it waits for batches
    assert "jax runs lstm1 cell by cell, pytorch by a fused kernel" in last["title"]
    assert last["explains_ns"] < 0
    assert [one["title"] for one in turned["findings"]] == [one["title"] for one in said["findings"]]


def test_recording_made_no_kernel_of_a_device_longer(run):
    """By SQL on the raw traces: JAX's kernels of a step are busy for 0.78 ms, PyTorch's for 0.27 ms."""
    said = explained(run("lstm-jax"), run("lstm-pytorch"))
    rows = [row for row in said["rows"] if not row["cell"].startswith("(")]
    assert sum(row["a_ns"] for row in rows) / 1e6 == pytest.approx(0.78, abs=0.02)
    assert sum(row["b_ns"] for row in rows) / 1e6 == pytest.approx(0.27, abs=0.02)


def test_advice_on_a_compiled_program_names_its_gpu_and_does_not_say_to_compile_it(run):
    path = run("lstm-jax")
    result = kernelscope.advise(path)
    assert result["hardware"] == "NVIDIA H200"  # which XLA's profiler does not say, but NVML
    first = result["advice"][0]
    assert first["topic"] == "host-bound"
    clean = Run(path).clean_step_ns
    assert result["step_ns"] == clean == sum(part["ns"] for part in result["parts"])  # not the recorded step, 3.96 ms
    assert any("3.96 ms while recorded" in note for note in result["notes"])
    assert "jax.jit" not in first["remedy"]


@pytest.mark.parametrize("name", ["gpt2-float32-graphs", "gpt2-float32-no-graphs"])
def test_a_capture_without_settings_shows_that_the_program_is_jitted_by_how_few_calls_start_its_kernels(name):
    found = kernelscope.advise(DATA / f"{name}.xplane.pb.gz")["advice"]
    bound = next(one for one in found[:2] if one["topic"] == "host-bound")
    assert "jax.jit" not in bound["remedy"]
    assert not any(one["topic"] == "optimizer" for one in found)  # XLA's kernels are one for all operations on a parameter


# --- energy -------------------------------------------------------------------------------------------------------------------


def test_a_step_of_four_updates_of_the_counter_resolves_no_layer_but_layers_alone_have_their_energy(run):
    recorded = Run(run("vgg16-energy"))
    row = next(one for one in energy.steps(recorded) if one.source == "cuda:0")
    assert row.energy_uj / 1e6 == pytest.approx(251, abs=1)
    replays = {one.layer: one for one in energy.replays(recorded)}
    # the mean power above idle, for as long as the layer's kernels take in a step, is near what the layer takes alone
    trace = recorded.trace()
    kernels = trace.kernels[(trace.kernels["device"] != "cpu").to_numpy(bool)]
    steps = int((~trace.steps["warmup"]).sum())
    for layer in ("conv1_2", "conv2_2"):
        lasted = kernels.loc[(kernels["layer"] == layer).to_numpy(bool), "duration_ns"].sum() / steps
        expected = row.net_uj * lasted / row.step_ns
        assert replays[layer].energy_uj == pytest.approx(expected, rel=0.25)
        assert replays[layer].low_uj < replays[layer].energy_uj < replays[layer].high_uj
    split = energy.layers(recorded)
    assert split.rows["energy_uj"].sum() == row.energy_uj
    assert split.rows["energy_uj"].notna().sum() == 1  # a row of what is not resolved


# --- one step for every command -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "step_ms"),
    [("mlp-graph", 1.36), ("gpt-math-attention", 39.37)],  # by plain JSON: from replay to replay, and between the host's marks
)
def test_a_step_behind_work_from_before_is_no_step_for_any_command(name, step_ms):
    path = DATA / f"{name}.pt.trace.json.gz"
    shown = [
        kernelscope.advise(path)["step_ns"],
        json.loads(called("breakdown", path, "--by", "kernel", "--format", "json").stdout)["step_ns"],
        json.loads(called("breakdown", path, "--by", "kernel", "--steps", "auto", "--format", "json").stdout)["step_ns"],
        explained(path, path)["a"]["step_ns"],
    ]
    assert all(one / 1e6 == pytest.approx(step_ms, rel=0.02) for one in shown), shown
    assert not any("from before" in part["what"] for part in kernelscope.advise(path)["parts"])


def test_a_run_on_a_gpu_is_broken_down_without_its_first_step_where_that_takes_far_longer(run):
    """Step 11 takes 11.27 ms, three times as long as most, because recording had begun; the other nine 3.747 on average."""
    path = run("lstm-pytorch")
    assert json.loads(called("breakdown", path, "--by", "kernel", "--format", "json").stdout)["step_ns"] / 1e6 == pytest.approx(
        3.747, abs=0.01
    )


def test_attention_by_parts_is_not_told_to_call_what_it_calls():
    [one] = [
        one for one in kernelscope.advise(DATA / "gpt-math-attention.pt.trace.json.gz")["advice"] if one["topic"] == "attention"
    ]
    assert "falls back to its math backend" in one["remedy"]  # 30 x aten::_scaled_dot_product_attention_math
    topics = {one["topic"] for one in kernelscope.advise(DATA / "gpt-math-attention.pt.trace.json.gz")["advice"]}
    assert "mixed precision" not in topics  # it has 16-bit products: autocast is on
