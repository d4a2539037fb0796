"""JAX, Keras on its backends, and oneDNN without a framework: compared for real, end to end."""

import json
import subprocess
import sys

import pytest

import kernelscope as ks
from kernelscope.workloads import networks

pytestmark = [pytest.mark.slow, pytest.mark.long]

COMMAND = [sys.executable, "-m", "kernelscope.cli.main"]
SIDES = {"train": ("jax", "keras-torch"), "infer": ("onednn", "keras")}
OPTIONS = ["--device", "cpu", "--warmup", 3, "--repeats", 1]


def kernelscope(*arguments):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=900, check=False)


@pytest.fixture(scope="module", params=["train", "infer"])
def compared(request, tmp_path_factory):
    """One real comparison: (folder, mode, compare.json, what was printed)."""
    mode = request.param
    folder = tmp_path_factory.mktemp("more") / mode
    # a step of one image takes some 500 µs: of few, whatever disturbs one would be a large share
    batch, steps = (1, 60) if mode == "infer" else (64, 5)
    done = kernelscope(
        "compare",
        "lenet",
        "-f",
        ",".join(SIDES[mode]),
        "--mode",
        mode,
        "--batch",
        batch,
        "--steps",
        steps,
        *OPTIONS,
        "-o",
        folder,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return folder, mode, json.loads((folder / "compare.json").read_text()), done.stdout


def test_it_is_the_same_work(compared):
    _, mode, result, _ = compared
    assert result["frameworks"] == list(SIDES[mode])
    assert result["fairness"]["failed"] is False
    passed = [row for row in result["fairness"]["rows"] if row["status"] == "pass"]
    assert len(passed) == len(SIDES[mode]) * (4 if mode == "train" else 3)


def test_tables_add_up_and_layers_are_covered(compared):
    folder, mode, result, _ = compared
    computing = {layer.name for layer in networks.get("lenet").layers if layer.parameters}
    for side in SIDES[mode]:
        for by in ("layer", "kernel", "kind", "idle"):
            envelope = ks.breakdown(ks.read(folder / side), by).as_dict()
            assert sum(row["time_ns"] for row in envelope["rows"]) == envelope["step_ns"]
            if by == "layer":
                assert envelope["coverage"] >= 0.85, side
                assert computing <= {row["layer"] for row in envelope["rows"]}
    clean = {row["framework"]: row["step_median_ns"] for row in result["summary"]}
    for table in ("layers", "kinds"):
        for side in SIDES[mode]:
            assert sum(row["time_ns"][side] or 0 for row in result[table]) == clean[side]


def test_differences_are_explained_and_lines_of_code_stand_beside_them(compared):
    _, mode, result, printed = compared
    assert len(result["explanations"]) == len(SIDES[mode]) - 1
    lines = {row["framework"]: row["lines_of_code"] for row in result["summary"]}
    assert "lines of code" in printed
    if mode == "infer":
        assert lines["keras"] < lines["onednn"]
    else:
        assert lines["keras-torch"] < lines["jax"]


def test_each_says_what_it_ran_on(compared):
    _, mode, result, _ = compared
    versions, settings = result["versions"], result["settings"]
    if mode == "infer":
        assert versions["onednn"]["onednn"].startswith("3.")
        assert settings["onednn"]["execution"] == "primitives one by one"
        assert result["framework_of"]["keras"] == "keras-tensorflow"
    backends = {"onednn": None, "jax": None, "keras": "tensorflow", "keras-torch": "torch"}
    for side in SIDES[mode]:
        assert settings[side].get("backend") == backends[side]
        assert ("keras" in versions[side]) == side.startswith("keras")


def test_what_a_library_does_not_have_is_refused_in_one_line(tmp_path):
    done = kernelscope("run", "lenet", "-f", "onednn", *OPTIONS, "-o", tmp_path / "run")
    assert done.returncode == 4
    assert "it only runs inference of lenet; give --mode infer" in done.stderr
    assert "Traceback" not in done.stderr
