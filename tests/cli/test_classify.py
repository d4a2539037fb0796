"""`kernelscope classify`: what a name tells, which rule fired, and what decided."""

import csv
import io
import json
import os
import subprocess
import sys

import pytest

from kernelscope.analysis.kernels.rules import RULES
from kernelscope.analysis.trace import PHASES
from kernelscope.cli import classify, main

NAMES = ["ampere_sgemm_128x64_tn", "zzz"]


def rows(capsys, *arguments):
    assert main.main(["classify", *arguments, "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["schema"] == "kernelscope/classify/1"
    return content["rows"]


def test_one_name(capsys):
    (row,) = rows(capsys, "ampere_sgemm_128x64_tn")
    rule = RULES[row["rule"] - 1]
    assert row == {
        "name": "ampere_sgemm_128x64_tn",
        "kind": "gemm",
        "library": "cublas",
        "algorithm": None,
        "dtype": "f32",
        "transpose": "TN",
        "tensor_core": False,
        "tile": "128x64",
        "decided_by": "name",
        "rule": row["rule"],
        "pattern": rule.pattern,
        "example": rule.example,
        "explanation": f"rule {row['rule']} says that it is gemm",
    }


def test_the_operator_decides(capsys):
    (row,) = rows(capsys, "volta_sgemm_128x64_nn", "--operator", "aten::cudnn_convolution")
    assert (row["kind"], row["decided_by"]) == ("convolution forward", "operator")
    assert row["explanation"].endswith("says that it is gemm; the operator is convolution forward")
    (row,) = rows(capsys, "igemm_bwd_gtcx3_nhwc_bf16", "--operator", "aten::convolution_backward")
    assert (row["kind"], row["decided_by"]) == ("convolution data gradient", "name")
    (row,) = rows(capsys, "volta_scudnn_128x64_relu_interior_nn_v1", "--phase", "backward")
    assert row["kind"] == "convolution data gradient"


def test_what_is_unknown_is_said(capsys):
    (row,) = rows(capsys, "zzz", "--operator", "yyy")
    assert (row["kind"], row["library"], row["rule"], row["decided_by"]) == ("unknown", None, None, "nothing")
    assert row["explanation"] == "no rule matches the name; no rule matches the operator"
    (row,) = rows(capsys, "triton__0d1d2d3de")
    assert (row["kind"], row["library"]) == ("unknown", "triton")
    assert row["explanation"].endswith("knows the library only")
    (row,) = rows(capsys, "zzz")
    assert row["explanation"] == "no rule matches the name"


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_for_reading(form, capsys):
    assert main.main(["classify", "ampere_sgemm_128x64_tn", "--format", form]) == 0
    out = capsys.readouterr().out
    for text in ("tensor core", "cublas", "128x64", "says that it is gemm", "pattern", "example"):
        assert text in out
    assert main.main(["classify", *NAMES, "--format", form]) == 0
    out = capsys.readouterr().out
    assert "ampere" in out
    assert "unknown" in out


def test_csv(capsys):
    assert main.main(["classify", *NAMES, "=1+1", "--format", "csv"]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["name"] for row in found] == [*NAMES, "'=1+1"]
    assert [row["kind"] for row in found] == ["gemm", "unknown", "unknown"]
    assert found[0]["tensor_core"] == "false"


def test_names_of_stdin_among_others():
    text = b"Im2d2Col_v2\n\n  ncclDevKernel_AllGather_RING_LL(x) \nzzz\xff\x1b[31m\n"
    command = [sys.executable, "-m", "kernelscope.cli.main", "classify", NAMES[0], "-", "--format"]
    done = subprocess.run([*command, "json"], input=text, capture_output=True, timeout=120, check=True)
    assert [(row["name"], row["kind"]) for row in json.loads(done.stdout)["rows"]] == [
        (NAMES[0], "gemm"),
        ("Im2d2Col_v2", "layout"),
        ("ncclDevKernel_AllGather_RING_LL(x)", "communication"),
        ("zzz\N{REPLACEMENT CHARACTER}\x1b[31m", "unknown"),
    ]
    wide = {**os.environ, "COLUMNS": "1000"}
    done = subprocess.run([*command, "table"], input=text, capture_output=True, timeout=120, check=True, env=wide)
    assert b"\x1b" not in done.stdout, "escapes of a terminal are shown, not sent"
    assert b"\\x1b[31m" in done.stdout


def test_nothing_on_stdin(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    for form in ("table", "markdown", "csv", "json"):
        assert main.main(["classify", "-", "--format", form]) == 0
    assert '"rows": []' in capsys.readouterr().out


def test_wrong_use(capsys):
    for arguments in (["classify"], ["classify", "x", "--phase", "sideways"], ["classify", "x", "--format", "xml"]):
        with pytest.raises(SystemExit) as raised:
            main.main(arguments)
        assert raised.value.code == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_phases_are_those_of_traces():
    assert classify.PHASES == PHASES


def test_help_needs_no_analysis():
    code = (
        "import sys; from kernelscope.cli import main; main.parser(); sys.exit('pandas' in sys.modules or 'rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
