"""Lasagne: the evidence of Theano."""

from __future__ import annotations

from kernelscope.analysis.attribution.frameworks.theano import read

__all__ = ["read"]
