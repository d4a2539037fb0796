# ruff: noqa: RUF001 (ratios are shown with a multiplication sign)
import pytest

from kernelscope.reports import text


def test_hidden_characters_are_shown_as_escapes():
    assert text.printable("a\x1b[31m\x00\n\u202e\ud800\U000e0041") == "a\\x1b[31m\\x00\\n\\u202e\\ud800\\U000e0041"
    assert text.printable("naïve 漢字 ×") == "naïve 漢字 ×"
    assert text.printable(None) == "—"


def test_long_text_is_cut_and_says_how_long_it_was():
    shown = text.printable("A" * 10_000)
    assert len(shown) < 250
    assert shown.endswith("(10,000 characters)")
    assert text.printable("A" * 10_000, None) == "A" * 10_000


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "|", "%", "＝", " =", "'=", "\n="])
def test_no_cell_is_a_formula(start):
    assert str(text.spreadsheet(f"{start}cmd")).startswith(("'", "\\")), "in quotes, or a visible escape"


def test_numbers_stay_numbers_in_a_spreadsheet():
    assert [text.spreadsheet(value) for value in (-3, 0.5, None, True, "conv1")] == [-3, 0.5, "", "true", "conv1"]


def test_markdown_shows_what_it_gets():
    assert text.markdown("a|b `c` <b> _d_ [e](f)") == r"a&#124;b &#96;c&#96; &lt;b&gt; \_d\_ \[e\]\(f\)"
    assert "\n" not in text.markdown("a\nb")


def test_nobody_is_told_by_a_name_in_markdown():
    assert text.markdown("@somebody #1 x@y # @") == "@\u2060somebody \\#\u20601 x@\u2060y \\# @"


def test_several_texts_are_told_apart():
    assert text.sentences(["a, 1 ms", "b, 2 ms"], 50) == "a, 1 ms; b, 2 ms"
    assert text.sentences(["A.", "B.", "a", "a"], 50) == "A. B. a; a"
    assert text.sentences([], 50) == ""
