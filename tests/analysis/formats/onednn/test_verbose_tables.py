"""oneDNN's verbose lines of versions 0.21 to 3.12, against counts and sums taken line by line with plain string splitting."""

from decimal import Decimal

import pandas as pd
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream
from kernelscope.analysis.formats.onednn import verbose_tables as onednn_verbose
from kernelscope.analysis.trace import KINDS
from tests import places
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "onednn"
CORPUS = places.CORPUS / "onednn"
RECORDED = sorted(DATA.glob("*.txt"))
FOREIGN = sorted(CORPUS.glob("*.log")) if CORPUS.is_dir() else []


def _counted(path):
    """Count executions and add up their durations in ns, without any of the reader's code."""
    count, total, counts = 0, Decimal(0), {}
    for line in path.read_text(errors="replace").splitlines():
        fields = line.split(",")
        if not fields[0].endswith("_verbose") or "exec" not in fields[1:5]:
            continue
        count += 1
        total += round(Decimal(fields[-1]) * 1_000_000)
        rest = fields[fields.index("exec") + 1 :]
        primitive = rest[1] if rest[0] in ("cpu", "gpu") else rest[0]
        counts[primitive] = counts.get(primitive, 0) + 1
    return count, int(total), counts


@pytest.mark.parametrize("path", RECORDED + FOREIGN, ids=lambda path: path.stem)
def test_counts_and_sums_are_those_of_the_file(path):
    table = onednn_verbose.parse(stream.split(path).onednn)
    count, total, counts = _counted(path)
    assert len(table) == count
    assert int(table["duration_ns"].sum()) == total
    assert table["primitive"].value_counts().to_dict() == counts
    assert table.attrs["parse_failures"] == 0
    assert set(table["kind"]) <= set(KINDS) - {"unknown"}
    assert table["line_number"].is_monotonic_increasing


def test_recordings_are_there():
    assert len(RECORDED) >= 4


@pytest.mark.skipif(not FOREIGN, reason="needs the collection of other people's captures beside the checkout")
def test_a_large_foreign_log_mixed_with_output_of_its_application():
    table = onednn_verbose.parse(stream.split(CORPUS / "Sauravrp67__UniYOLO__dnnl.log").onednn)
    assert len(table) == 4680
    assert set(table["kind"]) == {"convolution forward", "layout", "copy"}
    assert table["wall_ns"].isna().all()
    assert onednn_verbose.header_of(stream.split(CORPUS / "Sauravrp67__UniYOLO__dnnl.log").onednn["text"])["threads"] == 4


def test_every_field_of_a_line_with_timestamp():
    row = onednn_verbose.parse(stream.split(DATA / "pytorch_lenet.txt").onednn).iloc[1]
    assert row["line_number"] == 16
    assert row["wall_ns"] == 1795250677532790039
    assert row["duration_ns"] == 99854  # 0.0998535 ms
    assert (row["engine"], row["primitive"], row["propagation"]) == ("cpu", "convolution", "forward_training")
    assert row["name"] == "convolution jit:avx512_core"
    assert row["kind"] == "convolution forward"
    assert row["attributes"] == "attr-scratchpad:user"
    assert row["auxiliary"] == "alg:convolution_direct"
    assert row["problem"] == "mb8_ic1oc6_ih28oh28kh5sh1dh0ph2_iw28ow28kw5sw1dw0pw2"
    assert (row["dtype"], row["layout"]) == ("f32", "src abcd, wei Acdb16a, dst aBcd16b")
    assert row["algorithm"] == "direct"
    assert row["flops"] == 2 * 8 * 6 * 28 * 28 * 1 * 5 * 5


def _one(line):
    table = onednn_verbose.parse(stream.split([line]).onednn)
    assert len(table) == 1, table.attrs
    return table.iloc[0]


MEMORY_0 = "fsrc:nchw fwei:Ohwi8o fbia:x fdst:nChw8c"
MEMORY = "src_f32::blocked:abcd:f0 wei_f32::blocked:Acdb16a:f0 bia_undef::undef::f0 dst_f32::blocked:aBcd16b:f0"
MEMORY_3 = "src:f32::blocked:abcd::f0 wei:f32:a:blocked:Acdb16a::f0 bia:undef::undef::: dst:f32:a:blocked:aBcd16b::f0"
PROBLEM = "mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3"


@pytest.mark.parametrize(
    "line",
    [
        f"mkldnn_verbose,exec,convolution,jit:avx2,forward_inference,{MEMORY_0},alg:convolution_direct,{PROBLEM},0.5",
        f"mkldnn_verbose,exec,convolution,jit:avx2,forward_inference,{MEMORY},alg:convolution_direct,{PROBLEM},0.5",
        f"dnnl_verbose,exec,cpu,convolution,jit:avx2,forward_inference,{MEMORY},,alg:convolution_direct,{PROBLEM},0.5",
        f"dnnl_verbose,1700000000000.5,exec,cpu,convolution,jit:avx2,forward_inference,{MEMORY},,alg:convolution_direct,{PROBLEM},0.5",
        f"onednn_verbose,exec,cpu,convolution,jit:avx2,forward_inference,{MEMORY},,alg:convolution_direct,{PROBLEM},0.5",
        f"onednn_verbose,primitive,exec,cpu,convolution,jit:avx2,forward_inference,{MEMORY_3},,alg:convolution_direct,{PROBLEM},0.5",
        f"onednn_verbose,1700000000000.5,primitive,exec,gpu,convolution,jit:ir,forward_inference,{MEMORY_3},,alg:convolution_direct,{PROBLEM},0.5",
        f"onednn_verbose,v0,primitive,exec,cpu,convolution,jit:avx2,forward_inference,{MEMORY_3},,alg:convolution_direct,{PROBLEM},0.5",
        f"onednn_verbose,v1,1700000000000.5,primitive,exec,gpu:0,convolution,jit,forward_inference,{MEMORY_3},,alg:direct,{PROBLEM},0.5",
        f"onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx2,forward_inference,{MEMORY_3},,alg:convolution_direct,{PROBLEM},5e-01\r",
    ],
)
def test_the_same_execution_in_each_version_of_the_format(line):
    row = _one(line)
    assert (row["primitive"], row["propagation"], row["problem"]) == ("convolution", "forward_inference", PROBLEM)
    assert (row["duration_ns"], row["kind"], row["algorithm"]) == (500_000, "convolution forward", "direct")
    assert row["flops"] == 2 * 3 * 64 * 112 * 112 * 7 * 7
    if "1700000000000" in line:
        assert row["wall_ns"] == 1_700_000_000_000_500_000
    else:
        assert row.isna()["wall_ns"]


def _exec(primitive, implementation, propagation, memory, auxiliary, problem, attributes=""):
    return (
        f"onednn_verbose,v1,primitive,exec,cpu,{primitive},{implementation},{propagation},{memory},"
        f"{attributes},{auxiliary},{problem},0.25"
    )


def _two(name, tag, dtype="f32", strides=""):
    return f"{name}:{dtype}::blocked:{tag}:{strides}:f0"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (_exec("convolution", "jit", "backward_data", MEMORY_3, "alg:convolution_direct", PROBLEM), "convolution data gradient"),
        (
            _exec("convolution", "jit", "backward_weights", MEMORY_3, "alg:convolution_direct", PROBLEM),
            "convolution weight gradient",
        ),
        (
            _exec("deconvolution", "jit", "forward_inference", MEMORY_3, "alg:deconvolution_direct", PROBLEM),
            "convolution forward",
        ),
        (_exec("reorder", "jit:uni", "undef", f"{_two('src', 'ab')} {_two('dst', 'ba')}", "", "2x3"), "layout"),
        (_exec("reorder", "jit:uni", "undef", f"{_two('src', 'ab')} {_two('dst', 'ab', 'bf16')}", "", "2x3"), "cast"),
        (_exec("reorder", "jit:uni", "undef", f"{_two('src', 'ab')} {_two('dst', 'ab')}", "", "2x3"), "copy"),
        (_exec("reorder", "jit:uni", "undef", f"{_two('src', 'ab')} {_two('dst', 'ab', strides='9x1')}", "", "2x3"), "layout"),
        (_exec("eltwise", "jit", "forward_training", _two("data", "ab"), "alg:eltwise_relu alpha:0 beta:0", "2x3"), "activation"),
        (
            _exec("eltwise", "jit", "forward_training", _two("data", "ab"), "alg:eltwise_linear alpha:2 beta:0", "2x3"),
            "elementwise",
        ),
        (_exec("batch_normalization_v2", "bnorm_jit", "forward_training", _two("data", "ab"), "", "2x3"), "normalisation"),
        (_exec("layer_normalization", "simple", "forward_training", _two("data", "ab"), "", "2x3"), "normalisation"),
        (_exec("softmax_v2", "jit", "forward_inference", _two("src", "ab"), "alg:softmax_accurate axis:1", "2x3"), "softmax"),
        (_exec("binary", "jit:uni", "undef", _two("src0", "ab"), "alg:binary_add", "2x3:2x3"), "elementwise"),
        (_exec("sum", "jit:uni", "undef", _two("src", "ab"), "", "2x3"), "elementwise"),
        (_exec("concat", "simple:any", "undef", _two("src", "ab"), "axis:1", "2x3:2x3"), "copy"),
        (_exec("reduction", "jit", "undef", _two("src", "ab"), "alg:reduction_sum", "2x3:1x3"), "reduction"),
        (_exec("something_new", "jit", "undef", _two("src", "ab"), "", "2x3"), "unknown"),
    ],
)
def test_kinds(line, kind):
    assert _one(line)["kind"] == kind


@pytest.mark.parametrize(
    ("memory", "problem", "expected"),
    [
        (f"{_two('src', 'ab')} {_two('wei', 'ab')} {_two('dst', 'ab')}", "64x400:400x120", (64, 120, 400, 1, "NN")),
        (f"{_two('src', 'ba')} {_two('wei', 'ab')} {_two('dst', 'ab')}", "400x64:64x120", (400, 120, 64, 1, "TN")),
        (f"{_two('src', 'abc')} {_two('wei', 'acb')} {_two('dst', 'abc')}", "8x16x32:8x32x4", (16, 4, 32, 8, "NT")),
        (f"{_two('src', 'abc')} {_two('wei', 'abc')} {_two('dst', 'abc')}", "8x16x32:1x32x4:8x16x4", (16, 4, 32, 8, "NN")),
        (f"{_two('src', 'ab')} {_two('wei', 'BA16a64b')} {_two('dst', 'ab')}", "64x400:400x120", (64, 120, 400, 1, None)),
        (f"{_two('src', 'ab')} {_two('wei', 'ab')} {_two('dst', 'ab')}", "b1m2n3k4", (2, 3, 4, 1, "NN")),
    ],
)
def test_matrix_products_and_their_transposition(memory, problem, expected):
    row = _one(_exec("matmul", "brg_matmul:avx512_core", "undef", memory, "", problem))
    assert (row["m"], row["n"], row["k"], row["batch"]) == expected[:4]
    assert row["transpose"] == expected[4] if expected[4] else row.isna()["transpose"]
    assert row["flops"] == 2 * expected[0] * expected[1] * expected[2] * expected[3]
    assert (row["kind"], row["algorithm"]) == ("gemm", "brgemm")


@pytest.mark.parametrize(
    ("propagation", "weights", "expected"),
    [
        ("forward_training", "ab", (64, 120, 400, "NT")),
        ("forward_training", "ba", (64, 120, 400, "NN")),
        ("backward_data", "ab", (64, 400, 120, "NN")),
        ("backward_weights", "ab", (120, 400, 64, "TN")),
    ],
)
def test_inner_products_are_matrix_products(propagation, weights, expected):
    memory = f"{_two('src', 'ab')} {_two('wei', weights)} {_two('dst', 'ab')}"
    row = _one(_exec("inner_product", "x64:gemm:jit", propagation, memory, "", "mb64ic16ih5iw5oc120"))
    assert (row["m"], row["n"], row["k"], row["transpose"]) == expected
    assert row["flops"] == 2 * 64 * 400 * 120


@pytest.mark.parametrize(
    ("implementation", "auxiliary", "expected"),
    [
        ("jit:avx512_core", "alg:convolution_direct", "direct"),
        ("jit_1x1:avx2", "alg:convolution_direct", "direct"),
        ("x64:gemm:jit", "alg:convolution_direct", "gemm"),
        ("brg_conv_fwd:avx512_core", "alg:convolution_direct", "brgemm"),
        ("jit_wino:avx512_core", "alg:convolution_winograd", "winograd"),
        ("ref:any", "alg:convolution_direct", "direct, reference"),
    ],
)
def test_how_a_convolution_computes(implementation, auxiliary, expected):
    assert _one(_exec("convolution", implementation, "forward_training", MEMORY_3, auxiliary, PROBLEM))["algorithm"] == expected


def test_grouped_and_one_dimensional_convolutions_have_their_operations():
    grouped = _exec(
        "convolution", "jit", "forward_training", MEMORY_3, "alg:convolution_direct", "mb2_g4ic8oc12_iw10ow8kw3sw1dw0pw0"
    )
    assert _one(grouped)["flops"] == 2 * 2 * 12 * 8 * (8 // 4) * 3


def test_recurrent_primitives_have_their_operations():
    table = onednn_verbose.parse(stream.split(DATA / "pytorch_lstm.txt").onednn)
    forward = table[(table["kind"] == "recurrent") & (table["propagation"] == "forward_training")].iloc[0]
    assert forward["algorithm"] == "vanilla_lstm, reference"
    assert forward["layout"] == "src_layer abc, wei_layer abcde strided, dst_layer abc"
    assert forward["flops"] == 2 * 28 * 8 * 4 * 128 * (28 + 128)


def test_what_cannot_be_read_is_counted_with_its_lines():
    good = _exec("sum", "jit:uni", "undef", _two("src", "ab"), "", "2x3")
    table = onednn_verbose.parse(
        stream.split(
            [
                "onednn_verbose,v1,info,oneDNN v3.12.0 (commit 1)",
                "epoch 1 loss 0.5" + good,  # output without a line end
                "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_co",  # cut off
                "onednn_verbose,v1,1795247",
                "",
                "onednn_verbose,v1,primitive,exec,cpu,a,b,c,d,e,f,g,h,i,0.1",  # more fields than any version has
                "onednn_verbose,v1,graph,exec,cpu,100002,conv,,,,,,,,0.1",  # a partition of several primitives
                "onednn_verbose,v1,primitive,create:cache_miss,cpu,sum,jit:uni,undef,,,,2x3,0.1",
                "onednn_verbose is mentioned here",
            ]
        ).onednn
    )
    assert table["line_number"].tolist() == [2]
    assert table.attrs["parse_failures"] == 3
    assert table.attrs["failed_lines"] == [3, 4, 6]
    assert table.attrs["other_lines"] == 3


def test_headers():
    found = onednn_verbose.header_of(stream.split(DATA / "pytorch_lenet.txt").onednn["text"])
    assert (found["version"], found["threads"], found["runtime"], found["gpu_runtime"]) == ("3.12.0", 2, "OpenMP", "none")
    assert onednn_verbose.header_of(stream.split(DATA / "mxnet_lenet.txt").onednn["text"])["version"] == "2.4.4"
    assert "threads" not in onednn_verbose.header_of(stream.split(DATA / "mxnet_lenet.txt").onednn["text"])


def test_the_header_of_the_first_versions_names_their_build_and_the_isa():
    line = "mkldnn_verbose,info,Intel(R) MKL-DNN v0.18.0 (Git Hash 863ff6e),Intel(R) Advanced Vector Extensions 2 (Intel(R) AVX2)"
    assert onednn_verbose.header_of(pd.Series([line], dtype="string")) == {
        "version": "0.18.0", "commit": "863ff6e", "isa": "Intel(R) Advanced Vector Extensions 2 (Intel(R) AVX2)",
    }  # fmt: skip


def test_a_problem_of_one_dimension_is_no_duration():
    copies = "reorder,ocl:simple:any,undef,src_f32::blocked:a:f0 dst_f32::blocked:a:f0"
    table = onednn_verbose.parse(
        stream.split(
            [
                f"dnnl_verbose,exec,gpu,{copies},,,64",
                f"dnnl_verbose,exec,gpu,{copies},,,64,",
                "dnnl_verbose,exec,gpu,eltwise,ocl:ref:any,forward_inference,data_f32::blocked:a:f0,,alg:eltwise_relu beta:0,64",
                "dnnl_verbose,exec,gpu,softmax,ocl:ref:any,forward_inference,data_f32::blocked:a:f0,,axis:0,64",
                f"dnnl_verbose,exec,gpu,{copies},,,2x16x7x7",
                f"dnnl_verbose,exec,gpu,{copies},,,64,0.5",
                "dnnl_verbose,exec,gpu,reorder,",
            ]
        ).onednn
    )
    assert table[["line_number", "problem", "duration_ns"]].values.tolist() == [[6, "64", 500_000]]
    assert (table.attrs["without_time"], table.attrs["parse_failures"]) == (5, 1)


def test_a_stream_without_verbose_lines_gives_an_empty_table(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "noise").write_bytes(b"hello\n\xff\xfe\n")
    for name in ("empty", "noise"):
        table = onednn_verbose.parse(stream.split(tmp_path / name).onednn)
        assert table.empty
        assert list(table.columns) == list(onednn_verbose.parse(stream.split(DATA / "mxnet_lenet.txt").onednn).columns)
        assert onednn_verbose.header_of(stream.split(tmp_path / name).onednn["text"]) == {}
    with pytest.raises(EvidenceError, match="nowhere"):
        onednn_verbose.parse(stream.split(tmp_path / "nowhere").onednn)
