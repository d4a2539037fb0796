"""Captures of other jobs among those of one, and one capture as two ranks."""

import gzip
from dataclasses import replace

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.ranks import one_job
from kernelscope.analysis.ranks.job import job
from kernelscope.analysis.ranks.recording import RankRecording
from kernelscope.cli.main import main
from tests.places import corpus

HOUR = 3_600_000_000_000
ONE = RankRecording(
    path="a.json", rank=0, told_by="its name", world=None, device="cuda:0", hardware="NVIDIA A100", steps=1, step_ns=10,
    window_ns=(0, 10), parts={}, warnings=(), table={}.__getitem__, framework="pytorch", tool="torch.profiler", clock="wall",
)  # fmt: skip
MI250 = "kineto/facebookresearch__HolisticTraceAnalysis__amd_trace_mi250_minitoy_train_ROCm6_2_kineto.json.gz"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"framework": "mxnet"}, "runs mxnet, and a.json runs pytorch"),
        ({"tool": "nvprof"}, "was recorded with nvprof, and a.json with torch.profiler"),
        ({"device": "rocm:0"}, "computes on rocm devices, and a.json on cuda devices"),
        ({"window_ns": (3 * HOUR, 3 * HOUR + 10)}, "begins 3.0 hours after a.json ends"),
    ],
)
def test_another_job_is_refused(changed, said):
    with pytest.raises(EvidenceError) as error:
        one_job.check([ONE, replace(ONE, path="b.json", **changed)])
    assert str(error.value) == f"b.json: {said}: they are not from one job; name captures of one job"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"hardware": "NVIDIA H100"}, "ranks compute on different hardware: NVIDIA A100 (1), NVIDIA H100 (1); unless"),
        ({"window_ns": (HOUR // 6, HOUR)}, "b.json begins 10 minutes after a.json ends: clocks differ, or"),
    ],
)
def test_what_may_be_one_job_is_told(changed, said):
    (note,) = one_job.check([ONE, replace(ONE, path="b.json", **changed)])
    assert note.startswith(said)


@pytest.mark.parametrize(
    "changed", [{"framework": None}, {"tool": None}, {"device": "cpu"}, {"clock": None, "window_ns": (HOUR * 9, HOUR * 9)}]
)
def test_what_is_not_known_makes_no_difference(changed):
    assert not one_job.check([ONE, replace(ONE, **changed)])


def test_captures_of_two_tools_are_no_job(capsys):
    assert main(["ranks", str(corpus(MI250)), str(corpus("nvprof/esarmstrong__ece408__timeline.nvprof"))]) == 3
    assert "runs mxnet, and" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["unpacked", "exported"])
def test_one_capture_is_not_two_ranks(how, tmp_path):
    one, other = tmp_path / "rank0.json.gz", tmp_path / "rank1.json"
    one.write_bytes(corpus(MI250).read_bytes())
    if how == "unpacked":
        other.write_bytes(gzip.decompress(one.read_bytes()))
    else:
        assert main(["export", str(one), "--format", "chrome", "-o", str(other)]) == 0
    with pytest.raises(
        EvidenceError, match=r"1 can be compared; rank1\.json is left out: the same work at the same times as rank0"
    ):
        job([one, other], workers=1)
