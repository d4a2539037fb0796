"""Explanations as people read them: numbers that add up as printed, whole sentences, about a screen, nothing hostile."""

import base64
import copy
import gzip
import io
import itertools
import json
import random
import re
from decimal import Decimal

import pytest
from rich.cells import cell_len
from rich.console import Console

from kernelscope.reports import (
    comparison_tables,
    comparison_terminal,
    explanation,
    explanation_lines,
    figures,
    html,
    side_bars,
    units,
)
from kernelscope.reports.text import WHOLE

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
SIGNED = r"[+-]?[\d,]+(?:\.\d+)?"


def text_of(result, width=80, most=explanation_lines.LINES):
    return [line.plain for line in explanation_lines.lines(result, width, most)]


def scaled(result, factor, seed):
    """The explanation with other numbers that add up: every part and cause times a random number, the rest set right."""
    chance = random.Random(seed)
    changed = copy.deepcopy(result)
    for entry, key in [(part, "delta_ns") for part in changed["parts"]] + [(f, "explains_ns") for f in changed["findings"]]:
        entry[key] = round(entry[key] * factor * chance.uniform(-1, 2))
    changed["instrumentation_ns"] = round(changed["instrumentation_ns"] * chance.uniform(-3, 3) * factor)
    delta = sum(part["delta_ns"] for part in changed["parts"]) + changed["instrumentation_ns"]
    changed["wall_delta_ns"], changed["wall_interval_ns"] = delta, None
    changed["a"]["step_ns"] = abs(delta) + round(chance.uniform(0.1, 3) * 1e6 * factor)
    changed["b"]["step_ns"] = changed["a"]["step_ns"] + delta
    return changed


def with_findings(result, count):
    changed = copy.deepcopy(result)
    first = changed["findings"][0]
    each = changed["wall_delta_ns"] // (count + 1) if count else 0
    changed["findings"] = [
        {**first, "explains_ns": each + number, "title": f"{first['title']} {number}", "evidence": first["evidence"] * 3}
        for number in range(count)
    ]
    return changed


def abstaining(result):
    return {
        **result, "findings": [], "unexplained_ns": result["wall_delta_ns"], "significant": False,
        "wall_interval_ns": [-100_000, 12_000_000], "abstained": "the difference is within the noise " * 6,
        "to_find_out": "record again with --steady and more --repeats " * 4, "differs": ["batch 64 against 128"],
    }  # fmt: skip


def sparse(result):
    """What a capture of totals would leave: hardly anything known."""
    side = dict.fromkeys(result["a"])
    return {
        **result, "a": {**side, "name": "a"}, "b": {**side, "name": "b"}, "network": None, "mode": None, "batch": None,
        "wall_interval_ns": None, "significant": None, "floor_ns": None, "parts": [], "rows": [], "findings": [], "matches": [],
        "instrumentation_ns": 0, "wall_delta_ns": 0, "unexplained_ns": 0, "differences": [], "missing": {},
    }  # fmt: skip


CASES = {
    "as it is": lambda result: result,
    "hostile": None,
    "sparse": sparse,
    "abstaining": abstaining,
    "no finding": lambda result: with_findings(result, 0),
    "one finding": lambda result: with_findings(result, 1),
    "twenty findings": lambda result: with_findings(result, 20),
    "work differs": lambda result: {**result, "differs": ["batch 64 against 128", "mode train against infer"] * 5},
    "faster": lambda result: scaled(result, -1, 1),
    "small": lambda result: scaled(result, 1e-5, 2),
    "large": lambda result: scaled(result, 1e5, 3),
}


@pytest.fixture(params=CASES)
def case(request, explained, hostile_explained):
    """The explanation in every state."""
    change = CASES[request.param]
    return hostile_explained if change is None else change(explained)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_sentences_are_whole_and_lines_fit(case, width, hostile_explained):
    result = case
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(comparison_terminal.explained(result))
    page = stream.getvalue()
    lines = page.rstrip("\n").split("\n")
    assert max(map(cell_len, lines)) <= width
    assert not CONTROL.search(page)
    assert len(text_of(result, width, 12)) <= len(lines)
    if result != hostile_explained:
        assert not any(line.endswith("…") for line in lines)
        assert len(lines) <= (36 if width < 80 else 31) or width < 60


def test_the_answer_comes_first(explained):
    first = " ".join(line.strip() for line in text_of(explained, 200)[:2])
    assert first == (
        "cntk is slower than tensorflow by 5.70 ms per step (+92%): 6.19 → 11.89 ms; 95% interval 5.52 to 5.90 ms; "
        "largest cause: cntk computes tanh in its own loop, tensorflow in a vectorised Eigen kernel (+2.90 ms)"
    )


@pytest.mark.parametrize("factor", [1, -1, 1e-3, 3e-6, 1e4])
def test_parts_add_up_to_the_difference_as_printed(explained, factor):
    for seed, width in itertools.product(range(12), (40, 80, 200)):
        result = scaled(explained, factor, seed)
        lines = text_of(result, width)
        last = next(number for number, line in enumerate(lines) if line.startswith("difference, "))
        rows = []
        for line in reversed(lines[:last]):
            found = re.search(rf"^(?!\d\. )\S.*? ({SIGNED})( [█▏▎▍▌▋▊▉▒]+)?$", line)
            if found is None:
                break
            rows.append(Decimal(found[1].replace(",", "")))
        _, unit, number = lines[last].split()
        total = Decimal(number.replace(",", ""))
        assert len(rows) >= 3
        assert sum(rows) == total
        assert float(total) == pytest.approx(result["wall_delta_ns"] / units.NS_PER[unit], rel=0.06)


@pytest.mark.parametrize("count", [1, 3, 4, 20])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_causes_and_the_rest_add_up_as_printed(explained, count, width):
    result = with_findings(explained, count)
    page = "\n".join(text_of(result, width))
    causes = [Decimal(number) for number in re.findall(rf"^\d+\. ({SIGNED}) ms", page, re.M)]
    more = [Decimal(number) for number in re.findall(rf"and \d+ more:\s+({SIGNED})\s+ms", page)]
    left = re.search(rf"not\s+explained:\s+({SIGNED})", page)
    assert sum(causes) + sum(more) + Decimal(left[1]) == Decimal("5.70")


def test_percentages_are_left_out_where_causes_are_much_larger_than_the_difference(explained):
    result = with_findings(explained, 2)
    assert explanation.share(result, result["wall_delta_ns"]) == "100%"
    result["findings"][0]["explains_ns"] = 6 * result["wall_delta_ns"]
    result["findings"][1]["explains_ns"] = -5 * result["wall_delta_ns"]
    assert explanation.share(result, result["wall_delta_ns"]) == ""
    page = "\n".join(text_of(result))
    assert re.search(rf"not explained: {SIGNED} ms$", page, re.MULTILINE)
    assert re.search(rf"1\. {SIGNED} ms \(confidence high\): ", page)


def test_rounding_together_never_moves_a_number_by_a_whole_digit():
    chance = random.Random(5)
    for _ in range(500):
        values = [chance.randrange(-10_000, 10_000) for _ in range(chance.randrange(1, 12))]
        rounded = units.rounded_together(values, 1000)
        assert all(number % 1000 == 0 for number in rounded)
        assert abs(sum(rounded) - sum(values)) <= 500
        assert max(abs(one - other) for one, other in zip(rounded, values, strict=True)) < 1000
    assert units.rounded_together([1500, -1500], 1000) in ([2000, -2000], [1000, -1000])
    assert units.rounded_together([], 1000) == []
    assert [units.rounded_together([value], 1000) for value in (1499, 1500, -1500, 0)] == [[1000], [2000], [-2000], [0]]


def test_faster_noise_and_no_interval_are_said(explained):
    def first(**changes):
        return explanation.answer({**explained, **changes})

    swapped = {"a": explained["b"], "b": explained["a"], "wall_delta_ns": -explained["wall_delta_ns"]}
    assert first(**swapped, wall_interval_ns=[-5_903_188, -5_521_873]) == (
        "tensorflow is faster than cntk by 5.70 ms per step (-48%): 11.88 → 6.18 ms; 95% interval 5.52 to 5.90 ms; "
        "largest cause: tensorflow spends more time dispatching its 5,306 operators (-0.50 ms)"
    )
    assert first(significant=True, wall_interval_ns=[-7_240_000, 18_640_000]) == (
        "cntk is slower than tensorflow by processor time, but by how much is uncertain: 6.19 → 11.89 ms, +5.70 ms per step "
        "(+92%); 95% interval -7.24 to 18.64 ms; "
        "largest cause: cntk computes tanh in its own loop, tensorflow in a vectorised Eigen kernel (+2.90 ms)"
    )
    assert first(significant=False, wall_interval_ns=[-7_240_000, 18_640_000]) == (
        "tensorflow and cntk cannot be told apart: 6.19 → 11.89 ms, +5.70 ms per step; 95% interval -7.24 to 18.64 ms"
    )
    assert "11.884 ms; no interval: one recording per side; largest cause: " in first(wall_interval_ns=None)
    assert "no interval: one restart only; " in first(wall_interval_ns=None, a={**explained["a"], "restarts": 1})
    same = {"wall_delta_ns": 0, "b": {**explained["b"], "step_ns": explained["a"]["step_ns"]}, "wall_interval_ns": None}
    assert first(**same).startswith("cntk and tensorflow take the same time: 6.19 → 6.19 ms")
    assert first(b={**explained["b"], "name": "tensorflow"}).startswith("tensorflow (B) is slower than tensorflow (A) by")


def test_causes_have_evidence_and_remedies_and_the_rest_is_added_up(explained):
    page = "\n".join(text_of(explained, 200))
    assert "1. +2.90 ms (51%, confidence high): cntk computes tanh in its own loop" in page
    assert "tanh1 forward takes 2.32 ms in cntk" in page
    assert "try: CNTK 2.7 has no other implementation" in page
    assert "and 1 more: -0.50 ms; not explained: +0.31 ms (5%)" in page
    assert "known by name: 99.4% and 99.2%" in page
    assert "<h4" not in page, "headings leave no level out"
    assert "differences of whole steps below 190 µs cannot be seen" in page


@pytest.mark.parametrize("width", [80, 120])
def test_three_causes_and_the_first_ones_evidence_survive_at_common_widths(explained, width):
    page = "\n".join(text_of(with_findings(explained, 20), width))
    assert re.findall(r"^(\d)\. ", page, re.M) == ["1", "2", "3"]
    assert "   tanh1 forward takes" in page
    assert "   try: " in page


def test_abstention_says_why_and_what_to_run(explained):
    page = " ".join(text_of(abstaining(explained), 200))
    assert "no cause is named: the difference is within the noise" in page
    assert "to find out: record again with --steady" in page
    assert text_of(abstaining(explained))[0].startswith("the work differs: batch 64 against 128")
    assert "no cause is named: no rule recognises" in " ".join(text_of(with_findings(explained, 0), 200))


def test_settings_fill_lines_that_are_left(explained):
    page = " ".join(text_of(with_findings(explained, 0), 120))
    assert "set differently (A / B): execution graph (tf.function) / graph; layout channels last / channels first" in page
    assert "set differently" not in " ".join(text_of(explained, 80)), "no line is left"


def test_colours_only_on_a_terminal(explained, monkeypatch):
    def drawn(**options):
        stream = io.StringIO()
        Console(file=stream, width=100, **options).print(comparison_terminal.explained(explained))
        return stream.getvalue()

    assert "\x1b[" not in drawn()
    assert re.search(r"\x1b\[[0-9;]*3[0-7]m", drawn(color_system="standard", force_terminal=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", drawn(color_system="standard", force_terminal=True))


def test_markdown_has_two_tables_that_add_up(case):
    page = comparison_tables.explanation_markdown(case)
    assert not CONTROL.search(page)
    assert "<script" not in page
    assert "<img" not in page
    rows = [line[2:-2].split(" | ") for line in page.splitlines() if line.startswith("| ")]
    assert {len(row) for row in rows} <= {2, 7}
    parts = [row[1] for row in rows if len(row) == 2 and not row[1].startswith(("---", "*"))][1:]
    total = next(row[1].strip("*") for row in rows if row[0] == "**difference**")
    assert sum((Decimal(text.replace(",", "")) for text in parts), Decimal(0)) == Decimal(total.replace(",", ""))


def written(result, tmp_path):
    path = tmp_path / "new" / "explain.html"
    html.write_explanation(result, path)
    return path.read_text(encoding="utf8")


@pytest.mark.parametrize("case", ["hostile", "sparse", "abstaining"], indirect=True)
def test_the_page_is_one_file_with_links_that_lead_somewhere(case, tmp_path, parse):
    text = written(case, tmp_path)
    page = parse(text)
    assert page.tags.count("script") == 5, "two libraries of tables, and what is ours"
    assert {"img", "iframe", "object", "embed"}.isdisjoint(page.tags)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "A" * (WHOLE + 1) not in text
    identifiers = [value for _, name, value in page.attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))
    links = [value for _, name, value in page.attributes if name == "href" and value != "data:,"]
    assert all(link.startswith("#") for link in links)
    assert {link[1:] for link in links} <= set(identifiers)
    assert not any(name.startswith("on") for _, name, _ in page.attributes)


def test_findings_link_to_their_rows_of_the_account(explained, tmp_path):
    explained["findings"][3]["rows"].append("(profiling overhead)")
    text = written(explained, tmp_path)
    targets = re.findall(r'href="#why-1-(r\d+)"', text)
    assert re.search(r'href="#(why-1--profiling-overhead-)">\(profiling overhead\)</a>.*<tr id="\1"', text, re.S)
    claimed = {row for finding in explained["findings"] for row in finding["rows"]}
    assert targets
    assert set(targets) <= claimed
    assert all(f'<tr id="why-1-{row["row"]}"' in text for row in explained["rows"])


def exact_account(text):
    """Return the names of the account's rows, the last of them the step, and their exact values: B - A, A, B; None unknown."""
    table = re.search(r'<div class="view" id="why-1-account">.*?</table>', text, re.S).group()
    rows = [re.findall(r"<t[hd][^>]*>", row) for row in re.findall(r"<tr.*?</tr>", table.partition("<tbody>")[2], re.S)]
    values = [[re.search(r'data-value="(-?\d+)"', cell) for cell in row[1:4]] for row in rows]
    return [[int(value.group(1)) if value else None for value in row] for row in values]


def test_the_account_adds_up_in_the_page(explained, tmp_path, parse):
    text = written(explained, tmp_path)
    *parts, step = exact_account(text)
    assert len(parts) == len(explained["rows"]) + 1, "every row and (profiling overhead)"
    for column in range(3):
        assert sum(part[column] or 0 for part in parts) == step[column]
    assert step[0] == explained["wall_delta_ns"]
    rows = parse(text).rows
    head = next(number for number, row in enumerate(rows) if row[0] == "part of the step")
    assert rows[head][1] == "B - A", "what differs comes first"
    end = next(number for number, row in enumerate(rows) if row and row[0] == "step")
    assert rows[end][1] == f"{explained['wall_delta_ns'] / 1e6:+.2f}"


def test_of_a_long_account_the_rest_is_one_row_and_claimed_rows_stay(explained, tmp_path, parse):
    first = explained["rows"][0]
    extra = [{**first, "row": f"x{number}", "a_ns": 5, "b_ns": 6, "delta_ns": 1} for number in range(6000)]
    explained["rows"] += extra
    explained["findings"][0]["rows"].append("x5999")
    page = written(explained, tmp_path)
    head, packed, tail = re.split(r"<script type=.application/json. data-further>(.*?)</script>", page)
    *first, further, step = exact_account(page)
    assert len(first) == 300
    sums = [sum(value or 0 for value in column) for column in zip(*first, further, strict=True)]
    assert sums == step, "without scripts the rest is summed up"
    text = head.replace("</tbody>", gzip.decompress(base64.b64decode(json.loads(packed)["gzip"])).decode() + "</tbody>") + tail
    rest = next(row for row in reversed(parse(text).rows) if row and row[0].endswith(" more)"))
    left = int(rest[0].strip("( more)"))
    assert [left, 5 * left, 6 * left] in exact_account(text)
    assert 'id="why-1-x5999"' in text


@pytest.mark.parametrize("narrow", [True, False])
def test_bars_of_the_waterfall_join_and_end_at_the_difference(explained, narrow):
    style = figures.Style(width_in=4.4) if narrow else None
    axes = figures.waterfall(explained, style).axes[0]
    *bars, whole = axes.patches
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]
    assert ends[0][0] == 0
    for one, other in itertools.pairwise(ends):
        assert one[1] == pytest.approx(other[0])
    assert ends[-1][1] == pytest.approx(whole.get_width())
    assert whole.get_width() == pytest.approx(5.70)
    labels = [text.get_text() for text in axes.texts]
    assert sum(Decimal(label) for label in labels[:-1]) == Decimal(labels[-1].removesuffix(" ms"))


def test_a_comparison_shows_the_slowest_in_full_and_the_others_in_a_line(explained, result, tmp_path, parse):
    other = {**copy.deepcopy(explained), "b": {**explained["b"], "name": "mxnet"}}
    result["explanations"] = [explained, other]
    stream = io.StringIO()
    Console(file=stream, width=120, color_system=None).print(comparison_terminal.comparison(result))
    page = stream.getvalue()
    assert "Why: cntk against tensorflow" in page
    assert "  mxnet against tensorflow: +5.70 ms per step; largest cause: cntk computes tanh in its own loop" in page
    html.write_comparison(result, tmp_path / "c.html")
    text = (tmp_path / "c.html").read_text(encoding="utf8")
    parse(text)
    top = text[text.index('id="answer"') : text.index('id="summary"')]
    assert "cntk is slower than tensorflow by 5.70 ms per step" in top
    assert top.index("cntk computes tanh") < top.index("Step by kind of kernel")
    assert 'href="#why-2"' in top
    assert 'id="why-2"' in text
    assert "#### cntk is slower than tensorflow" in comparison_tables.comparison_markdown(result)


def test_of_captures_the_page_says_which_file_each_side_is(explained):
    assert explanation.recordings(explained) == ["cntk against tensorflow"]
    sides = {key: {**explained[key], "name": key.upper(), "path": f"/home/x/{key}.json.gz"} for key in ("a", "b")}
    sides["b"]["hardware"] = "NVIDIA H100"
    assert explanation.recordings({**explained, **sides, "hidden": None}) == ["A: a.json.gz", "B: b.json.gz on NVIDIA H100"]


def test_both_sides_have_a_bar_of_the_same_parts_that_add_up_as_printed(explained):
    both = side_bars.bars(explained)
    assert [piece.what for piece in both[0].pieces] == [piece.what for piece in both[1].pieces]
    for side, bar in zip("ab", both, strict=True):
        whole = sum(row[f"{side}_ns"] or 0 for row in explained["rows"])
        printed = [Decimal(piece.time.split()[0].replace(",", "")) for piece in bar.pieces]
        assert sum(printed) == Decimal(bar.total.split()[0].replace(",", "")) == round(Decimal(whole) / 10**6, 2)
        convolving = sum(row[f"{side}_ns"] or 0 for row in explained["rows"] if row["cell"] == "convolution forward")
        shown = next(piece for piece in bar.pieces if piece.what == "convolution forward")
        assert abs(Decimal(shown.time.split()[0]) - Decimal(convolving) / 10**6) <= Decimal("0.01")
    assert sum(piece.width for piece in both[1].pieces) == pytest.approx(100), "B takes longer"
    assert side_bars.bars(sparse(explained)) == []
