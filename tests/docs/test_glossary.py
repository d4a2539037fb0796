"""The glossary has each name that a user meets in tables and options."""

import re
from pathlib import Path

from kernelscope.analysis import trace
from kernelscope.analysis.accounting import breakdowns

PAGE = (Path(__file__).parents[2] / "docs/glossary.md").read_text(encoding="utf8")
NAMED = set(re.findall(r"`([^`]+)`", PAGE))
TERMS = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)


def test_terms_are_in_alphabetical_order_and_once():
    assert [term.lower() for term in TERMS] == sorted({term.lower() for term in TERMS})
    assert len(TERMS) > 50


def test_tables_and_columns_of_the_trace_are_described():
    names = {*trace.TABLES, *(column.name for columns in trace.TABLES.values() for column in columns)}
    assert names - NAMED == set()


def test_kinds_phases_and_breakdowns_are_described():
    assert {*trace.KINDS, *trace.PHASES, *breakdowns.BY} - NAMED == set()


def test_what_a_breakdown_can_be_by_is_a_term():
    assert set(breakdowns.BY) - set(TERMS) == set()
