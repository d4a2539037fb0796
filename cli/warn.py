"""Say on stderr what a capture's reader must know before its numbers are used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kernelscope.analysis.trace import Trace
from kernelscope.reports.text import WHOLE, printable


def about(trace: Trace) -> None:
    """Print the warnings of a capture, such as what looks like a secret in it and what of it may be work and is not read."""
    about_info(trace.info)
    missing = (trace.info.get("unavailable") or {}).get("kernels")
    if missing and not len(trace.kernels) and not len(trace.graphs):
        print(f"kernelscope: {printable(missing, None)}", file=sys.stderr)


def about_info(info: Mapping[str, Any]) -> None:
    """Print the warnings in a Trace's info, or in that of an imported capture's record."""
    for warning in info.get("warnings", []):
        print(f"kernelscope: warning: {printable(warning, WHOLE)}", file=sys.stderr)
