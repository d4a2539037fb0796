"""The OpenBLAS bundled with numpy. It prints nothing, so numpy's calls are redirected and timed (see interpose)."""

import ctypes
import re
from typing import Any, Callable, Dict, List, Optional, Tuple

from kernelscope.tracer.inside import interpose
from kernelscope.tracer.inside.frameworks import mkl_calls
from kernelscope.tracer.inside.own import open, os
from kernelscope.tracer.inside.ranges import Recorder

CALLS_FILE = "calls.blas.jsonl"
CALLER, CALLEE = "_multiarray_umath", "libopenblas"


def limit_threads(threads: Optional[int]) -> None:
    """Limit OpenBLAS and OpenMP to this many threads; None keeps their defaults. Call it before numpy is imported."""
    if threads:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = str(threads)


def facts() -> Dict[str, Any]:
    """Return {"version", "threads", "core"} of the loaded OpenBLAS, as far as it reports them; {} if none is loaded.

    core: the processor type whose code it uses.
    """
    path = interpose.loaded(CALLEE)
    if path is None:
        return {}
    library, found = ctypes.CDLL(path), {}
    if hasattr(library, "openblas_get_config"):
        library.openblas_get_config.restype = ctypes.c_char_p
        text = library.openblas_get_config().decode("ascii", "replace")
        version = re.search(r"OpenBLAS (\d[\w.]*)", text)
        if version:
            found["version"] = version.group(1).rstrip(".")
    if hasattr(library, "openblas_get_num_threads"):
        found["threads"] = int(library.openblas_get_num_threads())
    if hasattr(library, "openblas_get_corename"):
        library.openblas_get_corename.restype = ctypes.c_char_p
        found["core"] = library.openblas_get_corename().decode("ascii", "replace")
    return found


class Calls(object):
    """numpy's OpenBLAS calls inside steps, from `start` on. notice: called whenever one of them has returned."""

    def __init__(self, recorder: Recorder, notice: Optional[Callable[[], Any]] = None) -> None:
        def active() -> bool:
            if recorder.in_step and notice is not None:
                notice()
            return recorder.in_step

        self.calls = mkl_calls.Calls(active)
        self.functions: List[Any] = []

    def start(self) -> List[str]:
        """Time the calls from now on; return the names of the timed functions, [] if calls cannot be timed."""
        caller, callee = interpose.loaded(CALLER), interpose.loaded(CALLEE)
        if caller and callee and interpose.supported():
            self.calls.library = interpose.Library(caller, callee)
            self.functions = self.calls.time()
        return self.functions

    def times(self, first: int) -> List[Tuple[int, int]]:
        """Return [(start, end)] in ns of the calls from this number on."""
        return [(row[1], row[2]) for row in self.calls.rows[first:]]

    def count(self) -> int:
        """Return the number of calls so far."""
        return len(self.calls.rows)

    def stop(self, folder: str) -> List[str]:
        """Stop timing and write the calls to the pass's folder; return the names of the written files."""
        self.calls.untime(self.functions)
        if not self.functions:
            return []
        with open(os.path.join(folder, CALLS_FILE), "wb") as out:
            self.calls.write(out)
        return [CALLS_FILE]
