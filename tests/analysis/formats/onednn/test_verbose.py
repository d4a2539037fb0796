"""Verbose streams: every number recomputed from the lines with str methods and Decimal, for all versions of the line."""

import gzip
import re
from collections import defaultdict
from contextlib import suppress
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head, read_head
from kernelscope.analysis.formats.onednn import verbose
from kernelscope.analysis.recordings import captures
from tests.places import ROOT

CORPUS = ROOT.parent / "shared/corpus/onednn"
DATA = ROOT / "tests/data"
NAMES = (
    "Sauravrp67__UniYOLO__dnnl.log", "excerpt__docs__MKL_VERBOSE_three_builds.log",
    "excerpt__docs__mkldnn_v0.21.1_verbose2_pytorch.log", "excerpt__uxlfoundation__oneDNN_issue832_dnnl_v1.6.log",
)  # fmt: skip
OURS = [
    *sorted((DATA / "onednn").glob("*.txt")),
    *sorted((DATA / "mkl").glob("*.txt")),
    *sorted((DATA / "cntk").glob("*/stdout.raw")),
]
UNITS = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}


def whole(nanoseconds):
    return int(nanoseconds.quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


def executions(path):
    """Return ({description: [count, ns]} of lines without a stamp, [(start, ns)] of those with one)."""
    untimed, timed = defaultdict(lambda: [0, 0]), []
    for line in path.read_text("utf8").split("\n"):
        at = line.find("MKL_VERBOSE ")
        if at >= 0 and re.match(r"MKL_VERBOSE (?!Intel)\w+\(", line[at:]):
            call, rest = line[at + 12 :].rsplit(") ", 1)
            value, unit = re.match(r"([\d.]+)(\w+)", rest).groups()
            entry = untimed[re.sub("0x[0-9a-f]+", "*", call)]
            entry[0], entry[1] = entry[0] + 1, entry[1] + whole(Decimal(value) * UNITS[unit])
        for prefix in ("onednn_verbose,", "mkldnn_verbose,", "dnnl_verbose,"):
            at = line.find(prefix)
            fields = line[at:].split(",") if at >= 0 else []
            if "exec" in fields[:5] and "graph" not in fields[:4]:
                place = fields.index("exec")
                stamp = next((field for field in fields[1:place] if field[0].isdigit()), None)
                duration = whole(Decimal(fields[-1].strip()) * 10**6)
                if stamp:
                    timed.append((int(Decimal(stamp) * 10**6), duration))
                else:
                    entry = untimed[",".join(fields[place + 1 : -1])]
                    entry[0], entry[1] = entry[0] + 1, entry[1] + duration
    return untimed, timed


def check(path):
    untimed, timed = executions(path)
    assert untimed or timed
    trace = verbose.read(path)
    trace.check()
    kernels = trace.kernels
    own = kernels[kernels["start_ns"].notna()]
    assert list(zip(own["start_ns"], own["duration_ns"], strict=True)) == timed
    assert (own["end_ns"] - own["start_ns"] == own["duration_ns"]).all()
    sums = kernels[kernels["start_ns"].isna()]
    assert sorted(zip(sums["count"], sums["duration_ns"], strict=True)) == sorted(map(tuple, untimed.values()))
    assert trace.info["clock"] == ("wall" if timed else "none")
    assert kernels["thread"].isna().all()
    return trace


@pytest.mark.parametrize("name", NAMES)
def test_lines_of_the_corpus(name):
    path = CORPUS / name
    if not path.exists():
        pytest.skip("streams of other people: needs ../shared/corpus")
    trace = check(path)
    assert trace.diagnostics == {}
    assert (trace.kernels["kind"] != "unknown").all()


@pytest.mark.parametrize("path", OURS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_lines_of_this_project(path):
    check(path)


def test_creating_primitives_is_no_execution():
    path = CORPUS / "excerpt__uxlfoundation__oneDNN_issue832_dnnl_v1.6.log"
    if not path.exists():
        pytest.skip("a stream of other people: needs ../shared/corpus")
    totals = verbose.read(path).totals
    assert totals[["table", "name", "count", "duration_ns"]].values.tolist() == [
        ["calls", "create:cache_miss convolution", 1, 573975]
    ]


CONVOLUTION = "mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3"
NEW = "src:f32::blocked:abcd::f0 wei:f32::blocked:abcd::f0"
OLD = "src_f32::blocked:abcd:f0 wei_f32::blocked:abcd:f0"
FIRST = "convolution,jit:avx2,forward_training"
LAST = f"alg:convolution_direct,{CONVOLUTION},1.5"
VERSIONS = {
    "0.x": f"mkldnn_verbose,exec,{FIRST},fsrc:nchw fwei:oihw fbia:x fdst:nchw,{LAST}",
    "1.x": f"dnnl_verbose,exec,cpu,{FIRST},{OLD},,{LAST}",
    "2.x": f"onednn_verbose,exec,cpu,{FIRST},{OLD},attr-scratchpad:user ,{LAST}",
    "3.0": f"onednn_verbose,primitive,exec,cpu,{FIRST},{OLD},,{LAST}",
    "3.x": f"onednn_verbose,v1,primitive,exec,cpu,{FIRST},{NEW},,{LAST}",
}


def read(tmp_path, content):
    path = tmp_path / "stream"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert verbose.matches(read_head(path))
    trace = verbose.read(path)
    trace.check()
    return trace


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_the_line_tells_the_same(tmp_path, version):
    kernel = read(tmp_path, f"epoch 1\n{VERSIONS[version]}\r\nepoch 2: {VERSIONS[version]}\n").kernels.iloc[0]
    assert kernel[["name", "kind", "phase", "algorithm", "problem", "device", "library"]].tolist() == [
        "convolution jit:avx2", "convolution forward", "forward", "direct", CONVOLUTION, "cpu", "onednn",
    ]  # fmt: skip
    assert kernel[["count", "duration_ns"]].tolist() == [2, 3_000_000]


def test_timed_lines_are_kernels_one_by_one_and_others_stay_summed(tmp_path):
    stamped = VERSIONS["3.x"].replace("v1,", "v1,1700000000000.123456,")
    trace = read(tmp_path, "\n".join([stamped, VERSIONS["3.x"], "MKL_VERBOSE SGEMM(N,T,2,3,4,0x1,0x2) 1.5us NThr:2", ""]))
    assert trace.kernels["start_ns"].fillna(0).tolist() == [1_700_000_000_000_123_456, 0, 0]
    assert trace.info["clock"] == "wall"
    assert trace.info["unavailable"]["timeline"].startswith("2 of 3 lines have no timestamp")


def test_a_compressed_stream_and_one_of_powershell_read_the_same(tmp_path):
    text = f"{VERSIONS['2.x']}\nMKL_VERBOSE SDOT(50,0x5,1) 3.16ms CNR:OFF\n"
    plain = read(tmp_path, text).kernels
    assert read(tmp_path, gzip.compress(text.encode())).kernels.equals(plain)
    assert read(tmp_path, text.replace("\n", "\r\n").encode("utf-16")).kernels.equals(plain)


def test_what_is_damaged_is_counted(tmp_path):
    lines = [
        VERSIONS["3.x"], VERSIONS["3.x"].replace(",1.5", ",1e300"), VERSIONS["3.x"][:60],
        "MKL_VERBOSE SGEMM(N,T", "MKL_VERBOSE X(1) 9e99s",
        "MKL_VERBOSE SDOT(99999999999999999999,1) 1us", VERSIONS["3.x"].replace("ic3oc64", "ic3oc" + "9" * 5000),
    ]  # fmt: skip
    trace = read(tmp_path, "\n".join([*lines, ""]))
    assert trace.diagnostics == {"unreadable oneDNN lines": 2, "unreadable MKL lines": 2}
    assert len(trace.kernels) == 3


def test_a_stream_without_such_lines_is_refused(tmp_path):
    path = tmp_path / "stream"
    path.write_text("nothing\n")
    with pytest.raises(EvidenceError, match="no verbose line") as raised:
        verbose.read(path)
    assert str(path) in str(raised.value)


@settings(deadline=None, max_examples=15)
@given(st.data())
def test_whatever_lines_hold_nothing_but_evidence_errors_escape(tmp_path_factory, data):
    line = st.sampled_from([*VERSIONS.values(), "MKL_VERBOSE SGEMM(N,T,2,3,4,0x1) 1.5us", "x"])
    changes = st.lists(
        st.tuples(st.integers(0, 200), st.sampled_from(["9" * 30, ",", ":", "é", "", "\r", "x²x", "1e9"])), max_size=4
    )
    text = "MKL_VERBOSE oneMKL 1\n"
    for made, edits in data.draw(st.lists(st.tuples(line, changes), max_size=4)):
        for at, new in edits:
            made = made[:at] + new + made[at + len(new) :]
        text += made + "\n"
    path = tmp_path_factory.mktemp("made") / "stream"
    path.write_text(text, "utf8")
    assert verbose.matches(Head(path, text.encode()))
    with suppress(EvidenceError):  # where no line of an execution can be read
        verbose.read(path).check()


def test_lines_that_end_before_the_duration_are_told(tmp_path):
    trace = read(tmp_path, VERSIONS["2.x"].removesuffix(",1.5") + "\n" + VERSIONS["2.x"] + "\n")
    assert trace.kernels["duration_ns"].tolist() == [1_500_000]
    assert trace.diagnostics == captures.lost(trace) == {"oneDNN lines that end before the duration": 1}


@pytest.mark.parametrize("time", ["-1.5", "nan", "1e400"])
def test_a_stream_of_which_no_execution_can_be_read_is_refused_with_the_first(tmp_path, time):
    line = VERSIONS["2.x"].replace(",1.5", f",{time}")
    call = f"MKL_VERBOSE SGEMM(N,N,1,2,3,0x7,0x7,1,0x7,2,0x7,0x7,3) {time}us CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:4"
    for text, count in ((f"epoch 1\n{line}\n{line}\n", 2), (f"MKL_VERBOSE Intel(R) MKL 2020.0\n{call}\n", 1)):
        with pytest.raises(EvidenceError, match=rf"stream, line 2: none of {count} lines of executions has"):
            read(tmp_path, text)


def test_partitions_of_graphs_are_totals_beside_their_primitives(tmp_path):
    partition = "exec,gpu,100002,sdp,matmul_qk;softmax,,in0_f16:1:strided:undef:1x16:16s1,fpm:strict,sdp_kernel_t,dnnl_backend"
    trace = read(tmp_path, f"onednn_verbose,v1,graph,{partition},0.5\nonednn_verbose,graph,{partition},0.25\n{VERSIONS['3.x']}\n")
    assert trace.totals[["table", "name", "count", "duration_ns", "min_ns", "max_ns"]].values.tolist() == [
        ["operators", "sdp matmul_qk;softmax", 2, 750_000, 250_000, 500_000],
    ]
    assert trace.kernels["duration_ns"].tolist() == [1_500_000]


def test_devices_are_those_that_ran_something(tmp_path):
    lines = [
        "onednn_verbose,info,gpu,engine,0,backend:Level Zero,name:Intel(R) Iris(R) Xe,driver_version:1.3.0",
        "onednn_verbose,info,cpu,isa:Intel AVX2",
        VERSIONS["2.x"].replace(",cpu,", ",gpu:0,"),
    ]
    assert read(tmp_path, "\n".join([*lines, ""])).info["devices"] == [{"device": "gpu:0", "name": "Intel(R) Iris(R) Xe"}]
    lines.append(VERSIONS["0.x"])
    assert read(tmp_path, "\n".join([*lines, ""])).info["devices"] == [
        {"device": "cpu", "name": "Intel AVX2"}, {"device": "gpu:0", "name": "Intel(R) Iris(R) Xe"},
    ]  # fmt: skip
