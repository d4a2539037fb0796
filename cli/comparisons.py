"""Write comparisons and explanations to stdout, for every command that makes one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kernelscope.cli.output import write_result
from kernelscope.reports import comparison_tables, comparison_terminal


def write_comparison(result: Mapping[str, Any], form: str) -> None:
    """Write a comparison in one of FORMATS; CSV is its table of layers."""
    if form == "csv":
        sys.stdout.write(comparison_tables.comparison_csv(dict(result)))
    else:
        write_result(result, form, comparison_terminal.comparison, comparison_tables.comparison_markdown)


def write_explanation(result: Mapping[str, Any], form: str) -> None:
    """Write an explanation (the result of analysis.explain): as a table, as Markdown or as JSON."""
    write_result(result, form, comparison_terminal.explained, comparison_tables.explanation_markdown)
