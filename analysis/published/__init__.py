"""Numbers published by others, and how far our measurements agree with them: ratios between frameworks, and their order."""

from kernelscope.analysis.published.agreement import ConditionGroup, PublishedPair, compare
from kernelscope.analysis.published.sources import (
    FRAMEWORKS,
    SOURCES,
    LineRow,
    Publication,
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
    "ConditionGroup",
    "LineRow",
    "Publication",
    "PublishedPair",
    "Statement",
    "Value",
    "compare",
    "line_rows",
    "line_runs",
    "statements",
    "values",
]
