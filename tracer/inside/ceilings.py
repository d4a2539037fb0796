"""Measure a framework's ceilings on this device: ``python -m kernelscope.tracer.inside.ceilings SPEC.json OUT.json``.

Times copies of several sizes and, for each element type, matrix products; the best of several counts. It takes a few seconds.
As in STREAM, the bytes of a copy are those read plus those written. Products use the framework's own function. On a CPU, copies
also use plain memmove in one and in several threads, for frameworks whose own copy is slow; the fastest counts.

SPEC.json: {"framework": ..., "device": "cpu" or "cuda", "threads": n}. OUT.json:

    {"copies": [{"bytes": n, "bytes_per_s": x, "by": function}, ...],     bytes: read and written by one copy
     "products": [{"dtype": "f32", "m": m, "n": n, "k": k, "flops_per_s": x, "by": function}, ...],
     "unavailable": {"f16": reason, ...}, "device_name": ..., "seconds": how long it took,
     "waited": while the main thread ran or was ready to run, the share of time without a CPU; null if unknown,
     "others": the share of the machine's CPU time that others used meanwhile; null if unknown}

On a busy machine, ceilings come out too low; `waited` and `others` show that. `waited` misses what disturbs other threads or
the memory, `others` misses what runs on the same CPU for a short time.
"""

import ctypes
import importlib
import json
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

SCHEMA = "kernelscope/ceilings/1"  # of the parent's record of it, which also says what was measured where
TIMEOUT_S = 180.0  # after which a parent gives up
MACHINE = ("processor", "cores", "threads", "allowed_threads", "architecture")  # machine facts that ceilings depend on

COPY_BYTES = tuple(1 << power for power in (17, 20, 22, 24, 26, 28))  # of one buffer: 128 kB to 256 MB
PRODUCT_SIZES = (512, 1024, 2048)
GPU_PRODUCT_SIZES = (2048, 4096, 8192)
ITEM_SECONDS = 0.1  # per copy size and per product size
SAMPLE_SECONDS = 0.002  # minimum length of a sample, so that clock reads and calls hardly count
LEAST_SAMPLES = 3
TOO_SLOW_SECONDS = 1.0  # a type whose smallest product takes longer is emulated; larger ones are not tried
DTYPES = (("f32", "float32"), ("tf32", "float32"), ("f16", "float16"), ("bf16", "bfloat16"))


def best_seconds(action: Callable[[], Any], sync: Callable[[], Any]) -> float:
    """Return the shortest time of one `action`; each sample repeats it for about SAMPLE_SECONDS or longer."""
    action()
    sync()
    times: List[float] = []
    limit, count = time.perf_counter() + ITEM_SECONDS, 1
    while len(times) < LEAST_SAMPLES or time.perf_counter() < limit:
        start = time.perf_counter()
        for _ in range(count):
            action()
        sync()
        lasted = time.perf_counter() - start
        if lasted < SAMPLE_SECONDS and not times:
            count = min(max(2 * count, int(count * SAMPLE_SECONDS / max(lasted, 1e-7))), 1 << 20)
            continue
        times.append(lasted / count)
        if lasted > TOO_SLOW_SECONDS:
            break
    return min(times)


class Framework(object):
    """What is measured in a framework: one subclass each, which imports the framework when created."""

    def copy(self, size: int) -> Any:
        """Return a function that copies a buffer of `size` bytes on the device, and its name."""
        raise NotImplementedError

    def product(self, dtype: str, size: int) -> Any:
        """Return a function that multiplies two square matrices of one of DTYPES, and its name."""
        raise NotImplementedError

    def sync(self) -> None:
        """Wait until all started work is done."""

    def device_name(self) -> Optional[str]:
        """Return the framework's name for the device; None if it gives none."""


class Numpy(Framework):
    """This interpreter's numpy, for frameworks without a product that can be timed alone. CPU only."""

    def __init__(self, device: str, threads: Optional[int]) -> None:
        if device != "cpu":
            raise RuntimeError("numpy runs only on the CPU, and this framework has no product that can be timed alone")
        self.numpy = importlib.import_module("numpy")

    def copy(self, size: int) -> Any:  # noqa: D102
        source, target = self.numpy.ones(size // 4, "float32"), self.numpy.ones(size // 4, "float32")
        return lambda: self.numpy.copyto(target, source), "numpy.copyto"

    def product(self, dtype: str, size: int) -> Any:  # noqa: D102
        if dtype != "f32":
            raise RuntimeError("numpy has no library function that multiplies matrices of this type")
        left, right = (self.numpy.ones((size, size), "float32") for _ in range(2))
        out = self.numpy.empty((size, size), "float32")
        return lambda: self.numpy.dot(left, right, out), "numpy.dot"


class Torch(Framework):
    """PyTorch."""

    def __init__(self, device: str, threads: Optional[int]) -> None:
        self.torch = importlib.import_module("torch")
        if threads:
            self.torch.set_num_threads(threads)
        self.device = device

    def copy(self, size: int) -> Any:  # noqa: D102
        source = self.torch.ones(size // 4, dtype=self.torch.float32, device=self.device)
        target = self.torch.empty_like(source)
        return lambda: target.copy_(source), "torch.Tensor.copy_"

    def product(self, dtype: str, size: int) -> Any:  # noqa: D102
        torch = self.torch
        if self.device == "cuda":
            # set what is measured: the settings of the user's program do not reach this process
            torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        kind = getattr(torch, dict(DTYPES)[dtype])
        left, right = (torch.ones((size, size), dtype=kind, device=self.device) for _ in range(2))
        out = torch.empty((size, size), dtype=kind, device=self.device)

        def multiply() -> None:
            with torch.no_grad():
                torch.mm(left, right, out=out)

        return multiply, "torch.mm"

    def sync(self) -> None:  # noqa: D102
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def device_name(self) -> Optional[str]:  # noqa: D102
        return self.torch.cuda.get_device_name(0) if self.device == "cuda" else None


class TensorFlow(Framework):
    """TensorFlow 2, eager."""

    def __init__(self, device: str, threads: Optional[int]) -> None:
        self.tensorflow = importlib.import_module("tensorflow")
        if threads:
            self.tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        self.device = "/GPU:0" if device == "cuda" else "/CPU:0"
        self.last: Any = None

    def copy(self, size: int) -> Any:  # noqa: D102
        with self.tensorflow.device(self.device):
            source = self.tensorflow.ones([size // 4])

        def deep_copy() -> None:
            with self.tensorflow.device(self.device):
                self.last = self.tensorflow.raw_ops.DeepCopy(x=source)

        return deep_copy, "tf.raw_ops.DeepCopy"

    def product(self, dtype: str, size: int) -> Any:  # noqa: D102
        tensorflow = self.tensorflow
        if self.device != "/CPU:0":
            tensorflow.config.experimental.enable_tensor_float_32_execution(dtype == "tf32")
        with tensorflow.device(self.device):
            left, right = (tensorflow.ones([size, size], getattr(tensorflow, dict(DTYPES)[dtype])) for _ in range(2))

        def multiply() -> None:
            with tensorflow.device(self.device):
                self.last = tensorflow.matmul(left, right)

        return multiply, "tf.matmul"

    def sync(self) -> None:  # noqa: D102
        if self.device != "/CPU:0" and self.last is not None:
            self.last[:1].numpy()

    def device_name(self) -> Optional[str]:  # noqa: D102
        if self.device == "/CPU:0":
            return None
        devices = self.tensorflow.config.list_physical_devices("GPU")
        return self.tensorflow.config.experimental.get_device_details(devices[0]).get("device_name") if devices else None


class MXNet(Framework):
    """MXNet 1.x."""

    def __init__(self, device: str, threads: Optional[int]) -> None:
        self.mxnet = importlib.import_module("mxnet")
        self.context = self.mxnet.gpu(0) if device == "cuda" else self.mxnet.cpu()

    def copy(self, size: int) -> Any:  # noqa: D102
        source, target = (self.mxnet.nd.ones((size // 4,), ctx=self.context) for _ in range(2))
        return lambda: source.copyto(target), "mx.nd.NDArray.copyto"

    def product(self, dtype: str, size: int) -> Any:  # noqa: D102
        if dtype == "bf16":
            raise RuntimeError("MXNet's dot does not support bfloat16")
        kind = dict(DTYPES)[dtype]
        left, right = (self.mxnet.nd.ones((size, size), ctx=self.context, dtype=kind) for _ in range(2))
        out = self.mxnet.nd.empty((size, size), ctx=self.context, dtype=kind)
        if self.context.device_type == "cpu" and dtype == "f32":  # uses oneDNN, while dot uses the BLAS library
            dense = self.mxnet.nd.FullyConnected
            return lambda: dense(left, right, no_bias=True, num_hidden=size, out=out), "mx.nd.FullyConnected"
        return lambda: self.mxnet.nd.dot(left, right, out=out), "mx.nd.dot"

    def sync(self) -> None:  # noqa: D102
        self.mxnet.nd.waitall()


class Jax(Framework):
    """JAX."""

    def __init__(self, device: str, threads: Optional[int]) -> None:
        self.jax = importlib.import_module("jax")
        self.numpy = importlib.import_module("jax.numpy")
        kinds = ("gpu", "cuda") if device == "cuda" else ("cpu",)
        self.device = next(found for found in self.jax.devices() if found.platform in kinds)
        self.last: Any = None

    def _made(self, *shape: Any, **kind: Any) -> Any:
        return self.jax.device_put(self.numpy.ones(shape, **kind), self.device)

    def copy(self, size: int) -> Any:  # noqa: D102
        source = self._made(size // 4, dtype="float32")
        scaled = self.jax.jit(lambda x: x * 2)
        return self._kept(lambda: scaled(source)), "jax.jit(x * 2)"

    def product(self, dtype: str, size: int) -> Any:  # noqa: D102
        precision = {"f32": "highest", "tf32": "tensorfloat32"}.get(dtype) if self.device.platform != "cpu" else None
        left, right = (self._made(size, size, dtype=dict(DTYPES)[dtype]) for _ in range(2))
        multiply = self.jax.jit(lambda x, y: self.numpy.dot(x, y, precision=precision))
        return self._kept(lambda: multiply(left, right)), "jax.numpy.dot"

    def _kept(self, function: Callable[[], Any]) -> Callable[[], None]:
        def call() -> None:
            self.last = function()

        return call

    def sync(self) -> None:  # noqa: D102
        if self.last is not None:
            self.last.block_until_ready()

    def device_name(self) -> Optional[str]:  # noqa: D102
        return self.device.device_kind if self.device.platform != "cpu" else None


FRAMEWORKS = {
    "pytorch": Torch, "tensorflow": TensorFlow, "mxnet": MXNet, "jax": Jax, "cntk": Numpy, "onednn": Numpy,
    "keras-torch": Torch, "keras-tensorflow": TensorFlow, "keras-jax": Jax,
}  # fmt: skip


def made(name: str, device: str, threads: Optional[int]) -> Any:
    """Return the Framework object of this name; raise RuntimeError if there is none."""
    if name not in FRAMEWORKS:
        raise RuntimeError("no copy or product function of %s is known" % name)
    return FRAMEWORKS[name](device, threads)


def memmove(size: int, threads: int) -> Tuple[Callable[..., Any], str]:
    """Return a function that copies a buffer with memmove, one part per thread, and its name."""
    source, target = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    ctypes.memset(source, 1, size)
    part = -(-size // threads)
    pieces = [(ctypes.addressof(target) + at, ctypes.addressof(source) + at, min(part, size - at)) for at in range(0, size, part)]

    def copy() -> Any:
        workers = [threading.Thread(target=ctypes.memmove, args=piece) for piece in pieces[1:]]
        for worker in workers:
            worker.start()
        ctypes.memmove(*pieces[0])
        for worker in workers:
            worker.join()
        return source, target  # keeps the buffers alive: otherwise the function has only their addresses

    return copy, "memmove" if threads == 1 else "memmove in %d threads" % threads


def copies(framework: Any, device: str, threads: Optional[int], unavailable: Dict[str, str]) -> List[Dict[str, Any]]:
    """Return the fastest copy of each size."""
    found = []
    for size in COPY_BYTES:
        makers: List[Any] = [(lambda size=size: framework.copy(size), framework.sync)]
        if device == "cpu":
            makers += [(lambda size=size, n=n: memmove(size, n), lambda: None) for n in sorted({1, threads or 1})]
        rates = []
        for make, sync in makers:
            try:
                action, by = make()
                rates.append((2 * size / best_seconds(action, sync), by))
            except Exception as error:  # whatever a framework raises, other sizes and other ways to copy are still useful
                unavailable.setdefault("copy of %d bytes" % size, _reason(error))
        if rates:
            rate, by = max(rates)
            found.append({"bytes": 2 * size, "bytes_per_s": rate, "by": by})
            unavailable.pop("copy of %d bytes" % size, None)
    return found


def products(framework: Any, device: str, unavailable: Dict[str, str]) -> List[Dict[str, Any]]:
    """Return the fastest product of each type that the framework supports."""
    found = []
    for dtype, _ in DTYPES:
        if dtype == "tf32" and device != "cuda":
            continue
        best = None
        for size in PRODUCT_SIZES if device == "cpu" else GPU_PRODUCT_SIZES:
            try:
                action, by = framework.product(dtype, size)
                seconds = best_seconds(action, framework.sync)
            except Exception as error:  # the framework does not support the type, or has no memory for this size
                if best is None:
                    unavailable[dtype] = _reason(error)
                break
            rate = 2.0 * size**3 / seconds
            if best is None or rate > best["flops_per_s"]:
                best = {"dtype": dtype, "m": size, "n": size, "k": size, "flops_per_s": rate, "by": by}
            if seconds > TOO_SLOW_SECONDS / 8:
                break
        if best is not None:
            found.append(best)
    return found


def _reason(error: Exception) -> str:
    """Return an error in one line; MXNet's messages begin with a traceback of their own."""
    lines = [line.strip() for line in str(error).split("\n")]
    said = next((line for line in lines if line and not line.startswith(("Traceback", "File", "["))), "")
    return ("%s: %s" % (type(error).__name__, said))[:200]


def waiting() -> Optional[List[int]]:
    """Return how long the main thread has run and has waited for a CPU so far, in ns; None if unknown."""
    try:
        with open("/proc/self/schedstat") as file:
            return [int(number) for number in file.read().split()[:2]]
    except (OSError, ValueError):
        return None


def share_waited(before: Any, after: Any) -> Any:
    """Return the share of waiting between two results of `waiting`; None if unknown."""
    if not before or not after:
        return None
    ran, waited = (last - first for first, last in zip(before, after))
    return round(waited / float(ran + waited), 3) if ran + waited else None


def used() -> Optional[Tuple[Any, Any, Any]]:
    """Return the machine's CPU time so far in s: used by everything, used by this process, and in total; None if unknown.

    Time that a hypervisor gave to others (steal) counts as used; waiting for a disk does not. See proc_stat(5).
    """
    try:
        with open("/proc/stat") as file:
            ticks = [int(number) for number in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    per_second, times = float(os.sysconf("SC_CLK_TCK")), os.times()
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / per_second, times.user + times.system, sum(ticks) / per_second


def share_of_others(before: Any, after: Any) -> Any:
    """Return the share of the machine's CPU time that others used between two results of `used`; None if unknown."""
    if not before or not after or after[2] <= before[2]:
        return None
    everybody, own, whole = (last - first for first, last in zip(before, after))
    return round(min(1.0, max(0.0, (everybody - own) / whole)), 3)


def measure(name: str, device: str, threads: Optional[int]) -> Dict[str, Any]:
    """Return the ceilings of a framework on a device, as OUT.json holds them."""
    start = time.perf_counter()
    before, used_before = waiting(), used()
    unavailable: Dict[Any, Any] = {}
    framework = made(name, device, threads)
    result: Dict[str, Any] = {"products": products(framework, device, unavailable)}
    result["copies"] = copies(framework, device, threads, unavailable)
    result.update(unavailable=unavailable, device_name=framework.device_name(), waited=share_waited(before, waiting()))
    result["others"] = share_of_others(used_before, used())
    return dict(result, seconds=round(time.perf_counter() - start, 2))


def main(arguments: Sequence[str]) -> int:
    """Measure what SPEC.json asks for and write OUT.json; return the exit status."""
    with open(arguments[0]) as file:
        spec = json.load(file)
    result = measure(spec["framework"], spec["device"], spec["threads"])
    with open(arguments[1] + ".new", "w") as out:
        json.dump(result, out, indent=1)
    os.replace(arguments[1] + ".new", arguments[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
