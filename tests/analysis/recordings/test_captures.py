"""What every command says of a capture that could not be used whole."""

import pytest

from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import Trace


@pytest.mark.parametrize(
    "name",
    [
        "oneDNN lines that end before the duration", "events without a partner", "ends before starts", "kernels_without_time",
        "nsys warnings of lost records", "frames with a time or a count that is none", "calls without a thread",
        "what nobody thought of yet",
    ],
)  # fmt: skip
def test_what_the_trace_lacks_is_said(name):
    assert captures.lost(Trace(diagnostics={name: 3})) == {name.replace("_", " "): 3}


@pytest.mark.parametrize(
    "name",
    [
        "launches without a kernel", "kernels without their API call", "copies that begin before their launch", "open_ranges",
        "kernels launched outside of any range", "calls with several kernels, graphs aside",
        "API calls that repeat a correlation id", "ranges that outlast the one around them", "kernels written twice",
        "operators recorded again as tasks",
        "duplicates on stream:all and memcpy", "names that the tool cut short", "names cut short by the tool",
        "kernel names cut short by the tool", "dependencies not read", "steps at the end without device work, left out",
        "tasks of collectives, ns", "profiler's own overhead, ns", "values_not_available",
        "collectives without a transfer, which wait for other ranks, ns",
        "rows of unified memory that are no transfers", "overhead of CUDA's compiling, loading and full buffers, ns",
    ],
)  # fmt: skip
def test_what_is_odd_and_no_loss_is_not_said(name):
    assert captures.lost(Trace(diagnostics={name: 3})) == {}
