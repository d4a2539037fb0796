"""Logs of npu-prof: the numbers are those of the log, counted without the reader."""

import csv

import pytest

import kernelscope as ks
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats import detect

LOG = """# npu-prof 2.1 device=npu0
call,1,0,800,11,npuLaunchKernel
kernel,1,1000,5000,3,gemm_f16_128x128
call,2,900,1300,11,npuLaunchKernel
kernel,2,5200,5700,3,relu_f16
call,3,5800,6400,11,npuSynchronize
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "run.npulog"
    path.write_text(LOG)
    return path


def test_the_format_is_recognised_by_its_content(log):
    assert detect(log).name == "npuprof"


def test_times_are_those_of_the_log(log):
    trace = ks.read(log)
    rows = [row for row in csv.reader(LOG.splitlines()[1:]) if row[0] == "kernel"]
    assert trace.kernels["name"].tolist() == [row[5] for row in rows]
    assert trace.kernels["start_ns"].tolist() == [int(row[2]) + 1 for row in rows]  # 0 would be no time
    assert trace.kernels["duration_ns"].sum() == sum(int(row[3]) - int(row[2]) for row in rows)
    assert trace.kernels["device"].unique().tolist() == ["npu0"]


def test_kernels_know_their_launch_and_their_kind(log):
    kernels = ks.read(log).kernels
    assert kernels["launch_ns"].tolist() == [1, 901]
    assert kernels["launch_thread"].tolist() == [11, 11]
    assert kernels["kind"].tolist() == ["gemm", "activation"]


def test_no_kernel_of_a_long_log_is_lost(log):
    rows = [f"kernel,{number},{number * 10},{number * 10 + 5},3,{'nan' if number else 'first'}" for number in range(200)]
    log.write_text("\n".join([LOG.splitlines()[0], *rows]) + "\n")
    trace = ks.read(log)
    assert trace.kernels["name"].value_counts().to_dict() == {"nan": 199, "first": 1}
    assert trace.kernels["start_ns"].notna().all()
    assert not any(trace.diagnostics.values())


def test_breakdowns_add_up(log):
    table = ks.breakdown(log, "kernel").table
    assert table["time_ns"].sum() == 6400


def test_a_damaged_line_is_refused_in_one_line(log):
    log.write_bytes(LOG.replace("5200", "soon").encode() + b"\xff")
    with pytest.raises(EvidenceError, match=r"run\.npulog: a line is damaged") as refused:
        ks.read(log)
    assert "\n" not in str(refused.value)
