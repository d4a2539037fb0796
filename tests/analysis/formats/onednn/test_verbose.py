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
from tests import places
from tests.places import ROOT

CORPUS = places.CORPUS / "onednn"
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


def comma(line):
    """Return a line as it is printed in a locale with decimal commas."""
    return re.sub(r"(\d)\.(\d+)(?=,primitive,|,exec,|,graph,|(?:e-\d+)?$)", r"\1,\2", line)


STAMP = "onednn_verbose,v1,1678917979730.25,primitive"
LOCAL = (
    VERSIONS["3.x"].replace("onednn_verbose,v1,primitive", STAMP).replace("1.5", "0.00878906"),
    f"{STAMP},create:cache_miss,cpu,{FIRST},{NEW},,alg:convolution_direct,{CONVOLUTION},573.975",
    "onednn_verbose,v1,graph,exec,gpu,100002,sdp,matmul_qk;softmax,,in0_f16:1,fpm:strict,sdp_kernel_t,dnnl_backend,0.5",
    "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:a:f0 dst_f16::blocked:a:f0,,,64,0.25",
    "onednn_verbose,v1,primitive,exec,cpu,eltwise,jit:avx2,forward_training,data_f32::blocked:a:f0,,alg:eltwise_relu,64,5",
    VERSIONS["1.x"].replace("1.5", "12"),
    VERSIONS["0.x"].replace("1.5", "1.5e-05"),
    VERSIONS["0.x"].replace("1.5", "19.4319"),
)


@pytest.mark.parametrize("lines", [[VERSIONS[version]] * 2 for version in VERSIONS] + [LOCAL, LOCAL[:1], LOCAL[-1:]])
def test_decimal_commas_read_as_points_do(tmp_path, lines):
    local = [comma(line) for line in lines]
    assert any(line != other for line, other in zip(local, lines, strict=True))
    points, commas = read(tmp_path, "\n".join([*lines, ""])), read(tmp_path, "epoch 1\n" + "\r\n".join([*local, ""]))
    assert commas.kernels.equals(points.kernels)
    assert commas.totals.equals(points.totals)
    assert (commas.info, commas.diagnostics) == (points.info, {})


SHORT = "reorder,jit:uni,undef,src_f32::blocked:a:f0 dst_f16::blocked:a:f0,,"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([f"dnnl_verbose,exec,cpu,{SHORT},64,5"], [5_000_000]),
        (["mkldnn_verbose,exec,eltwise,jit:avx2,forward,fdata:nc,alg:eltwise_relu,64,5"], [5_000_000]),
        ([VERSIONS["0.x"].replace("1.5", "12")], [12_000_000]),
        # beside points, commas are damage
        ([VERSIONS["0.x"], comma(VERSIONS["0.x"])], [1_500_000]),
        ([VERSIONS["3.x"], comma(VERSIONS["3.x"])], [1_500_000]),
        ([VERSIONS["3.x"].replace("v1,", "v1,1678917979730.5,").replace("1.5", "12"), comma(VERSIONS["0.x"])], [12_000_000]),
        ([VERSIONS["3.x"], VERSIONS["3.x"].replace("v1,", "v1,1678917979730,5,")], [1_500_000]),
    ],
)
def test_whole_times_and_lines_with_points_have_no_decimal_commas(tmp_path, lines, expected):
    trace = read(tmp_path, "\n".join([*lines, ""]))
    assert trace.kernels["duration_ns"].tolist() == expected
    assert trace.diagnostics == ({"unreadable oneDNN lines": 1} if len(lines) > 1 else {})


# not as "%g" prints; a seventh digit
@pytest.mark.parametrize("time", ["9,4740", "9,0", "9,474747", "9,4,7"])
def test_commas_that_are_not_sure_are_refused_with_the_remedy(tmp_path, time):
    for version in ("0.x", "3.x"):
        line = VERSIONS[version].replace(",1.5", f",{time}")
        with pytest.raises(EvidenceError, match=r"line 1: none of 1 lines .* record again with LC_ALL=C$"):
            read(tmp_path, line + "\n")


def test_times_of_two_locales_are_refused(tmp_path):
    lines = [VERSIONS["0.x"], *[comma(VERSIONS["0.x"])] * 2, ""]
    with pytest.raises(EvidenceError, match=r"of 2 lines .* decimal commas, of others points; record with LC_ALL=C$"):
        read(tmp_path, "\n".join(lines))


def wrapped(line, width):
    return "\n".join(line[at : at + width] for at in range(0, len(line), width))


@pytest.mark.parametrize("width", range(40, 172, 11))
def test_lines_that_a_terminal_broke_are_joined(tmp_path, width):
    lines = [VERSIONS[version].replace("1.5", f"{number}.0625") for number, version in enumerate(("2.x", "0.x", "3.x"))]
    # a first one that is broken within its memory descriptors, whatever the width
    long = VERSIONS["3.x"].replace(NEW, f"{NEW} {'dst:f32::blocked:abcd::f0 ' * 8}").replace("1.5", "7.125")
    info = "onednn_verbose,v1,info,cpu,isa:" + "Intel AVX-512 with float16 and more, " * 6
    content = "\n".join(wrapped(text, width) for text in [long, info, "step", *lines, "done", ""])
    trace = read(tmp_path, content)
    plain = read(tmp_path, "\n".join([long, info, "step", *lines, "done", ""]))
    assert trace.kernels["duration_ns"].sum() == plain.kernels["duration_ns"].sum()
    assert trace.kernels.equals(plain.kernels)
    assert trace.info["devices"] == plain.info["devices"]
    assert trace.diagnostics == {}
    assert [note for note in trace.info["notes"] if "broken" in note]


def test_a_line_that_was_broken_by_hand_is_joined_over_a_blank_line(tmp_path):
    line = VERSIONS["3.x"]
    at = line.index("ow112")
    trace = read(tmp_path, f"{line}\n{line[: at + 2]}\n\n{line[at + 2 :]}\ndone\n")
    assert trace.kernels[["count", "duration_ns"]].values.tolist() == [[2, 3_000_000]]
    assert trace.diagnostics == {}


UNTIMED = VERSIONS["3.x"].removesuffix(",1.5")


@pytest.mark.parametrize(
    "lines",
    [
        # shortened by hand, among the program's own numbers
        [UNTIMED, "0.35"], [UNTIMED, "3,0.25"], [UNTIMED + ",", "0.35"],
        [UNTIMED.removesuffix(CONVOLUTION), "3,0.25"], [UNTIMED.removesuffix(CONVOLUTION) + "mb64ic1oc6", "3,0.25"],
        # the rest is not the next line's, or has no time
        [VERSIONS["3.x"][:60], VERSIONS["3.x"], VERSIONS["3.x"][60:]],
        [VERSIONS["3.x"][:60], "epoch 2", VERSIONS["3.x"][60:]],
        [VERSIONS["3.x"][:60], "", "", VERSIONS["3.x"][60:]],
        [VERSIONS["3.x"][:60], UNTIMED[60:]],
        # one field more than any version has
        [VERSIONS["3.x"][:60], "," + VERSIONS["3.x"][60:]],
        # more pieces than are joined
        [VERSIONS["3.x"][:60], *VERSIONS["3.x"][60:80], VERSIONS["3.x"][80:]],
    ],
)  # fmt: skip
def test_lines_that_were_cut_are_not_joined_with_other_output(tmp_path, lines):
    trace = read(tmp_path, "\n".join([VERSIONS["2.x"], *lines, "done", ""]))
    assert trace.kernels["duration_ns"].sum() == 1_500_000 * (1 + (VERSIONS["3.x"] in lines))
    assert sum(trace.diagnostics.values()) == 1


def test_a_broken_line_at_the_end_of_a_cut_stream_is_not_joined(tmp_path):
    trace = read(tmp_path, f"{VERSIONS['2.x']}\n{wrapped(VERSIONS['3.x'], 60)}")
    assert trace.kernels["duration_ns"].tolist() == [1_500_000]
    assert trace.diagnostics == {"unreadable oneDNN lines": 1}


def test_a_stream_of_lines_that_were_cut_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(EvidenceError, match=r"none of 2 lines .* cut or wrapped: let the program write to a file"):
        read(tmp_path, f"{VERSIONS['3.x'][:80]}\n" * 2)
