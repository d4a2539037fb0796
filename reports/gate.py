"""The verdict of a gate for the terminal, for pull requests (Markdown) and for CI servers (JUnit XML)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from kernelscope.reports import comparison_tables, explanation, explanation_lines, text

_WIDTH = 120  # columns of the account
_HEADS = {"passed": "passed", "failed": "FAILED", "undecided": "undecided"}


def headline(verdict: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return the verdict in one line: gate FAILED: NEW takes 12.3% more per step than BASE (95%: 11.0% to 13.1%; limit 3%)."""
    base, new = explanation.names(result)
    change = verdict["change"]
    direction = "more" if change >= 0 else "less"
    interval = "" if verdict["low"] is None else f"95%: {_signed(verdict['low'])} to {_signed(verdict['high'])}; "
    said = f"{new} takes {abs(change):.1%} {direction} per step than {base}"
    return f"gate {_HEADS[verdict['status']]}: {said} ({interval}limit {verdict['limit']:+.1%})"


def remark(verdict: Mapping[str, Any]) -> str:
    """Return the reason, and which changes these recordings cannot show."""
    seen = verdict["seen"]
    blind = seen is not None and seen > verdict["limit"]
    limit = f"; changes below {seen:.1%} cannot be seen in these recordings" if blind else ""
    return f"{verdict['why']}{limit}"


def markdown(verdict: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return verdict and account for a pull request."""
    head = f"## {text.markdown(headline(verdict, result))}\n\n{text.markdown(remark(verdict))}\n\n"
    return head + comparison_tables.explanation_markdown(result)


def junit(verdict: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return a JUnit test suite with one case, whose failure contains the account; an undecided gate is a skipped test."""
    base, new = (text.printable(name) for name in explanation.names(result))
    status = verdict["status"]
    counts = {"tests": "1", "failures": str(int(status == "failed")), "skipped": str(int(status == "undecided")), "errors": "0"}
    seconds = f"{verdict['new_ns'] / 1e9:.9f}"
    suite = ElementTree.Element("testsuite", {"name": "kernelscope gate", **counts, "time": seconds})
    properties = ElementTree.SubElement(suite, "properties")
    for name in ("base_ns", "new_ns", "change", "low", "high", "limit", "seen"):
        if verdict[name] is not None:
            ElementTree.SubElement(properties, "property", {"name": name, "value": repr(verdict[name])})
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": "kernelscope.gate", "name": f"{base} to {new}", "time": seconds}
    )
    if status != "passed":
        outcome = ElementTree.SubElement(case, "failure" if status == "failed" else "skipped")
        outcome.set("message", f"{headline(verdict, result)}: {remark(verdict)}")
        outcome.text = _account(result)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _account(result: Mapping[str, Any]) -> str:
    """Return the account as `explain` prints it, without characters that XML does not allow."""
    return "\n".join(text.printable(line.plain.rstrip(), None) for line in explanation_lines.lines(result, _WIDTH))


def _signed(share: float) -> str:
    return f"{share:+.1%}"
