"""Idle time: the device waits for input, the host's own work, a synchronisation, compilation or memory."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import pandas as pd

from kernelscope.analysis.accounting import idle_causes as idle
from kernelscope.analysis.accounting.device_account import IDLE
from kernelscope.analysis.attribution.steps.inputs import uses_dali
from kernelscope.analysis.explain.device import compiled, host_functions, host_pace, words
from kernelscope.analysis.explain.device.case import PACE, SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.explain.device.compiled import in_steps

INPUT = (idle.FETCHING, idle.BETWEEN)
_SYNCHRONISES = re.compile(r"(?:Device|Stream|Event|Ctx)Synchronize")
_READING = ("aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal")
_MORE_WAITS = 0.9  # per step
_MOSTLY = 0.5  # share of the difference
_AS_MANY = 0.02  # share within which numbers of kernels are equal
_NEARLY_ALL = 0.9
_OPENING = "before the step's first operator, where input is prepared"
_FOLLOWS = "nothing: it follows from the longer work of the device"
_FAR_APART_NS = 5_000_000  # idle time for each kernel: no launch takes so long
_OWN_WORK = "record what the program does between launches: stacks (with_stack=True of torch.profiler, py-spy), or its own ranges"
_THAT_CODE = "make these functions quicker, or run them ahead of the step: on other threads or processes, or on the device"
_SYNCHRONISE = {
    "pytorch": "wait for the device once, at the end of the step: no .item(), .cpu(), nonzero() or synchronize() within it",
    "": "see what the host waits for, and wait once, after everything is launched",
}
_COPIES = {
    "pytorch": "copy without waiting: pin_memory=True of the DataLoader, .to(device, non_blocking=True), results by .cpu() once",
    "": "use pinned memory and asynchronous copies, and read results back once, after everything is launched",
}
_LOADER = {
    "pytorch": "more workers: DataLoader(num_workers=..., prefetch_factor=..., persistent_workers=True); decode on the device",
    "tensorflow": "tf.data: map(..., num_parallel_calls=tf.data.AUTOTUNE), cache(), prefetch(tf.data.AUTOTUNE)",
    "": "load, decode and copy batches ahead of the step, on other threads or on the device",
}
_DALI = "DALI: more num_threads and prefetch_queue_depth, and decoding and augmentation on the device"
_LAUNCHES = {
    "pytorch": "fewer, larger kernels and less Python between them: torch.compile(mode='reduce-overhead'), CUDA graphs",
    "tensorflow": "tf.function(jit_compile=True)",
    "": "fewer, larger kernels, CUDA graphs, and less host work between launches",
}

_GAPS = {
    "pytorch": "fewer, larger kernels: torch.compile, fused optimizers; CUDA graphs shorten the gaps that are left",
    "": "fewer, larger kernels, or CUDA graphs, in which the device starts the next kernel sooner",
}


def on_other_processors(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Nothing runs on the CPU of one side, or on the accelerator of the other: idle time of unlike devices."""
    rows = case.left[(case.left["part"] == IDLE).to_numpy(bool)]
    if case.on_cpu is None or rows.empty:
        return
    slow, _, _, _ = words.slower(case, rows)
    a, b = (float(rows[f"{key}_ns"].sum()) for key in SIDES)
    title = (
        f"other hardware: nothing runs on {case.a.computes_on} for {words.duration(a)} {case.per} in {case.a.name}, "
        f"nothing on {case.b.computes_on} for {words.duration(b)} in {case.b.name}"
    )
    sentences = [
        _busy(case).replace("The device is", "It is"),
        *_where(rows, slow),
        f"It may include the first use of a device, which {case.side(case.on_cpu).name} does not have.",
    ]
    yield DeviceFinding("other hardware", title, _ids(rows), "medium", sentences, "use the device once before the timed part")


def waiting_for_input(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The device is idle while the next batch is prepared."""
    rows = case.idle(INPUT)
    slow, slower, _, faster = words.slower(case, rows)
    between = float(rows.loc[(rows["cause"] == idle.BETWEEN).to_numpy(bool), "delta_ns"].abs().sum())
    guessed = between > 0.5 * float(rows["delta_ns"].abs().sum())
    sentences = [
        f"The device idles while it waits for its next batch: {words.of_rows(case, rows)} {case.per}.",
        *host_functions.sentences(case, float(rows["delta_ns"].sum())),
        _busy(case),
        *_where(rows, slow),
    ]
    if guessed:
        sentences.append("This is before a step's first copy to the device, while its thread is in no call and no range.")
    yield DeviceFinding(
        "input pipeline",
        f"the device idles waiting for data loading{_longer(case, rows, slower, faster)}",
        _ids(rows),
        "medium" if guessed or case.few else "high",
        sentences,
        _input_remedy(case, slow),
    )


def _input_remedy(case: DeviceCase, slow: str) -> str:
    """Return how the side that waits longer can get its batches sooner: like the other side, if that uses DALI."""
    if uses_dali(case.side(slow).trace):
        return _DALI
    other = next(side for side in SIDES if side != slow)
    loader = words.remedy(case, _LOADER, slow)
    if not uses_dali(case.side(other).trace):
        return loader
    return f"decode and augment on the device, as {case.side(other).name} does with NVIDIA's DALI; or {loader.split(';')[0]}"


def waits_of_the_host(case: DeviceCase) -> Iterator[DeviceFinding]:
    """One side's host waits for the device more often, so it cannot launch ahead, and then the device waits for the host."""
    rows = case.idle([*PACE, idle.SYNCHRONISING, idle.COPYING])
    slow, slower, other, faster = words.slower(case, rows)
    waits = {key: _waits(case, key) for key in ("a", "b")}
    if waits[slow] - waits[other] < _MORE_WAITS or waits[slow] < 1.2 * waits[other]:
        return
    after = case.side(slow).account.waited_ns - case.side(other).account.waited_ns
    if after < _MOSTLY * abs(float(rows["delta_ns"].sum())):
        return  # the device runs out of work while the host does not wait: the host is slow to launch
    reads = {key: _reads(case, key) for key in ("a", "b")}
    sentences = [
        f"Waits of the host {case.per}: {words.count(waits['a'])} in {case.a.name}, {words.count(waits['b'])} in {case.b.name}.",
        f"The device is idle, waiting for the host: {words.of_rows(case, rows)} {case.per}.",
        *_where(rows, slow),
    ]
    if reads[slow] > reads[other]:
        sentences.append(
            "Operators that read values (aten::item and the like): "
            f"{words.count(reads['a'])} and {words.count(reads['b'])} {case.per}."
        )
    longer = _longer(case, rows, slower, faster)
    title = f"synchronisation: the host waits for the device and cannot launch ahead; the device idles{longer}"
    yield DeviceFinding("synchronisation", title, _ids(rows), "medium", sentences, words.remedy(case, _SYNCHRONISE, slow))


def _waits(case: DeviceCase, key: str) -> float:
    """Return how often per step a side's host makes a call that synchronises with the device."""
    trace, steps = case.side(key).trace, max(len(case.side(key).account.lengths), 1)
    calls = trace.calls
    names = [name for name in calls["name"].cat.categories if _SYNCHRONISES.search(str(name))]
    return float(in_steps(calls[calls["name"].isin(names).to_numpy(bool)], trace).sum()) / steps


def _reads(case: DeviceCase, key: str) -> float:
    """Return how often per step a side's operators read values from the device."""
    trace, steps = case.side(key).trace, max(len(case.side(key).account.lengths), 1)
    operators = trace.operators
    return float(in_steps(operators[operators["name"].isin(_READING).to_numpy(bool)], trace).sum()) / steps


def host_bound(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The device is idle while the host prepares its next work."""
    rows = case.idle(PACE)
    slow, slower, _, faster = words.slower(case, rows)
    if _follows(case, rows):
        less = _longer(case, rows, slower, faster)
        title = f"the device waits less for the host in {faster}, where its own work takes longer{less}"
        yield DeviceFinding("less waiting for the host", title, _ids(rows), "medium", [_busy(case)], _FOLLOWS, follows=True)
        return
    launches = {key: float(case.all_kernels()[f"{key}_count"].sum()) for key in ("a", "b")}
    functions = host_functions.sentences(case, float(rows["delta_ns"].sum()))
    sentences = [
        *functions,
        f"The device idles while the host works: {words.of_rows(case, rows)} {case.per}.",
        _busy(case),
        *_where(rows, slow),
        f"Kernels {case.per}: {words.count(launches['a'])} in {case.a.name}, {words.count(launches['b'])} in {case.b.name}.",
    ]
    sentences += compiled.sentences(case)
    alone = _launches_nothing(rows, launches)
    if not alone and not _mostly(rows) and host_pace.same_calls(case) is not None:
        return  # the host does the same work at another pace
    delta = float(rows["delta_ns"].sum())
    rare = abs(delta) > _FAR_APART_NS * max(launches[slow], 1.0)
    early = host_pace.before_operators(case)
    opening = alone and early * delta > 0 and abs(early) > _MOSTLY * abs(delta)
    if opening:
        when = "before the step's first operator, where programs prepare their input"
        sentences.append(f"{words.duration(abs(early))} of the difference {case.per} is {when}.")
    if alone:
        sentences.append("Both sides launch as many kernels, and most of the difference is time in which the host launches none.")
    remedy = _THAT_CODE if functions else _OWN_WORK if alone or rare else words.remedy(case, _LAUNCHES, slow)
    yield DeviceFinding(
        "host-bound",
        f"host-bound: the device idles while the host works{_opening(early, delta) if opening else ''}"
        f"{_longer(case, rows, slower, faster)}{_mostly(rows)}",
        _ids(rows),
        "medium" if case.few or alone else "high",
        sentences,
        compiled.remedy(case, slow) or remedy,
    )


def _opening(early: float, delta: float) -> str:
    """Return in words when the host works, and whether this is all or most of the difference."""
    return f", {'' if abs(early) > _NEARLY_ALL * abs(delta) else 'mostly '}{_OPENING}"


def _follows(case: DeviceCase, rows: pd.DataFrame) -> bool:
    """Return whether the longer step is idle less because its device is busy longer: that is no gain of its own."""
    idle, busy = float(rows["delta_ns"].sum()), case.b.account.busy_ns - case.a.account.busy_ns
    step = case.b.account.step_ns - case.a.account.step_ns
    return idle * step < 0 and busy * step > 0 and abs(busy) >= abs(idle)


def _launches_nothing(rows: pd.DataFrame, launches: dict[str, float]) -> bool:
    """Return whether both sides launch as many kernels, and for most of the difference the host launches none."""
    if abs(launches["a"] - launches["b"]) > _AS_MANY * max(launches.values()):
        return False
    own = rows[rows["cause"].isin((idle.PROGRAM, idle.UNSEEN, idle.RANGE)).to_numpy(bool)]
    whole = float(rows["delta_ns"].sum())
    return bool(whole) and float(own["delta_ns"].sum()) / whole > _MOSTLY


def synchronisation(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The device is idle around the host's waits for it."""
    yield from _simple(
        case, [idle.SYNCHRONISING], "synchronisation", "the device idles around synchronisation",
        words.remedy(case, _SYNCHRONISE, words.slower(case, case.idle([idle.SYNCHRONISING]))[0]),
    )  # fmt: skip


def compiling(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The device is idle while code is compiled or loaded."""
    yield from _simple(
        case, [idle.COMPILING], "compilation in steps", "the device idles while code is compiled or loaded",
        "keep shapes the same from step to step, and leave the first steps out of the capture",
    )  # fmt: skip


def capturing(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The device is idle while a graph is captured."""
    yield from _simple(
        case, [idle.CAPTURING], "graph capture", "nothing runs while a CUDA or HIP graph is captured",
        "capture graphs before the steps that are measured, and record their replays",
    )  # fmt: skip


def allocating(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The device is idle while memory is allocated or freed."""
    yield from _simple(
        case, [idle.ALLOCATING], "allocator traffic", "the device idles while memory is allocated or freed",
        "keep memory between steps: a caching allocator, no empty_cache() in the loop",
    )  # fmt: skip


def copying(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The device is idle while the host is in calls that copy, as often on both sides (else see `waits_of_the_host`)."""
    rows = case.idle([idle.COPYING])
    yield from _simple(
        case, [idle.COPYING], "slow copying calls", f"the device idles while the host is in calls that copy{_mostly(rows)}",
        words.remedy(case, _COPIES, words.slower(case, rows)[0]),
    )  # fmt: skip


def between_kernels(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The device is idle between kernels that were launched in time."""
    rows = case.idle([idle.QUEUED])
    kernels = {key: float(case.all_kernels()[f"{key}_count"].sum()) for key in SIDES}
    gaps = {key: float(rows[f"{key}_count"].sum()) for key in SIDES}
    means = {key: float(rows[f"{key}_ns"].sum()) / gaps[key] if gaps[key] else 0.0 for key in SIDES}
    slow, slower, _, faster = words.slower(case, rows)
    sentences = [
        f"The device is idle before kernels whose launch had returned: {words.of_rows(case, rows)} {case.per}.",
        f"A gap lasts {words.duration(means['a'])} on average in {case.a.name}, {words.duration(means['b'])} in {case.b.name}.",
        f"Kernels {case.per}: {words.count(kernels['a'])} in {case.a.name}, {words.count(kernels['b'])} in {case.b.name}.",
    ]
    remedy = idle.AFTER_LONG_GAPS if means[slow] > idle.LONG_GAP else words.remedy(case, _GAPS, slow)
    title = f"the device idles between kernels that were launched in time{_longer(case, rows, slower, faster)}"
    yield DeviceFinding("gaps between kernels", title, _ids(rows), "medium", sentences, remedy)


def _simple(case: DeviceCase, causes: Collection[str], cause: str, title: str, remedy: str) -> Iterator[DeviceFinding]:
    rows = case.idle(causes)
    slow, slower, _, faster = words.slower(case, rows)
    sentences = [f"{words.of_rows(case, rows)} {case.per}.", *_where(rows, slow)]
    yield DeviceFinding(cause, f"{title}{_longer(case, rows, slower, faster)}", _ids(rows), "medium", sentences, remedy)


def _ids(rows: pd.DataFrame) -> list[str]:
    return rows["row"].tolist()


def _longer(case: DeviceCase, rows: pd.DataFrame, slower: str, faster: str) -> str:
    """Return each side's idle time, as the end of a title: ": 544 ms a step in A, 34.4 ms in B"."""
    a, b = float(rows["a_ns"].sum()), float(rows["b_ns"].sum())
    slow, fast = (b, a) if b > a else (a, b)
    return f": {words.duration(slow)} {case.per} in {slower}, {words.duration(fast)} in {faster}"


def _busy(case: DeviceCase) -> str:
    return f"The device is busy {words.change(case, case.a.account.busy_ns, case.b.account.busy_ns)} {case.per}."


def _where(rows: pd.DataFrame, slow: str) -> list[str]:
    """Return a sentence on what the host did meanwhile, largest difference first."""
    known = rows[rows["detail"].notna().to_numpy(bool)]
    if known.empty:
        return []
    sums = known.groupby("detail")["delta_ns"].sum()
    sums = sums[(sums > 0) == (slow == "b")].sort_values(key=lambda delta: -delta.abs())
    if sums.empty or abs(sums.iloc[0]) < 0.1 * abs(float(rows["delta_ns"].sum())):
        return []
    parts = [f"{_name(detail)} ({ns / 1e6:+.3g} ms)" for detail, ns in sums.head(3).items()]
    mostly = abs(sums.head(3).sum()) > abs(float(rows["delta_ns"].sum())) / 2
    return [f"{'Most of the difference' if mostly else 'The largest differences'}: {', '.join(parts)}."]


def _name(detail: object) -> str:
    return str(detail).removeprefix("nn.Module: ")[:60]


def _mostly(rows: pd.DataFrame) -> str:
    """Return the detail with more than half of the difference, as a part of the title; "" if there is none."""
    whole = float(rows["delta_ns"].sum())
    sums = rows.dropna(subset=["detail"]).groupby("detail")["delta_ns"].sum()
    result = sums[(sums / whole) > 0.5] if whole and len(sums) else sums.iloc[:0]
    return f", mostly in {_name(result.index[0])}" if len(result) else ""


RULES = (
    on_other_processors,
    waiting_for_input,
    waits_of_the_host,
    host_bound,
    synchronisation,
    compiling,
    capturing,
    allocating,
    copying,
    between_kernels,
)
