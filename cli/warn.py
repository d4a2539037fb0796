"""Say on stderr what a capture's reader must know before its numbers are used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelscope.analysis.trace import Trace


def about(trace: Trace) -> None:
    """Print the warnings of an imported capture, such as what looks like a secret in it."""
    from kernelscope.reports.text import printable

    for warning in trace.info.get("warnings", []):
        print(f"kernelscope: warning: {printable(warning)}", file=sys.stderr)
