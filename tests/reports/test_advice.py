"""How advice is shown: layout, blanks, names, and the colours of a step's parts."""

import io
import re

import pytest
from rich.console import Console
from rich.text import Text

from kernelscope.analysis.advise import advice as analysis
from kernelscope.reports import advice, ending
from kernelscope.reports.trimmed import Trimmed
from tests.places import ROOT

STYLE = (ROOT / "reports" / "templates" / "style.css").read_text(encoding="utf8")


def result(pieces=5):
    one = {"topic": "t", "saves_ns": 10**6, "estimate": "a guess", "evidence": ["It is seen."], "link": None}
    return {
        "step_ns": 10**7,
        "per": "a step",
        "device": "cuda:0",
        "hardware": "TITAN V",
        "parts": [{"what": "computing", "ns": 6 * 10**6}, {"what": "copying alone", "ns": 4 * 10**6}],
        "advice": [{**one, "title": f"cause {n}", "remedy": f"do {n} things"} for n in range(1, pieces + 1)],
        "notes": ["a note"],
    }


def printed(shown, width=120, **options):
    stream = io.StringIO()
    Console(file=stream, width=width, **options).print(shown)
    return stream.getvalue().splitlines()


def test_pieces_beyond_the_third_have_the_same_layout_and_no_evidence():
    lines = printed(Trimmed(advice.AdviceText(result())))
    at = lines.index("3. Up to 1.00 ms: cause 3.")
    assert lines[at + 1 : at + 4] == ["   Do 3 things.", "   It is seen.", "   Estimate: a guess."]
    assert lines[at + 4 : at + 8] == [
        "4. Up to 1.00 ms: cause 4.",
        "   Do 4 things.",
        "5. Up to 1.00 ms: cause 5.",
        "   Do 5 things.",
    ]


@pytest.mark.parametrize("width", [60, 120])
@pytest.mark.parametrize("colours", [False, True])
def test_no_line_ends_in_blanks(width, colours):
    rows = [{"name": "layer", "time_ns": 10**6, "count": 2}, {"name": "a longer name", "time_ns": 10**5, "count": 1}]
    shown = ending.shown(result(), rows, rows[:1])
    lines = printed(shown, width, force_terminal=colours, color_system="standard" if colours else None)
    bare = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert any("a longer name" in line for line in bare)
    assert not [line for line in bare if line.endswith(" ")]


def test_blanks_with_a_colour_of_their_own_stay():
    assert printed(Trimmed(Text("bar   ", style="on red")), force_terminal=True, color_system="standard")[0].count(" ") == 3


@pytest.mark.parametrize(
    ("remedy", "sentence"),
    [
        ("tf.function around the step", "tf.function around the step."),
        ("jax_debug_nans is on", "jax_debug_nans is on."),
        ("mode='reduce-overhead' of torch.compile", "mode='reduce-overhead' of torch.compile."),
        ("data_format='channels_last' in all layers", "data_format='channels_last' in all layers."),
        ("net.hybridize(), and more", "net.hybridize(), and more."),
        ("larger batches", "Larger batches."),
        ("autograd's check is on", "Autograd's check is on."),
    ],
)
def test_a_remedy_is_a_sentence_but_names_stay_as_they_are(remedy, sentence):
    lines = printed(advice.AdviceText({**result(0), "advice": [{**result(1)["advice"][0], "remedy": remedy}]}))
    assert lines[3].strip() == sentence


def test_each_part_of_a_step_has_a_colour_of_its_own():
    shown = advice.page({**result(), "parts": [{"what": what, "ns": 10} for what in analysis.PARTS]}).parts
    colours = [part["colour"] for part in shown]
    assert len(set(colours)) == len(colours) == len(analysis.PARTS)
    rules = [re.search(rf"\.{colour} {{ background: ([^;}}]+);", STYLE).group(1) for colour in colours]
    assert len(set(rules)) == len(rules)


def test_a_part_has_the_same_colour_whatever_else_there_is():
    alone = advice.page({**result(), "parts": [{"what": "synchronisation", "ns": 10}]}).parts[0]["colour"]
    among = advice.page({**result(), "parts": [{"what": what, "ns": 10} for what in reversed(analysis.PARTS)]}).parts
    assert [part["colour"] for part in among if part["what"] == "synchronisation"] == [alone]


def test_what_was_not_printed_looks_like_what_was_not_recorded():
    parts = [{"what": what, "ns": 10} for what in (analysis.UNPRINTED, "nothing recorded")]
    shown = advice.page({**result(), "parts": parts}).parts
    assert len({part["colour"] for part in shown}) == 1


def test_a_busy_machine_is_said_in_the_answer():
    busy = {**result(), "busy": {"cores": 2, "others": 0.43}}
    assert "Other processes kept 0.4 of 2 cores busy: results may differ on an idle machine. The first" in advice.answer(busy)
    busy["busy"]["others"] = 0.93
    refused = "neither times nor advice are reliable; record again on an idle machine."
    assert advice.answer(busy).endswith(f"Other processes kept 0.9 of 2 cores busy: {refused}"), "and no saving is named"
    assert "Other processes" not in advice.answer(result())
