"""Print on stderr what one must know before using a capture's numbers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kernelscope.analysis.trace import Trace
from kernelscope.reports.text import WHOLE, printable


def about(trace: Trace) -> None:
    """Print a capture's warnings, such as possible secrets in it and possible work that was not read."""
    about_info(trace.info)
    missing = (trace.info.get("unavailable") or {}).get("kernels")
    if missing and not len(trace.kernels) and not len(trace.graphs):
        print(f"kernelscope: {printable(missing, None)}", file=sys.stderr)


def about_info(info: Mapping[str, Any]) -> None:
    """Print the warnings in the info of a Trace, or of an imported capture's record, and which file was chosen."""
    if chosen := info.get("chosen"):
        print(f"kernelscope: {printable(str(chosen), WHOLE)}", file=sys.stderr)
    for warning in info.get("warnings", []):
        print(f"kernelscope: warning: {printable(warning, WHOLE)}", file=sys.stderr)
