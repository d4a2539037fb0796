"""Tables of Ascend NPUs' work as CSV, counted again with Python's own parser."""

import csv
from decimal import Decimal

import pytest

import kernelscope as ks
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import captures
from tests.places import CORPUS

PATH = CORPUS / "more" / (
    "Ascend__msinsight__server_src_test_test_data_test_rank_0_ASCEND_PROFILER_OUTPUT_kernel_details.csv"
)  # fmt: skip


def test_a_public_table_counted_again():
    if not PATH.exists():
        pytest.skip("needs ../shared/corpus")
    lines = list(csv.reader(PATH.read_text().splitlines()))
    width = len(lines[0])
    rows = [dict(zip(lines[0], line, strict=True)) for line in lines[1:] if len(line) == width]
    trace = ks.read(PATH)
    assert len(trace.kernels) == len(rows) == 20
    assert trace.diagnostics == {"lines that cannot be read": len(lines) - 1 - len(rows)}
    assert trace.kernels["duration_ns"].sum() == sum(round(Decimal(row["Duration(us)"]) * 1000) for row in rows)
    assert sorted(trace.kernels["start_ns"]) == sorted(round(Decimal(row["Start Time(us)"]) * 1000) for row in rows)
    assert (trace.kernels["library"] == "hccl").sum() == sum(row["Accelerator Core"] == "HCCL" for row in rows)
    assert set(trace.kernels["step"]) == {2}
    assert set(trace.kernels["device"]) == {"npu"}  # the table does not number it


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (
            "Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),"
            "Wait Time(us)",
            '3,1,4294967295,30,46,mm,MatMulV3,dynamic,AI_CORE,"1695115378713661.123\t",10.5,0',
        ),
        (
            "Device_id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Task Wait Time(us),Block Num,Stream ID",
            "1,mm,MatMulV3,AI_CORE,1695115378713661.123,10.5,0,24,46",
        ),
        (
            "Model Name,Device_id,Stream ID,Op Name,OP Type,Task Type,Task Start Time,Task Duration(us),Block Dim",
            "N/A,1,46,mm,MatMulV3,AI_CORE,1695115378713661123,10.5,24",
        ),
        (
            "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)",
            "1,mm,AI_CORE,46,3,10.5,1695115378713661.123,1695115378713671.623",
        ),
    ],
)
def test_columns_of_all_versions(tmp_path, header, row):
    path = tmp_path / "table.csv"
    path.write_text(f"{header}\n{row}\n")
    kernel = ks.read(path).kernels.iloc[0]
    assert (kernel["name"], kernel["device"], kernel["thread"], kernel["library"]) == ("mm", "npu:1", 46, "cann")
    assert kernel["kind"] == ("gemm" if "MatMulV3" in row else "unknown")
    assert (kernel["start_ns"], kernel["duration_ns"]) == (1695115378713661123, 10500)


def test_totals_have_no_times(tmp_path):
    path = tmp_path / "op_statistic.csv"
    path.write_text(
        "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
        "0,Cast,AI_VECTOR_CORE,240,23077.4,1.18,96.155,2708.32,10.561\n0,BatchMatMulV3,AI_CORE,45,19941.5,1,2,3,9\n"
    )
    trace = ks.read(path)
    assert list(trace.kernels["count"]) == [240, 45]
    assert list(trace.kernels["duration_ns"]) == [23_077_400, 19_941_500]
    assert trace.kernels["start_ns"].isna().all()
    assert list(trace.kernels["kind"]) == ["cast", "gemm"]


def test_a_header_alone_is_refused(tmp_path):
    path = tmp_path / "kernel_details.csv"
    path.write_text("Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us)\n1,a,b,AI_CORE,N/A,N/A\n")
    said = r"kernel_details\.csv, line 1: none of the table's 1 rows has a readable name and times .*; the first: name 'a', start"
    with pytest.raises(EvidenceError, match=said):
        ks.read(path)
    path.write_text("Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us)\n")
    with pytest.raises(EvidenceError, match=r"kernel_details\.csv, line 1: no row below the table's header; export it again"):
        ks.read(path)


def test_rows_below_zero_are_left_out_and_told_by_every_command(tmp_path):
    path = tmp_path / "table.csv"
    header = "Name,Type,Accelerator Core,Start Time(us),Duration(us)\n"
    path.write_text(header + "a,Mm,AI_CORE,5,2\nb,Mm,AI_CORE,8,-2\nc,Mm,AI_CORE,9,1.5\n")
    trace = captures.read(path)
    assert trace.kernels[["name", "duration_ns"]].values.tolist() == [["a", 2000], ["c", 1500]]
    assert captures.lost(trace) == {"rows without a name or a usable time": 1}
    path.write_text("OP Type,Core Type,Count,Total Time(us)\nCast,AI_CORE,2,3\nMm,AI_CORE,2,-3\nAdd,AI_CORE,0,3\n")
    trace = captures.read(path)
    assert trace.kernels[["name", "duration_ns"]].values.tolist() == [["Cast", 3000]]
    assert captures.lost(trace) == {"rows without a name, a count or a usable time": 2}


def test_durations_in_milliseconds(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("Name,Type,Accelerator Core,Start Time(us),Duration(ms)\na,Mm,AI_CORE,1695115378713661.123,2.5\n")
    assert ks.read(path).kernels[["start_ns", "duration_ns"]].values.tolist() == [[1695115378713661123, 2_500_000]]


def test_tables_of_others_are_none(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("Name,Type,Start Time(us),Duration(us)\na,b,1,2\n")
    with pytest.raises(EvidenceError, match="no capture of a known format"):
        ks.read(path)
