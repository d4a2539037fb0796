"""work: to be written."""

from __future__ import annotations

from kernelscope.analysis.explain.model import Rule

RULES: tuple[Rule, ...] = ()
