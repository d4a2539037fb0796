"""Figures, one function each, which return a matplotlib Figure and leave saving to the caller.

| module | figures of |
|---|---|
| comparison | frameworks side by side: step times, kinds, layers |
| run | one run: its steps one by one |
| breakdown | any breakdown: its longest rows |
| explanation | the parts of a difference, and its causes |
| roofline | attained rates below the ceilings |
| drawing | common parts: styles, colours, names |
| gathered | the figures of a comparison, run, capture or explanation |
| files | all of these as PNG, SVG and PDF |
"""

from kernelscope.reports.figures.breakdown import rows
from kernelscope.reports.figures.comparison import kinds_stacked, layers, layers_stacked, step_times
from kernelscope.reports.figures.drawing import PAPER, SLIDES, STYLES, Style, drawing, short
from kernelscope.reports.figures.explanation import causes, waterfall
from kernelscope.reports.figures.roofline import roofline
from kernelscope.reports.figures.run import steps

__all__ = [
    "PAPER", "SLIDES", "STYLES", "Style", "causes", "drawing", "kinds_stacked", "layers",
    "layers_stacked", "roofline", "rows", "short", "step_times", "steps", "waterfall",
]  # fmt: skip
