"""toyframe: operators that the wrappers of its layers timed, computed in Python."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.attribution.frameworks import Context, Evidence, timed

_KINDS = {"dense forward": "gemm", "dense backward": "gemm", "tanh forward": "activation", "tanh backward": "activation"}


def read(folder: Path, context: Context) -> Evidence:
    """Return operators and kernels of a kernels pass; raises EvidenceError when a file of it cannot be read."""
    return timed.read(folder, "toyframe", _KINDS.get, "launch range", context, blas="none")
