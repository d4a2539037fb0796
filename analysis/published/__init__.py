"""Numbers published by others, and how far what is measured here agrees with them: ratios between frameworks, and their order."""

from kernelscope.analysis.published.agreement import Group, Pair, compare
from kernelscope.analysis.published.sources import (
    FRAMEWORKS,
    SOURCES,
    LineRow,
    Source,
    Statement,
    Value,
    line_rows,
    line_runs,
    statements,
    values,
)

__all__ = [
    "FRAMEWORKS",
    "SOURCES",
    "Group",
    "LineRow",
    "Pair",
    "Source",
    "Statement",
    "Value",
    "compare",
    "line_rows",
    "line_runs",
    "statements",
    "values",
]
