"""Self-check of the CUPTI collector on a machine with a GPU: compares what was launched with what was recorded.

The program calls CUDA's driver API through ctypes. It needs no framework, and every count is known: empty kernels, copies both
ways, a memset, waits, and one CUDA graph. If PyTorch, CuPy or JAX can be imported, a few of its operations run in a process of
their own; at least as many kernels must arrive.
"""

import collections
import ctypes
import importlib
import importlib.util
import json
import os
import struct
import subprocess
import sys
from typing import Any, Callable, Dict, List

from kernelscope.tracer.inside import activity_records
from kernelscope.tracer.inside.ranges import Recorder

LAUNCHES = 100
GRAPH_KERNELS = 5
BYTES = 1 << 20
FRAMEWORKS = ("torch", "cupy", "jax")

_SKIPPED = 3  # status of a process that had nothing to check
_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
_KERNEL = b"kernelscope_check"
_PTX = b"""
.version 6.4
.target %s
.address_size 64
.visible .entry kernelscope_check() { ret; }
"""
_TARGETS = (b"sm_52", b"sm_75", b"sm_90")  # drivers drop old ones over time


class Failed(Exception):
    """A CUDA call failed."""


class Skipped(Exception):
    """A framework that can be imported has no GPU."""


class _Cuda(object):
    """CUDA's driver library: every function raises Failed if its result is not 0."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self._library, name)

        def call(*arguments: Any) -> None:
            status = function(*arguments)
            if status:
                raise Failed("%s: error %d" % (name, status))

        return call


def _driver_program(recorder: Recorder) -> Dict[str, Any]:
    """Launch a known amount of work; return the expected counts by table."""
    cuda = _Cuda()
    context, module, kernel, stream, memory = (ctypes.c_void_p() for _ in range(5))
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)
    _load_module(cuda, module)
    cuda.cuModuleGetFunction(ctypes.byref(kernel), module, _KERNEL)
    cuda.cuStreamCreate(ctypes.byref(stream), 1)
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(BYTES))
    host = ctypes.create_string_buffer(BYTES)
    launch = [kernel, 2, 1, 1, 32, 1, 1, 0, stream, None, None]
    for _ in recorder.steps(iter("a"), 1):
        cuda.cuMemcpyHtoD_v2(memory, host, ctypes.c_size_t(BYTES))
        recorder.push("layer", "layer")
        for _ in range(LAUNCHES):
            cuda.cuLaunchKernel(*launch)
        recorder.pop()
        cuda.cuMemsetD8Async(memory, ctypes.c_ubyte(7), ctypes.c_size_t(BYTES), stream)
        _launch_graph(cuda, stream, launch)
        cuda.cuStreamSynchronize(stream)
        cuda.cuMemcpyDtoH_v2(host, memory, ctypes.c_size_t(BYTES))
        cuda.cuCtxSynchronize()
    recorder.flush()
    if host.raw != b"\x07" * BYTES:
        raise Failed("the device's memory does not contain the bytes that were set")
    return {"kernels": LAUNCHES + GRAPH_KERNELS, "copies": 2, "memsets": 1}


def _load_module(cuda: Any, module: Any) -> None:
    for target in _TARGETS:
        try:
            cuda.cuModuleLoadData(ctypes.byref(module), _PTX % target)
            return
        except Failed:
            if target == _TARGETS[-1]:
                raise


def _launch_graph(cuda: Any, stream: Any, launch: Any) -> None:
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cuStreamBeginCapture_v2(stream, _STREAM_CAPTURE_MODE_THREAD_LOCAL)
    for _ in range(GRAPH_KERNELS):
        cuda.cuLaunchKernel(*launch)
    cuda.cuStreamEndCapture(stream, ctypes.byref(graph))
    cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
    cuda.cuGraphLaunch(executable, stream)


def _torch_program(recorder: Recorder) -> None:
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise Skipped("it finds no GPU")
    values = torch.ones(1 << 16, device="cuda")
    for _ in recorder.steps(iter("a"), 1):
        for _ in range(LAUNCHES):
            values.add_(1)
        torch.cuda.synchronize()


def _cupy_program(recorder: Recorder) -> None:
    cupy = importlib.import_module("cupy")
    values = cupy.ones(1 << 16)
    for _ in recorder.steps(iter("a"), 1):
        for _ in range(LAUNCHES):
            values += 1
        cupy.cuda.Device().synchronize()


def _jax_program(recorder: Recorder) -> None:
    jax = importlib.import_module("jax")
    if jax.default_backend() != "gpu":
        raise Skipped("it finds no GPU")
    values = jax.numpy.ones(1 << 16)
    for _ in recorder.steps(iter("a"), 1):
        for _ in range(LAUNCHES):
            values = values + 1
        values.block_until_ready()


def record(program: str, folder: str) -> Dict[str, Any]:
    """Run one program ("driver" or a framework) under the collector; return the expected counts and the collector's report."""
    from kernelscope.tracer.inside import cupti

    os.makedirs(folder, exist_ok=True)
    collector = cupti.Cupti(folder)
    collector.start()
    recorder = Recorder(folder, layers=True)
    recorder.correlator = collector
    expected = globals()["_%s_program" % program](recorder) or {"kernels": LAUNCHES}
    return {"program": program, "expected": expected, "exact": program == "driver", "report": collector.stop()}


def read_rows(path: str, table: str) -> List[Dict[Any, Any]]:
    """Return the rows of one table as dictionaries. For small files; needs only the standard library."""
    found, place = [], len(activity_records.MAGIC)
    tag, *columns = activity_records.TABLES[table]
    names = [name for name, _, _ in columns]
    layout = struct.Struct("<" + "".join("I" if code == activity_records.TEXT else code for _, _, code in columns))
    with open(path, "rb") as file:
        content = file.read()
    while place + activity_records.BLOCK.size <= len(content):
        mark, _, length, _ = activity_records.BLOCK.unpack_from(content, place)
        place += activity_records.BLOCK.size
        if mark == tag:
            found += [dict(zip(names, row)) for row in layout.iter_unpack(content[place : place + length])]
        place += length
    return found


def judge(result: Any, path: str) -> List[str]:
    """Return what is wrong with a recording, one line each; empty if it is complete."""
    wrong = []
    recorded = collections.Counter({name: len(read_rows(path, name)) for name in activity_records.TABLES})
    for table, count in result["expected"].items():
        if recorded[table] < count or (result["exact"] and recorded[table] != count):
            wrong.append("%s: %d launched, %d recorded" % (table, count, recorded[table]))
    if result["report"]["dropped"]:
        wrong.append("CUPTI dropped %d records" % result["report"]["dropped"])
    wrong += result["report"]["errors"]
    wrong += ["%s records could not be encoded" % table for table in result["report"]["not_encoded"]]
    if result["exact"]:
        wrong += _judge_ties(path)
    return wrong


def _judge_ties(path: str) -> List[str]:
    """Check that launches carry their range, that graph kernels carry their graph, and that times are in order."""
    kernels = read_rows(path, "kernels")
    layers = {row["id"] for row in read_rows(path, "ranges")}
    tied = {row["correlation"] for row in read_rows(path, "external") if row["external"] in layers}
    wrong = []
    if sum(row["correlation"] in tied for row in kernels) < LAUNCHES:
        wrong.append("only %d of %d kernels have a range" % (sum(row["correlation"] in tied for row in kernels), len(kernels)))
    if sum(row["graph"] != 0 for row in kernels) != GRAPH_KERNELS:
        wrong.append("%d kernels have a graph, not %d" % (sum(row["graph"] != 0 for row in kernels), GRAPH_KERNELS))
    if not all(0 < row["start_ns"] <= row["end_ns"] for row in kernels):
        wrong.append("some kernels have no times, or end before they start")
    clock = [row["cupti_ns"] for row in read_rows(path, "clock")]
    if kernels and not clock[0] <= min(row["start_ns"] for row in kernels) <= clock[-1]:
        wrong.append("some kernels are not between the first and the last clock reading")
    return wrong


def check(folder: str) -> int:
    """Run all programs that can run here, each in a process of its own, and print the results; return 0 if all are right."""
    wrong = 0
    programs = ["driver"] + [name for name in FRAMEWORKS if importlib.util.find_spec(name) is not None]
    for program in programs:
        place = os.path.join(folder, program)
        command = [sys.executable, "-m", "kernelscope.tracer.inside.cupti_check", program, place]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        if done.returncode == _SKIPPED:
            print("%s: skipped: %s" % (program, done.stderr.strip()))
            continue
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["ended with status %d" % done.returncode]
            print("%s: failed: %s" % (program, lines[-1]))
            wrong += 1
            continue
        result = json.loads(done.stdout.splitlines()[-1])
        faults = judge(result, os.path.join(place, "cupti.records"))
        counts = ", ".join("%s %d" % pair for pair in sorted(result["report"]["records"].items()))
        print("%s: %s: %s" % (program, "; ".join(faults) or "ok", counts))
        refused = ["%s: %s" % pair for pair in result["report"]["kinds"].items() if pair[1] != "on"]
        if refused:
            print("  not recorded: %s" % "; ".join(refused))
        wrong += bool(faults)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        print(json.dumps(record(sys.argv[1], sys.argv[2])))
    except Skipped as error:
        print(error, file=sys.stderr)
        sys.exit(_SKIPPED)
    except Exception as error:
        print("%s: %s" % (type(error).__name__, error), file=sys.stderr)
        sys.exit(1)
