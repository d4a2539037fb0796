"""What calls of a device's API do with the host's time."""

import pandas as pd
import pytest

from kernelscope.analysis.attribution import calls


@pytest.mark.parametrize(
    ("name", "us", "waits"),
    [
        ("cudaStreamSynchronize", 3, True),
        ("cudaMemcpy", 3, True),
        ("cudaMemcpyAsync", 5, False),
        ("cudaMemcpyAsync", 400, True),  # pageable memory
        ("hipMemcpyWithStream", 5, True),
        ("cudaStreamWaitEvent", 2, False),  # the stream waits, not the host
        ("cudaMemsetAsync", 4, False),
        ("cudaLaunchKernel", 400, False),
    ],
)
def test_which_calls_wait_for_the_device(name, us, waits):
    table = pd.DataFrame({"name": pd.Categorical([name]), "start_ns": [1000], "end_ns": [1000 + us * 1000]})
    assert calls.waits(table).tolist() == [waits]
