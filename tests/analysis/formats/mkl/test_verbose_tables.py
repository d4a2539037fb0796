"""MKL_VERBOSE lines of MKL 2018 to oneMKL 2025."""

import re
from decimal import Decimal

import pandas as pd
import pytest

from kernelscope.analysis.files import stream
from kernelscope.analysis.formats.mkl import verbose_tables as mkl_verbose
from kernelscope.analysis.trace import KINDS
from tests import places
from tests.places import ROOT

DATA = ROOT / "tests" / "data"
CORPUS = places.CORPUS / "onednn" / "excerpt__docs__MKL_VERBOSE_three_builds.log"
FILES = [DATA / "mkl" / "cntk_lenet.txt", DATA / "mkl" / "pytorch_functions.txt", DATA / "onednn" / "pytorch_lenet.txt"]
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@pytest.mark.parametrize("path", FILES + ([CORPUS] if CORPUS.is_file() else []), ids=lambda path: path.stem)
def test_counts_and_sums_are_those_of_the_file(path):
    expected, total = [], 0
    for line in path.read_text().splitlines():
        if line.startswith("MKL_VERBOSE ") and " CNR:" in line:
            words = line.split(" CNR:")[0].split()
            expected.append(words[1].split("(")[0])
            value, unit = re.fullmatch(r"([\d.]+)([a-z]+)", words[-1]).groups()
            total += round(Decimal(value) * UNITS[unit])
    table = mkl_verbose.parse(stream.split(path).mkl)
    assert table["function"].tolist() == expected
    assert int(table["duration_ns"].sum()) == total
    assert table.attrs["parse_failures"] == 0
    assert set(table["kind"]) <= set(KINDS)


def test_a_product():
    row = mkl_verbose.parse(stream.split(FILES[0]).mkl).iloc[0]
    assert (row["line_number"], row["function"], row["kind"], row["dtype"]) == (2, "SGEMM", "gemm", "f32")
    assert (row["m"], row["n"], row["k"], row["batch"], row["transpose"]) == (120, 64, 400, 1, "NN")
    assert row["problem"] == "m120 n64 k400"
    assert row["flops"] == 2 * 120 * 64 * 400
    assert (row["duration_ns"], row["threads"], row["thread_number"]) == (419_880, 2, 0)


def _one(call, time="1.00us"):
    table = mkl_verbose.parse(stream.split([f"MKL_VERBOSE {call} {time} CNR:OFF Dyn:0 FastMM:1 TID:3  NThr:8"]).mkl)
    assert len(table) == 1
    return table.iloc[0]


@pytest.mark.parametrize(
    ("call", "kind", "dtype", "problem"),
    [
        ("DGEMM(T,N,12,10,8,0x7f,0x1b,8,0x1c,8,0x7f,0x7e,12)", "gemm", "f64", "m12 n10 k8"),
        ("SGEMM_BATCH_STRIDED(N,T,4,5,6,0x7f,0x1b,4,24,0x1c,5,30,0x7f,0x7e,4,20,7)", "gemm", "f32", "m4 n5 k6 batch7"),
        ("SGEMM_BATCH(N,N,0x1,0x2,0x3,0x4,0x5,0x6,0x7,0x8,0x9,0xa,0xb,0xc,0xd)", "gemm", "f32", None),
        ("SGEMM_COMPUTE(P,N,4,5,6,0x1,4,0x2,6,0x3,0x4,4)", "gemm", "f32", "m4 n5 k6"),
        ("GEMM_BF16BF16F32(N,N,4,5,6,0x1,0x2,4,0x3,6,0x4,0x5,4)", "gemm", "bf16", "m4 n5 k6"),
        ("CGEMM(N,N,5,3,4,0x7f,0x56,5,0x56,4,0x7f,0x56,5)", "gemm", "c64", "m5 n3 k4"),
        ("SGEMV(t,40,30,0x7f,0x56,40,0x56,1,0x7f,0x56,1)", "gemm", "f32", "m30 n1 k40"),
        ("SGER(5,6,0x1,0x2,1,0x3,1,0x4,5)", "gemm", "f32", "m5 n6 k1"),
        ("SAXPY(2400,0x7f,0x55,1,0x55,1)", "elementwise", "f32", "n2400"),
        ("SAXPBY(64,0x7f,0x7f,0,0x7f,0x55,1)", "elementwise", "f32", "n64"),
        ("SCOPY(64,0x7f,1,0x55,1)", "copy", "f32", "n64"),
        ("ISAMAX(64,0x7f,1)", "reduction", "f32", "n64"),
        ("DZNRM2(64,0x7f,1)", "reduction", "c128", "n64"),
        ("DDOT(100,0x56,1,0x56,1)", "reduction", "f64", "n100"),
        ("SPOTRF(L,4,0x56,4,0)", "unknown", "f32", None),
        ("FFT(srfo64,input_strides:{0,1},output_strides:{0,1},tLim:1,desc:0x56)", "unknown", None, None),
    ],
)
def test_functions(call, kind, dtype, problem):
    row = _one(call)
    assert row["kind"] == kind
    assert (row["dtype"], row["problem"]) == (dtype, problem) or (
        row.isna()["dtype"] == (dtype is None) and row.isna()["problem"] == (problem is None)
    )


@pytest.mark.parametrize(
    ("text", "ns"), [("831.00ns", 831), ("41.32us", 41_320), ("14.75ms", 14_750_000), ("1.02s", 1_020_000_000)]
)
def test_units(text, ns):
    assert _one("SSCAL(8,0x1,0x2,1)", text)["duration_ns"] == ns


@pytest.mark.parametrize("text", ["**1.50us**", "**1.50 us**"])
def test_times_that_were_made_bold_are_times(text):
    row = _one("SGEMM(N,N,4,5,6,0x1,0x2,4,0x3,6,0x4,0x5,4)", text)
    assert (row["duration_ns"], row["threads"], row["problem"]) == (1500, 8, "m4 n5 k6")


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("SGEMM_BATCH(N,N,0x7ffcdacca2fc,0x7ffcdacca300,0x7", None),
        ("SGEMM_BATCH_STRIDED(N,T,4,5,6,0x7f,0x1b,4,24,0x1c,5,30,0x7f,0x7e,4,2", "m4 n5 k6"),
        ("SGEMM(N,T,4,5,", None),
    ],
)
@pytest.mark.parametrize("time", ["22.83us", "**22.83us**"])
def test_lists_of_arguments_that_mkl_cut_do_not_hide_the_time(call, problem, time):
    row = _one(call, time)
    assert (row["kind"], row["dtype"], row["duration_ns"], row["threads"]) == ("gemm", "f32", 22_830, 8)
    assert (None if pd.isna(row["problem"]) else row["problem"]) == problem
    assert pd.isna(row["flops"])


@pytest.mark.parametrize("text", ["SGEMM(N,N,4,0x1 1.50us NThr:8", "SGEMM(N,N,4 5,0x1 1.50us CNR:OFF", "SGEMM 1.50us CNR:OFF"])
def test_other_cut_calls_are_counted_as_unreadable(text):
    table = mkl_verbose.parse(stream.split([f"MKL_VERBOSE {text}"]).mkl)
    assert (len(table), table.attrs["parse_failures"]) == (0, 1)


@pytest.mark.parametrize("text", ["**1.50us", "1.50us**", "*1.50us*", "**1.50** us", "** **", "****"])
def test_other_marks_around_a_time_are_counted_as_unreadable(text):
    table = mkl_verbose.parse(stream.split([f"MKL_VERBOSE SSCAL(8,0x1,0x2,1) {text} CNR:OFF NThr:8"]).mkl)
    assert (len(table), table.attrs["parse_failures"]) == (0, 1)


def test_what_cannot_be_read_is_counted_with_its_lines():
    table = mkl_verbose.parse(
        stream.split(
            [
                "MKL_VERBOSE oneMKL 2024.0 Update 2 Product build 20240605 for Intel(R) 64 architecture, Lnx lp64 gnu_thread",
                "step 1MKL_VERBOSE SSCAL(8,0x1,0x2,1) 8.06us CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:2 WDiv:HOST:+0.000",
                "MKL_VERBOSE SGEMM(N,N,4,5,6,0x1",
                "MKL_VERBOSE",
            ]
        ).mkl
    )
    assert table["line_number"].tolist() == [2]
    assert table.attrs["parse_failures"] == 1
    assert table.attrs["failed_lines"] == [3]
    assert table.attrs["other_lines"] == 1


def test_headers(tmp_path):
    assert mkl_verbose.header_of(stream.split(FILES[0]).mkl["text"]) == "Intel(R) MKL 2018.0 Update 3 Product build 20180406"
    assert mkl_verbose.header_of(stream.split(FILES[2]).mkl["text"]) == "oneMKL 2024.0 Update 2 Product build 20240605"
    (tmp_path / "none").write_text("nothing\n")
    assert mkl_verbose.header_of(stream.split(tmp_path / "none").mkl["text"]) is None
    assert list(mkl_verbose.parse(stream.split(tmp_path / "none").mkl).columns) == list(
        mkl_verbose.parse(stream.split(FILES[0]).mkl).columns
    )
