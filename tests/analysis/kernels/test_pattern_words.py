"""Looking for words first finds the same pattern as trying them all."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.analysis.kernels.lookup import spell
from kernelscope.analysis.kernels.pattern_words import Patterns, clauses
from kernelscope.analysis.kernels.rules import RULES

PATTERNS = [rule.pattern for rule in RULES]
KERNELS = Patterns(PATTERNS)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("abc", [{"abc"}]),
        ("^ABC_kernel", [{"abc_kernel"}]),
        (r"abc\w*def", [{"abc"}, {"def"}]),
        (r"abcd?ef?ghi", [{"abc"}, {"ghi"}]),
        (r"at::native::.*(?i:relu|gelu)", [{"at::native::"}, {"relu", "gelu"}]),
        (r"abc|(?:def|ghi)jkl", [{"abc", "def", "ghi"}, {"abc", "jkl"}]),
        ("|".join(f"abc.*def.*ghij{number}" for number in range(9)), [{f"ghij{number}" for number in range(9)}]),
        (r"abc|d", []),
        (r"(?:abc)?(?:def)*(?:ghi){0,2}jkl", [{"jkl"}]),
        (r"(?:abc){2}", [{"abc"}]),
        (r"(?<!no)yes(?!no)(?=but)", [{"yes"}, {"but"}]),
        (r"abc[d)(|]efg", [{"abc"}, {"efg"}]),
        (r"a\.b\(c", [{"a.b(c"}]),
        (r"x+y", []),
    ],
)
def test_words_that_a_pattern_needs(pattern, words):
    assert clauses(pattern) == [frozenset(clause) for clause in words]


def test_brackets_that_are_not_closed_are_refused():
    with pytest.raises(ValueError, match="not closed"):
        clauses("(ab")


def naive(text):
    return next((number for number, pattern in enumerate(PATTERNS) if re.search(pattern, text)), None)


def test_examples_of_rules():
    names = [spell(rule.example) for rule in RULES]
    assert [KERNELS.first(name) for name in names] == [naive(name) for name in names]


ASCII = st.characters(max_codepoint=127)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(PATTERNS).flatmap(lambda pattern: st.from_regex(pattern, alphabet=ASCII)), st.sampled_from([str, str.upper])
)
def test_whatever_matches_is_found(text, written):
    assert KERNELS.first(written(text)) == naive(written(text))


@pytest.mark.parametrize("text", ["\u017foftmax", "\u212aernel", "mem\u017fet", "ALLREDUCE\u0130", "", "\n"])
def test_letters_with_several_lower_cases(text):
    patterns = Patterns(["(?i)softmax", "(?i)kernel", "(?i)memset", "(?i)allreducei"])
    found = [
        number
        for number, pattern in enumerate(["(?i)softmax", "(?i)kernel", "(?i)memset", "(?i)allreducei"])
        if re.search(pattern, text)
    ]
    assert patterns.first(text) == next(iter(found), None)
