"""Pairs of captures whose difference is known: what is said of each, and that it adds up; and the judging itself."""

import functools
import importlib.util
import sys
from pathlib import Path

import pytest

from kernelscope.cli.explain import explained

FOLDER = Path(__file__).parent
CORPUS = FOLDER.parents[2].parent / "shared/corpus/pairs"
NAMES = [line.split(",")[0] for line in (CORPUS / "truth.csv").read_text(encoding="utf8").splitlines()[1:]] if (
    CORPUS / "truth.csv"
).is_file() else []  # fmt: skip


def _module(name):
    """Return a module that stands beside this one, as scripts find it."""
    spec = importlib.util.spec_from_file_location(f"pairs_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


judging = _module("judging")


@functools.cache
def _known():
    return {pair.name: pair for pair in judging.read(CORPUS)}


@functools.cache
def _said(name):
    captures = _known()[name].captures()
    return None if captures is None else explained(captures, None, False)


@pytest.fixture(params=NAMES or [pytest.param("", marks=pytest.mark.skip(reason="needs ../shared/corpus/pairs"))])
def pair(request):
    """A pair and the explanation of it."""
    said = _said(request.param)
    if said is None:
        pytest.skip(f"needs both captures of ../shared/corpus/pairs/{request.param}")
    return _known()[request.param], said


@pytest.mark.long
def test_steps_are_as_long_as_is_known(pair):
    known, said = pair
    assert judging.step_ratios(known, said) == pytest.approx([1.0, 1.0], abs=judging.STEPS_WITHIN)


def test_the_known_cause_is_named_with_its_size_and_controls_are_left_alone(pair):
    judgement = judging.judge(*pair)
    assert judgement.cause, judgement.said


def test_rows_findings_and_parts_add_up_to_the_difference(pair):
    _, said = pair
    delta = said["wall_delta_ns"]
    assert delta == said["b"]["step_ns"] - said["a"]["step_ns"]
    assert sum(row["delta_ns"] for row in said["rows"]) == delta
    assert all(row["delta_ns"] == row["b_ns"] - row["a_ns"] for row in said["rows"])
    assert sum(part["delta_ns"] for part in said["parts"]) == delta
    assert sum(one["explains_ns"] for one in said["findings"]) + said["unexplained_ns"] == delta
    for side in "ab":
        assert sum(row[f"{side}_ns"] for row in said["rows"]) == said[side]["step_ns"]


def test_a_row_is_in_one_finding_at_most_and_gives_it_its_whole_difference(pair):
    _, said = pair
    delta = {row["row"]: row["delta_ns"] for row in said["rows"]}
    assert len(delta) == len(said["rows"])
    named = [row for one in said["findings"] for row in one["rows"]]
    assert len(named) == len(set(named))
    assert set(named) <= set(delta)
    for one in said["findings"]:
        if len(one["rows"]) < 40:  # of more rows the first 40 are listed
            assert sum(delta[row] for row in one["rows"]) == one["explains_ns"]


# --- judging ------------------------------------------------------------------------------------------------------------------


def _pair(*keywords, ms=-10.0, control=False):
    return judging.Pair("made up", Path("nowhere"), (100.0, 90.0), keywords, ms, control)


def _explanation(*findings, steps=(100.0, 90.0)):
    sides = {side: {"step_ns": round(ms * 1e6)} for side, ms in zip("ab", steps, strict=True)}
    return {**sides, "findings": list(findings), "abstained": None if findings else "noise"}


def _finding(cause, ms, title="", *evidence):
    return {"cause": cause, "title": title, "evidence": list(evidence), "explains_ns": round(ms * 1e6)}


OTHER = _finding("clocks", -5.0)
IDLE = _finding("input pipeline", -9.0, "the device idles waiting for data loading")


@pytest.mark.parametrize(
    ("findings", "right", "said"),
    [
        ([IDLE], True, "found, first"),
        ([OTHER, IDLE], True, "found, second"),
        ([OTHER, OTHER, IDLE], False, "ranked 3"),
        ([OTHER], False, "not named"),
        ([{**IDLE, "explains_ns": 9_000_000}], False, "size wrong"),
        ([{**IDLE, "explains_ns": -4_900_000}], False, "size wrong"),
        ([{**IDLE, "explains_ns": -20_100_000}], False, "size wrong"),
        ([{**IDLE, "explains_ns": -5_000_000}], True, "found, first"),
        ([{**IDLE, "explains_ns": -20_000_000}], True, "found, first"),
        ([], False, "nothing said: noise"),
    ],
)
def test_a_cause_counts_among_the_first_two_with_its_sign_and_size(findings, right, said):
    judgement = judging.judge(_pair("idle", "data loading"), _explanation(*findings))
    assert (judgement.cause, judgement.said, judgement.steps) == (right, said, True)


@pytest.mark.parametrize(
    ("keyword", "text", "says"),
    [
        ("HtoD copy overlapped", "copies (memcpy HtoD): kernels hide 24 ms of them", True),
        ("HtoD copy overlapped", "copies (memcpy DtoH): kernels hide 24 ms of them", False),
        ("HtoD copy overlapped", "memcpy HtoD: twice the bytes", False),
        ("conv kernels", "Convolutions by other kernels", True),
        ("conv kernels", "other kernels", False),  # the word that says something is not there
        ("elementwise kernels", "300 elementwise and other small kernels", True),
        ("fused optimizer", "fusion: B has a fused optimizer", True),
        ("fused optimizer", "fusion: B has compiled kernels", False),
        ("GEMM", "fbgemm_gpu::embedding", False),
        ("GEMM", "gemm kernels", True),
        ("XlaLaunch", "mostly in _XlaLaunch", True),
        ("idle", "the device idles", True),
        ("idle", "the idleness of words", False),
        ("half the bytes", "1.5 times the bytes", True),
    ],
)
def test_keywords_are_matched_by_their_main_words(keyword, text, says):
    assert judging.names_cause(_pair(keyword), _finding("cause", -1.0, "", text)) is says


def test_a_control_is_right_when_nothing_is_said():
    control = _pair(control=True, ms=0.0)
    assert judging.judge(control, _explanation()).cause
    assert not judging.judge(control, _explanation(OTHER)).cause


def test_a_step_that_is_off_is_said():
    judgement = judging.judge(_pair("idle"), _explanation(IDLE, steps=(100.0, 93.0)))
    assert (judgement.steps, judgement.cause, judgement.said) == (False, True, "step time off; found, first")


def test_pairs_that_are_absent_are_skipped_and_the_script_fails_where_too_little_is_found(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER))
    run = _module("run")
    (tmp_path / "truth.csv").write_text(
        "pair,step_ms_a,step_ms_b,cause_keywords,cause_ms,control,steps_a,steps_b,certainty\n"
        "gone,1.0,2.0,idle; data loading,1.0,0,1,1,documented\n"
    )
    monkeypatch.setattr(sys, "argv", ["run.py", str(tmp_path)])
    assert run.main() == 0
    printed = capsys.readouterr().out
    assert "skipped: no a.* and b.*" in printed
    (tmp_path / "gone").mkdir()
    for side in "ab":
        (tmp_path / "gone" / f"{side}.json").write_text("{}")
    assert run.main() == 1
    assert "0 of 1 differences found" in capsys.readouterr().out
