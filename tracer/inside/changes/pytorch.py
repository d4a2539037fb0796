"""Changes to PyTorch programs: layout, precision, optimizers, compilation, modes, threads and loaders."""

import os
from typing import Any, Callable, List

from kernelscope.tracer.inside.changes.calls import VALUES, around_outermost, one_node, silent
from kernelscope.tracer.inside.profiling.patches import Patches

Seen = Callable[[str], None]


def channels_last(torch: Any, patches: Patches, seen: Seen) -> None:
    """Store convolutions' weights in channels-last order; their outputs then have it, too."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def init(self: Any, *arguments: Any, **named: Any) -> None:
            original(self, *arguments, **named)
            self.weight.data = self.weight.data.contiguous(memory_format=torch.channels_last)
            seen(type(self).__name__)

        return init

    for kind in (torch.nn.Conv2d, torch.nn.ConvTranspose2d):
        patches.wrap(kind, "__init__", make)


def _optimizers(torch: Any, patches: Patches, seen: Seen, wanted: str, other: str) -> None:
    """Make optimizers with one option. One counts as changed when it steps: a program may make one that it does not use."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def init(self: Any, *arguments: Any, **named: Any) -> None:
            named.pop(other, None)
            named[wanted] = True
            original(self, *arguments, **named)

        return init

    def stepping(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(self: Any, *arguments: Any, **named: Any) -> Any:
            seen(type(self).__name__)
            return original(self, *arguments, **named)

        return step

    for name in ("SGD", "Adam", "AdamW", "Adagrad"):
        patches.wrap(getattr(torch.optim, name), "__init__", make)
        patches.wrap(getattr(torch.optim, name), "step", stepping)


def fused_optimizer(torch: Any, patches: Patches, seen: Seen) -> None:
    """Let optimizers update all parameters in one kernel."""
    _optimizers(torch, patches, seen, "fused", "foreach")


def foreach_optimizer(torch: Any, patches: Patches, seen: Seen) -> None:
    """Let optimizers update parameters in lists."""
    _optimizers(torch, patches, seen, "foreach", "fused")


def _models(torch: Any, patches: Patches, outermost: Callable[..., Any]) -> None:
    """Wrap calls of whole models, those that have parameters, in outermost(call, model, *arguments)."""

    def chosen(call: Callable[..., Any], model: Any, *arguments: Any, **named: Any) -> Any:
        if next(model.parameters(), None) is None:
            return call(model, *arguments, **named)
        return outermost(call, model, *arguments, **named)

    patches.wrap(torch.nn.Module, "__call__", lambda original: around_outermost(original, chosen))


def compiled(torch: Any, patches: Patches, seen: Seen) -> None:
    """Compile models when they are first called."""
    done = set()

    def outermost(call: Callable[..., Any], model: Any, *arguments: Any, **named: Any) -> Any:
        if id(model) not in done:
            done.add(id(model))
            model.compile()
            seen(type(model).__name__)
        return call(model, *arguments, **named)

    _models(torch, patches, outermost)


def bfloat16(torch: Any, patches: Patches, seen: Seen) -> None:
    """Call models under autocast to bfloat16."""

    def outermost(call: Callable[..., Any], model: Any, *arguments: Any, **named: Any) -> Any:
        seen(type(model).__name__)
        with torch.autocast(next(model.parameters()).device.type, dtype=torch.bfloat16):
            return call(model, *arguments, **named)

    _models(torch, patches, outermost)


def single_precision(torch: Any, patches: Patches, seen: Seen) -> None:
    """Use single precision where the program asks for double precision."""

    def floats(original: Callable[..., Any]) -> Callable[..., Any]:
        def double(self: Any, *arguments: Any, **named: Any) -> Any:
            seen("%s.double" % type(self).__name__)
            return self.float(*arguments, **named)

        return double

    def single(value: Any) -> Any:
        if value is torch.float64:
            seen("torch.float64")
            return torch.float32
        return value

    def converted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            return original(*map(single, arguments), **{name: single(value) for name, value in named.items()})

        return call

    for owner in (torch.nn.Module, torch.Tensor):
        patches.wrap(owner, "double", floats)
        patches.wrap(owner, "to", converted)
    patches.wrap(torch, "set_default_dtype", converted)


def inference_mode(torch: Any, patches: Patches, seen: Seen) -> None:
    """Call models without gradients in inference mode, which does not track versions of tensors."""

    def outermost(call: Callable[..., Any], model: Any, *arguments: Any, **named: Any) -> Any:
        if torch.is_grad_enabled() or torch.is_inference_mode_enabled():
            return call(model, *arguments, **named)
        seen(type(model).__name__)
        with torch.inference_mode():
            return call(model, *arguments, **named)

    _models(torch, patches, outermost)


def tf32(torch: Any, patches: Patches, seen: Seen) -> None:
    """Compute products and convolutions on GPUs in TF32, whatever the program sets."""
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
        patches.wrap(torch, "set_float32_matmul_precision", lambda original: lambda _: original("high"))
        seen("TF32")


def cudnn_benchmark(torch: Any, patches: Patches, seen: Seen) -> None:
    """Let cuDNN time its algorithms and use the fastest."""
    if torch.cuda.is_available():
        torch.backends.cudnn.benchmark = True
        seen("cuDNN")


def no_synchronisation(torch: Any, patches: Patches, seen: Seen) -> None:
    """Skip synchronisations with which the program only waits and reads nothing."""

    def make(_: Callable[..., None]) -> Callable[..., None]:
        def synchronize(*arguments: Any, **named: Any) -> None:
            seen("torch.cuda.synchronize")

        return synchronize

    patches.wrap(torch.cuda, "synchronize", make)


def no_checks(torch: Any, patches: Patches, seen: Seen) -> None:
    """Keep autograd's anomaly detection off."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def enabled(mode: bool, *more: Any) -> None:
            if mode:
                seen("anomaly detection")
            original(False, *more)

        return enabled

    patches.wrap(torch, "set_anomaly_enabled", make)


def not_deterministic(torch: Any, patches: Patches, seen: Seen) -> None:
    """Keep deterministic algorithms off."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def use(mode: Any, **named: Any) -> None:
            if mode:
                seen("deterministic algorithms")
            original(False, **named)

        return use

    patches.wrap(torch, "use_deterministic_algorithms", make)


def no_checkpoints(torch: Any, patches: Patches, seen: Seen) -> None:
    """Keep activations that the program would recompute."""
    import torch.utils.checkpoint as checkpoints  # type: ignore[import-not-found, import-untyped, unused-ignore]

    own = ("use_reentrant", "context_fn", "determinism_check", "debug", "preserve_rng_state")

    def make(_: Callable[..., Any]) -> Callable[..., Any]:
        def kept(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            seen(getattr(function, "__qualname__", type(function).__name__))
            return function(*arguments, **{name: value for name, value in named.items() if name not in own})

        return kept

    patches.wrap(checkpoints, "checkpoint", make)


def all_cores(torch: Any, patches: Patches, seen: Seen) -> None:
    """Compute with as many threads as the process has cores, whatever the program sets."""
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores)
    seen("%d threads" % cores)
    patches.wrap(torch, "set_num_threads", lambda _: lambda threads: None)


def onednn(torch: Any, patches: Patches, seen: Seen) -> None:
    """Keep oneDNN on."""

    def make(original: Callable[[bool], Any]) -> Callable[[bool], Any]:
        def enabled(on: bool) -> Any:
            if not on:
                seen("oneDNN")
            return original(True)

        return enabled

    prop = vars(type(torch.backends.mkldnn)).get("enabled")
    if prop is not None:
        prop.setter = make(prop.setter)
    patches.wrap(torch._C, "_set_mkldnn_enabled", make)


def workers(torch: Any, patches: Patches, seen: Seen) -> None:
    """Give loaders without workers two persistent ones."""
    import torch.utils.data as data  # type: ignore[import-not-found, import-untyped, unused-ignore]

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def init(self: Any, dataset: Any, batch_size: Any = 1, *arguments: Any, **named: Any) -> None:
            if not arguments and not named.get("num_workers"):
                named.update(num_workers=2, persistent_workers=True)
                seen("DataLoader")
            original(self, dataset, batch_size, *arguments, **named)

        return init

    patches.wrap(data.DataLoader, "__init__", make)


def pinned_batches(torch: Any, patches: Patches, seen: Seen) -> None:
    """Make loaders return batches in pinned memory, from which a GPU copies directly."""
    import torch.utils.data as data  # type: ignore[import-not-found, import-untyped, unused-ignore]

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def init(self: Any, *arguments: Any, **named: Any) -> None:
            if torch.cuda.is_available() and not named.get("pin_memory"):
                named["pin_memory"] = True
                seen("DataLoader")
            original(self, *arguments, **named)

        return init

    patches.wrap(data.DataLoader, "__init__", make)


def gradients_let_go(torch: Any, patches: Patches, seen: Seen) -> None:
    """Make zero_grad drop gradients instead of filling them with zeros."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def zero_grad(self: Any, set_to_none: bool = True) -> None:
            if not set_to_none:
                seen("%s.zero_grad" % type(self).__name__)
            original(self, True)

        return zero_grad

    for owner in (torch.optim.Optimizer, torch.nn.Module):
        patches.wrap(owner, "zero_grad", make)


def one_batch(torch: Any, patches: Patches, seen: Seen) -> None:
    """Return a loader's first batch again and again: shows what remains of a step without loading."""
    import torch.utils.data as data  # type: ignore[import-not-found, import-untyped, unused-ignore]

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(self: Any) -> Any:
            first = next(iter(original(self)))
            seen("DataLoader")
            for _ in range(len(self)):
                yield first

        return iterate

    patches.wrap(data.DataLoader, "__iter__", make)


def values(torch: Any, patches: Patches, seen: Seen) -> None:
    """Note the first losses whose gradients are taken; for programs that take none, the means of the first outputs."""
    noted: List[Any] = []

    def note(tensor: Any) -> None:
        if len(noted) < VALUES:
            noted.append(tensor)
            seen(repr(float(tensor.detach().double().abs().mean())))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(self: Any, *arguments: Any, **named: Any) -> Any:
            note(self)
            return original(self, *arguments, **named)

        return backward

    def outermost(call: Callable[..., Any], model: Any, *arguments: Any, **named: Any) -> Any:
        result = call(model, *arguments, **named)
        first = result[0] if isinstance(result, (tuple, list)) and result else result
        if not torch.is_grad_enabled() and torch.is_tensor(first):
            note(first)
        return result

    patches.wrap(torch.Tensor, "backward", make)
    _models(torch, patches, outermost)


CHANGES = {
    "one node": one_node,
    "channels last": channels_last,
    "fused optimizer": fused_optimizer,
    "foreach optimizer": foreach_optimizer,
    "compiled": compiled,
    "bfloat16": bfloat16,
    "single precision": single_precision,
    "inference mode": inference_mode,
    "tf32": tf32,
    "cudnn benchmark": cudnn_benchmark,
    "no synchronisation": no_synchronisation,
    "silent": silent,
    "no checks": no_checks,
    "not deterministic": not_deterministic,
    "no checkpoints": no_checkpoints,
    "all cores": all_cores,
    "onednn": onednn,
    "workers": workers,
    "pinned batches": pinned_batches,
    "gradients let go": gradients_let_go,
    "one batch": one_batch,
    "values": values,
}
