"""GPU activity straight from CUPTI, without Nsight Systems: a collector inside the traced process.

It needs the package `cupti-python` (Python 3.9 or later), imported only on request. CUPTI fills buffers while the program runs
and hands them over when they are full or on `flush`, between windows of steps. Only then are records encoded and appended to
cupti.records (see activity_records): memory stays bounded by CUPTI's buffers, and little happens inside a step. CUPTI serves
one client per process: a framework's own GPU profiler must be off.

Kernels of CUDA graphs are recorded one by one, with the ids of graph and node. With graphs="graph", CUPTI's cheaper records of
whole graphs replace them: CUPTI does not give both.

Self-check on a machine with a GPU: python -m kernelscope.tracer.inside.cupti --check FOLDER
"""

import ctypes
import importlib
import os
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from kernelscope.tracer.inside import activity_records
from kernelscope.tracer.inside.clock import now_ns

FILE = "cupti.records"
BUFFER_BYTES = 8 << 20  # about 30 000 records: the steps of most windows fit, so encoding waits for the window's end
MOST_RANGES = 1 << 12  # kept in memory until they are written
LEAST_PYTHON = (3, 9)

NODE, GRAPH = "node", "graph"
# The CUPTI activity kinds to enable, by name; the first one must work
_KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET", "RUNTIME", "DRIVER", "SYNCHRONIZATION", "EXTERNAL_CORRELATION",
          "OVERHEAD", "MEMORY2", "DEVICE", "CONTEXT")  # fmt: skip
_NEEDED = ("ActivityKind", "activity_enable", "activity_disable", "activity_flush_all", "activity_register_callbacks",
           "activity_get_num_dropped_records", "activity_push_external_correlation_id",
           "activity_pop_external_correlation_id", "get_timestamp", "set_thread_id_type", "subscribe", "unsubscribe")  # fmt: skip
_SYSTEM_THREADS = 1  # CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM: what gettid returns
_RANGES = 5  # CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2; frameworks take CUSTOM0 and CUSTOM1
_RUNTIME_CALL = 5  # CUPTI_ACTIVITY_KIND_RUNTIME
_FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED

_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_NOT_STARTED = (15, 999)  # CUPTI_ERROR_NOT_INITIALIZED, CUPTI_ERROR_UNKNOWN: CUPTI's errors without a device

BEGIN, DURING, END = range(3)  # places of clock pairs

# CUptiResult -> what it means here and what to do
_REMEDIES = {
    2: "no such CUDA device; check CUDA_VISIBLE_DEVICES",
    15: "CUPTI could not start; check that nvidia-smi lists a GPU, and install the cupti-python for the driver's CUDA",
    26: "another client uses the profiling hardware; end it and run again",
    27: "not supported on this system or device; use --collector framework",
    33: "a virtualised GPU cannot be profiled; use --collector framework",
    35: "no permission to profile: run as root, or have the driver loaded with NVreg_RestrictProfilingToAdminUsers=0",
    39: "another profiler (nsys, ncu, a debugger, the framework's own) uses CUPTI; end it, or choose its collector",
    40: "the hypervisor does not allow profiling of this GPU; allow it there, or use --collector framework",
    41: "no profiling while confidential computing is on; use --collector framework",
    42: "mining processors cannot be profiled",
    43: "CUPTI does not profile this MIG instance; run on a whole GPU, or use --collector framework",
    44: "GPUs linked by SLI cannot be profiled; unlink them",
    45: "not supported under WSL with this driver; use --collector framework",
    999: "CUPTI could not start; check that nvidia-smi lists a GPU, and install the cupti-python for the driver's CUDA",
}  # fmt: skip


class Unavailable(Exception):
    """CUPTI cannot be used: one line with the reason and the remedy."""

    def __init__(self, reason: str) -> None:
        Exception.__init__(self, reason)
        self.reason = reason


class Cupti(object):
    """Records into FOLDER/cupti.records from start to stop; `push` and `pop` tie launches to ranges (a Recorder's correlator).

    graphs: "node" for every kernel of a CUDA graph, "graph" for whole graphs only. latency: also record when kernels were
    queued and submitted, which makes launches slower.
    """

    def __init__(self, folder: str, graphs: Any = NODE, latency: bool = False) -> None:
        self.path = os.path.join(folder, FILE)
        self.graphs = graphs
        self.latency = latency
        self.kinds: Dict[str, Any] = {}
        self.versions: Dict[str, Any] = {}
        self.errors: List[str] = []
        self.dropped = 0
        self._encoding_ns = 0
        self._package: Any = None
        self._subscriber: Any = None
        self._encoder: Any = None
        self._out: Any = None
        self._opened = False
        self._process: Any = None
        self._lock = threading.Lock()
        self._ranges: List[Any] = []
        self._written = 0

    def start(self) -> None:
        """Start recording. Raises Unavailable, with nothing left behind, if CUPTI cannot be used here."""
        self._package = _load()
        self._process = os.getpid()
        self._encoder = activity_records.Encoder(_function_names(self._package))
        self.versions = _versions()
        try:
            self._subscriber = self._call("subscribe", _ignore, None)  # fails if another profiler uses CUPTI already
            self._call("set_thread_id_type", _SYSTEM_THREADS)
            self._open()
            self._call("activity_register_callbacks", self._buffer_requested, self._buffer_completed)
            self._enable()
            self._write(self._header() + self._clock(BEGIN))
            if self._out is None:
                raise Unavailable("%s: %s" % (self.path, self.errors[-1]))
        except Unavailable:
            self._undo()
            raise

    def flush(self) -> None:
        """Write the records that CUPTI has completed; call it while no step is measured."""
        if self._out is None or os.getpid() != self._process:
            return
        self._quietly("activity_flush_all", 0)
        self._tail(DURING)

    def stop(self) -> Optional[Dict[str, Any]]:
        """Stop recording and close the file. Returns the report for child.json, or None if nothing was being recorded."""
        if self._subscriber is None or os.getpid() != self._process:
            return None
        self._quietly("activity_flush_all", 0)
        self._disable()
        self._quietly("activity_flush_all", _FORCED)
        self._tail(END)
        with self._lock:
            report = self._report()
            self._write(activity_records.json_block(b"DONE", report))
            self._close()
        subscriber, self._subscriber = self._subscriber, None
        self._quietly("unsubscribe", subscriber)
        return report

    def push(self, number: int) -> None:
        """Tie this thread's launches from now on to the range of this number."""
        self._quietly("activity_push_external_correlation_id", _RANGES, number)

    def pop(self, number: int, name: str, thread: int, start: int, end: int) -> None:
        """Close the range and write its name, thread and times (CLOCK_MONOTONIC, ns) beside the launches."""
        self._quietly("activity_pop_external_correlation_id", _RANGES)
        self._ranges.append((number, name, thread, start, end))
        if len(self._ranges) >= MOST_RANGES:
            with self._lock:
                self._write(self._pending())

    # Callbacks: they must not raise into CUPTI

    def _buffer_requested(self) -> Tuple[Any, int]:
        return BUFFER_BYTES, 0

    def _buffer_completed(self, records: Any) -> None:
        begin = now_ns()
        try:
            with self._lock:
                if self._out is not None and os.getpid() == self._process:
                    self._write(self._encoder.encode(records))
        except Exception as error:
            self._note(error)
        self._encoding_ns += now_ns() - begin

    # Steps of start and stop

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._package, name)(*arguments)
        except Exception as error:
            raise Unavailable("CUPTI: %s" % _reason(self._package, error)) from error

    def _quietly(self, name: str, *arguments: Any) -> None:
        try:
            getattr(self._package, name)(*arguments)
        except Exception as error:
            self._note(error)

    def _note(self, error: Exception) -> None:
        if len(self.errors) < 10:
            self.errors.append("%s: %s" % (type(error).__name__, str(error).split("\n")[0]))

    def _enable(self) -> None:
        if self.latency:
            self._call("activity_enable_latency_timestamps", 1)
        for name in _KINDS + (("GRAPH_TRACE",) if self.graphs == GRAPH else ()):
            kind = getattr(self._package.ActivityKind, name, None)
            try:
                if kind is None:
                    raise NotImplementedError("this cupti-python does not have this kind")
                self._package.activity_enable(kind)
                self.kinds[name] = "on"
            except Exception as error:
                self.kinds[name] = _reason(self._package, error)
                if name == _KINDS[0]:
                    raise Unavailable("CUPTI: %s" % self.kinds[name]) from error

    def _open(self) -> None:
        try:
            self._out = open(self.path, "wb", buffering=0)
        except OSError as error:
            raise Unavailable("%s: %s" % (self.path, error.strerror)) from error
        self._opened = True
        self._write(activity_records.MAGIC)

    def _disable(self) -> None:
        for name, state in self.kinds.items():
            if state == "on":
                self._quietly("activity_disable", getattr(self._package.ActivityKind, name))

    def _undo(self) -> None:
        self._disable()
        if self._subscriber is not None:
            self._quietly("unsubscribe", self._subscriber)
            self._subscriber = None
        self._close()
        if self._opened:
            os.remove(self.path)

    def _close(self) -> None:
        out, self._out = self._out, None
        if out is not None:
            out.close()

    # What is written

    def _write(self, content: bytes) -> None:
        """Append to the file; a full disk stops the recording, not the program."""
        try:
            while content and self._out is not None:
                count = self._out.write(content)
                self._written += count
                content = content[count:]
        except OSError as error:
            self._note(error)
            self._close()

    def _header(self) -> Any:
        head = {
            "format": 1,
            "process": self._process,
            "versions": self.versions,
            "kinds": self.kinds,
            "graphs": self.graphs,
            "latency": self.latency,
            "range_kind": _RANGES,
            "tables": activity_records.layout(),
        }
        return activity_records.json_block(b"HEAD", head)

    def _clock(self, place: Any) -> Any:
        """Return a simultaneous reading of CUPTI's clock and ours: the tightest of several, as clock.anchor does."""
        best = None
        for _ in range(7):
            before = now_ns()
            cupti = self._package.get_timestamp()  # worked before, in _load
            after = now_ns()
            if best is None or after - before < best[2]:
                best = (cupti, (before + after) // 2, after - before, place)
        return self._encoder.rows("clock", [best])

    def _tail(self, place: Any) -> None:
        """Write what CUPTI does not deliver in buffers."""
        try:
            with self._lock:
                self._write(self._pending() + self._losses() + self._clock(place))
        except Exception as error:
            self._note(error)

    def _pending(self) -> Any:
        ranges, self._ranges = self._ranges, []
        return self._encoder.rows("ranges", ranges)

    def _losses(self) -> Any:
        """Return a block with the number of records dropped since the last call, from CUPTI's global queue; empty if none."""
        count = ctypes.c_size_t(0)
        self._quietly("activity_get_num_dropped_records", 0, 0, ctypes.addressof(count))
        self.dropped += count.value
        return self._encoder.rows("dropped", [(-1, -1, count.value)] if count.value else [])

    def _report(self) -> Dict[str, Any]:
        return {
            "file": FILE,
            "bytes": self._written,
            "records": dict(self._encoder.counts),
            "dropped": self.dropped,
            "not_encoded": dict(self._encoder.failed),
            "unknown_kinds": {str(kind): count for kind, count in self._encoder.unknown.items()},
            "encoding_ns": self._encoding_ns,
            "kinds": self.kinds,
            "versions": self.versions,
            "errors": self.errors,
        }


def _ignore(userdata: Any, domain: Any, callback_id: int, data: Any) -> None:
    """Do nothing: we subscribe to CUPTI only so that nobody else can."""


def unavailable() -> Optional[str]:
    """Return why CUPTI cannot be used in this interpreter, without starting it; None if it seems usable.

    It queries the devices, which initialises CUDA: call it in a process of its own.
    """
    try:
        _load()
    except Unavailable as error:
        return error.reason
    return without_device()


def _load() -> Any:
    """Return the module cupti.cupti; raise Unavailable if the package, library or driver is missing."""
    if sys.version_info < LEAST_PYTHON:
        raise Unavailable(
            "cupti-python needs Python %d.%d or later and this is %d.%d; use --collector nsys or nvprof"
            % (LEAST_PYTHON + sys.version_info[:2])
        )
    driver = driver_version()
    if driver is None:
        raise Unavailable("no NVIDIA driver: libcuda.so.1 cannot be loaded; run on a machine (or in a container) with a GPU")
    wanted = "cupti-python" if driver >= 13000 else '"cupti-python<13"'
    try:
        package = importlib.import_module("cupti.cupti")
    except ImportError as error:
        raise Unavailable("%s; pip install %s into %s" % (error, wanted, sys.executable)) from error
    missing = [name for name in _NEEDED if not hasattr(package, name)]
    if missing:
        raise Unavailable("cupti-python %s has no %s; pip install --upgrade %s" % (_version(), ", ".join(missing), wanted))
    try:
        package.get_timestamp()  # loads libcupti, and compares it with the driver
    except Exception as error:
        raise Unavailable("CUPTI: %s" % _reason(package, error)) from error
    return package


def driver_version() -> Optional[int]:
    """Return the newest CUDA version that the driver supports, as 1000 * major + 10 * minor; None without a driver."""
    try:
        version = ctypes.c_int(0)
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)):
            return None
        return version.value
    except (OSError, AttributeError):
        return None


def without_device() -> Optional[str]:
    """Return why CUDA finds no device to run on, or None. Initialises CUDA."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int(0)
        status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
        if status == 0 and count.value:
            return None
    except (OSError, AttributeError):
        return None
    return "CUDA finds no device (error %d); check nvidia-smi and CUDA_VISIBLE_DEVICES" % (status or _NO_DEVICE)


def _reason(package: Any, error: Any) -> Optional[str]:
    """Return in one line what an exception of cupti-python means and what to do."""
    text = str(error).split("\n")[0]
    status = getattr(error, "status", None)
    if isinstance(error, getattr(package, "cuptiError", ())) and status is not None:
        remedy = _REMEDIES.get(int(status), "see CUptiResult in CUPTI's documentation")
        return "%s: %s" % (text, (without_device() if int(status) in _NOT_STARTED else None) or remedy)
    driver = driver_version() or 0
    if "later driver is supported" in text and without_device():
        return without_device()
    if "later driver is supported" in text:
        return "%s by cupti-python %s, and this one supports CUDA %d.%d; %s" % (
            text, _version(), driver // 1000, driver % 1000 // 10,
            'pip install "cupti-python<13"' if driver >= 12040 else "update the driver",
        )  # fmt: skip
    if "dlopen" in text or type(error).__name__ == "DynamicLibNotFoundError":
        return "libcupti cannot be loaded (%s); pip install %s" % (
            text, "nvidia-cuda-cupti" if driver >= 13000 else "nvidia-cuda-cupti-cu12",
        )  # fmt: skip
    return text or type(error).__name__


def _version() -> Any:
    """Return the installed version of cupti-python."""
    try:
        return importlib.import_module("importlib.metadata").version("cupti-python")
    except Exception:
        return "of unknown version"


def _versions() -> Dict[str, str]:
    return {
        "cupti_python": _version(),
        "driver_cuda": driver_version(),
        "python": "%d.%d.%d" % sys.version_info[:3],
    }


def _function_names(package: Any) -> Callable[..., Any]:
    """Return a function from (activity kind, callback id) to the name of the CUDA function, or None."""
    names: Dict[Any, Any] = {
        _RUNTIME_CALL: getattr(package, "runtime_api_trace_cbid", None) or getattr(package, "RuntimeApiTraceCbid", None),
        None: getattr(package, "driver_api_trace_cbid", None) or getattr(package, "DriverApiTraceCbid", None),
    }

    def name(kind: Any, number: int) -> Optional[str]:
        try:
            return names[kind if kind == _RUNTIME_CALL else None](number).name
        except (TypeError, ValueError):
            return None

    return name


def main(arguments: Sequence[str]) -> int:
    """Run the self-check; return 0 if every expected record arrived."""
    if len(arguments) != 2 or arguments[0] != "--check":
        print("usage: python -m kernelscope.tracer.inside.cupti --check FOLDER", file=sys.stderr)
        return 2
    return importlib.import_module("kernelscope.tracer.inside.cupti_check").check(arguments[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
