"""NVTX ranges through ctypes.

The `nvtx` package returns silent dummy domains under older Nsight Systems (since release 0.2.12 it needs a function that they
do not implement), and it cannot be installed under Python 3.6. The C library behind it has neither problem, so it is called
directly, in the default domain.
"""

import ctypes
import glob
import os
import sys
from typing import Any, Dict, Iterator, Optional

_NAMES = ("libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1", "libnvToolsExt.so")


class Nvtx(object):
    """push(name) and pop() of NVTX's default domain."""

    def __init__(self, library: Any) -> None:
        self._push = library.nvtxRangePushA
        self._push.argtypes = [ctypes.c_char_p]
        self._push.restype = ctypes.c_int
        self._pop = library.nvtxRangePop
        self._pop.argtypes = []
        self._pop.restype = ctypes.c_int
        self.names: Dict[str, int] = {}  # how often a range of each name was opened

    @property
    def emitted(self) -> int:
        """How many ranges were opened."""
        return sum(self.names.values())

    def push(self, name: str) -> None:
        """Open a range and count it; with the counts, a capture can be checked for losses."""
        self._push(name.encode("utf8", "replace"))
        self.names[name] = self.names.get(name, 0) + 1

    def pop(self) -> None:
        """Close the innermost range."""
        self._pop()


def listening() -> bool:
    """Return whether a tool (nsys, ncu, ...) has asked to receive NVTX in this process."""
    return bool(os.environ.get("NVTX_INJECTION64_PATH") or os.environ.get("KERNELSCOPE_NVTX_LIBRARY"))


def _candidates() -> Iterator[str]:
    named = os.environ.get("KERNELSCOPE_NVTX_LIBRARY")
    if named:
        yield named
    for folder in sys.path:
        for name in _NAMES:
            for path in glob.glob(os.path.join(folder, "nvidia", "*", "lib", name)):
                yield path
    for name in _NAMES:
        yield name


def load(wanted: bool = False) -> "Optional[Nvtx]":
    """Return an Nvtx; None if no tool listens and ranges are not `wanted`, or if no library can be loaded."""
    if not wanted and not listening():
        return None
    for path in _candidates():
        try:
            return Nvtx(ctypes.CDLL(path))
        except (OSError, AttributeError):
            continue
    return None
