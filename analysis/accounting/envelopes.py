"""Every breakdown of a Trace as plain data, as reports, imports and exports hold them."""

from __future__ import annotations

from typing import Any

from kernelscope.analysis.accounting.breakdowns import BY, breakdowns
from kernelscope.analysis.trace import Trace


def envelopes(trace: Trace) -> list[dict[str, Any]]:
    """Return Breakdown.as_dict for each key, or {"by", "unavailable": reason, "rows": []} if the evidence does not allow it."""
    made = breakdowns(trace, tuple(BY))
    return [{"by": by, "unavailable": one, "rows": []} if isinstance(one, str) else one.as_dict() for by, one in made.items()]
