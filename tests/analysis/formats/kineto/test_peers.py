"""What TensorBoard's profiler plugin (torch-tb-profiler 0.4.3) says of a trace of its samples; see docs/validation/peers.md."""

import pytest

import kernelscope as ks
from kernelscope.analysis import advise
from kernelscope.cli.main import main
from tests.places import CORPUS

TRACE = CORPUS / "kineto/pytorch__kineto__resnet50_nw0_worker0.1623143089861.pt.trace.json.gz"

pytestmark = pytest.mark.skipif(not TRACE.exists(), reason="the corpus of captures is not there")


def test_the_step_and_its_parts_are_those_of_the_plugin():
    result = advise.advise(TRACE)
    parts = {part["what"]: round(part["ns"] / 1e3) for part in result["parts"]}
    assert round(result["step_ns"] / 1e3) == 177_592
    assert (parts["computing"], parts["copying alone"]) == (98_589, 1_915 + 89)
    assert parts["waiting for input"] == pytest.approx(59_262, rel=0.01)


def test_the_longest_kernels_are_those_of_the_plugin():
    table = ks.breakdown(TRACE, "kernel").table
    longest = table[table["count"] > 0].groupby("kernel")["duration_ns"].sum().nlargest(2)
    assert (longest // 1000).to_list() == [80_756, 66_472]
    assert [name.partition("<")[0] for name in longest.index] == [
        "void cudnn::detail::dgrad_engine",
        "void cudnn::cnn::wgrad_alg0_engine",
    ]


def test_its_two_recommendations_come_first():
    first, second = advise.advise(TRACE)["advice"][:2]
    assert (first["title"], second["title"]) == ("the step waits for its batch", "products are computed in 32-bit types")
    assert first["saves_ns"] / 177_592_167 == pytest.approx(0.334, abs=0.005)


def test_kernels_whose_problems_have_rows_of_their_own_are_told_by_name(capsys):
    """By what the plugin adds up: 80,756 µs of six steps are 13.5 ms a step."""
    assert main(["breakdown", str(TRACE), "--by", "kernel", "--rows", "3"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "most by name: cudnn::detail::dgrad_engine 13.5 ms in 10 rows, " in said
    assert main(["breakdown", str(TRACE), "--by", "kernel", "--group", "kernel", "--rows", "3"]) == 0
    assert "most by name" not in capsys.readouterr().out
