"""Names of copies in printed tables."""

import pytest

from kernelscope.analysis.formats.printed import operation


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("[CUDA memcpy HtoD]", "host to device"), ("[CUDA memcpy Host-to-Array]", "host to device"),
        ("[CUDA memcpy HtoA]", "host to device"), ("[CUDA memcpy Array-to-Host]", "device to host"),
        ("[CUDA memcpy DtoA]", "device to device"), ("[CUDA memcpy AtoA]", "device to device"),
        ("[CUDA memset]", "set"), ("[CUDA memcpy ArraytoHosts]", "other"),
    ],
)  # fmt: skip
def test_directions_of_copies(name, expected):
    assert operation(name) == expected
