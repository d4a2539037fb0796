"""Why one side is slower than the other: an exact account of the difference, and its ranked causes.

from kernelscope.analysis.explain.explanation import explain
from kernelscope.analysis.explain.sides import load
explain(load(Path("out/demo/tensorflow")), load(Path("out/demo/pytorch")))
"""
