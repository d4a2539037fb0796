"""The host's own pace: launches, dispatch and Python between what computes."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.device_account import IDLE
from kernelscope.analysis.advise import longest_gaps, words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules import loops, onnx_graph
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.attribution.frameworks import keras_loops

_CALLBACKS = "callbacks"  # the range around the callbacks of Keras' fit
_PACE = (idle_causes.LAUNCHING, idle_causes.OPERATOR, idle_causes.RANGE, idle_causes.PROGRAM)
_EAGER = 0.15  # of a step on the host: what dispatch takes in well-made programs
_OWN = 0.1  # of a step on the host: what the loop itself takes in small steps
_RECORDED = 3.0  # times the clean step: a recorded step this long is mostly recording, which is Python, too
_MOST = 0.5  # of a step
_SHORT = 10_000  # ns: shorter kernels take about as long as their launch
_LONG = 1_000_000  # ns: launches do not take this long, so the program does something else
_NO_DISPATCH = 300_000  # ns: dispatch does not take this long; the operator may be freeing large tensors, for example
_WAITED_IN = r"(?i)backward"  # ranges in which the program waits for threads of the framework
_OWN_GAINS = "all of it, if that code need not run or can run while something computes"
_OWN_REMEDIES = {  # by whether the step is a whole program
    True: "nothing computes while these lines run (loading, compiling, files, loops in Python): do once what can be done once, "
    "keep its result, and work on whole tensors instead of items",
    False: "move what need not run in each step out of the loop (logging, checkpoints, metrics), or work on whole batches "
    "instead of items",
}
_MOVE = "move what the program does there out of the step, or onto another thread"
_NAME = (
    "record what the program does there (with_stack=True of torch.profiler, NVTX ranges, or `kernelscope profile`), and move it "
    "out of the step, or onto another thread"
)

REMEDIES = {
    "pytorch": "torch.compile(model, mode='reduce-overhead') or CUDA graphs launch many kernels at once; larger batches; fused "
    "optimizers; no Python loops over tensors",
    "pytorch, on an NPU": "TASK_QUEUE_ENABLE=2, with which torch_npu prepares launches in parallel with Python; torch.compile "
    "with torchair's backend; larger batches; fused optimizers (torch_npu.optim); no Python loops over tensors",
    "pytorch, compiled": "mode='reduce-overhead' of torch.compile launches each compiled part as a CUDA graph; fewer graph "
    "breaks (TORCH_LOGS=graph_breaks); larger batches; fused optimizers",
    "tensorflow": "tf.function(jit_compile=True) around the whole step; with Keras' fit, jit_compile=True and "
    "steps_per_execution in compile",
    "tensorflow 1": "several steps in one session.run (tf.while_loop, input from tf.data instead of feed_dict); XLA "
    "(global_jit_level in tf.ConfigProto); larger batches",
    "tensorflow 1, compiled": "fewer and larger XLA clusters: replace operators between them that XLA cannot compile; several "
    "steps in one session.run (tf.while_loop, input from tf.data instead of feed_dict); larger batches",
    "mxnet": "net.hybridize(static_alloc=True, static_shape=True)",
    "jax": "jax.jit around the whole step, with donate_argnums; jax.lax.scan over steps",
    "jax, compiled": "read results (losses) every few steps only, so that the host runs ahead of the device; jax.lax.scan over "
    "several steps in one call; larger batches",
    "pytorch, on an AMD GPU": "torch.compile(model, mode='reduce-overhead') or HIP graphs (torch.cuda.graph) launch many kernels "
    "at once; larger batches; fused optimizers; no Python loops over tensors",
    "pytorch, on another accelerator": "torch.compile(model) with the device's own backend makes fewer kernels; larger batches; "
    "no Python loops over tensors",
    "pytorch, compiled, on an AMD GPU": "mode='reduce-overhead' of torch.compile launches each compiled part as a HIP graph; "
    "fewer graph breaks (TORCH_LOGS=graph_breaks); larger batches; fused optimizers",
    "pytorch, compiled, on another accelerator": "fewer graph breaks (TORCH_LOGS=graph_breaks); larger batches",
    "vllm": "leave out enforce_eager=True, with which vLLM launches kernel by kernel: cudagraph_mode of its compilation_config "
    "(FULL_AND_PIECEWISE) records the decoding step as graphs; more sequences at once (max_num_seqs)",
    "on an AMD GPU": "do more work with each launch: larger inputs or batches, fused kernels, HIP graphs",
    "on another accelerator": "do more work with each launch: larger inputs or batches, fused kernels",
    "": "do more work with each launch: larger inputs or batches, fused kernels, CUDA graphs",
}
_ON_HOST = {
    "pytorch": "torch.compile(model): the compiled step dispatches few operators; larger batches; no Python loops over tensors",
    "pytorch, compiled": "fewer graph breaks (TORCH_LOGS=graph_breaks), and compile the optimizer, too; larger batches",
    "tensorflow, eager": "tf.function around the step, which now runs eagerly, operator by operator",
    "tensorflow": "one tf.function around several steps; with Keras' fit, steps_per_execution in compile; larger batches; XLA "
    "made small convolutional networks slower on processors: try it before you keep it",
    "onnxruntime": "larger batches; fewer nodes: graph_optimization_level=ORT_ENABLE_ALL fuses them, and nodes of Loop run "
    "one by one; ORT_SEQUENTIAL where few nodes can run at once",
    "": "compile the step, so that neither Python nor dispatch runs between its kernels; larger batches",
}
_NEXT = 500  # ns that an H200 takes from kernel to kernel inside a CUDA graph; 1.9 us outside (docs/gpu)
_CLOSER = {
    "pytorch": "torch.compile(model) makes fewer kernels; its mode='reduce-overhead', or torch.cuda.graph, launches them as one",
    "pytorch, on an NPU": "torch.compile with torchair's backend makes fewer kernels and launches them as one graph",
    "pytorch, on an AMD GPU": "torch.compile(model) makes fewer kernels; its mode='reduce-overhead', or torch.cuda.graph, "
    "launches them as one (HIP) graph",
    "pytorch, on another accelerator": "torch.compile(model) with the device's own backend makes fewer kernels",
    "on another accelerator": "fewer, larger kernels",
    "vllm": "cudagraph_mode of vLLM's compilation_config (FULL_AND_PIECEWISE) launches the decoding step as graphs; it needs "
    "enforce_eager left out",
    "on an AMD GPU": "fewer, larger kernels, or HIP graphs, in which the device starts the next kernel sooner",
    "": "fewer, larger kernels, or CUDA graphs, in which the device starts the next kernel sooner",
}
LINKS = {
    "vllm": "https://docs.vllm.ai/en/latest/design/cuda_graphs.html",
    "pytorch, on an NPU": "https://gitee.com/ascend/pytorch",
    "pytorch": "https://docs.pytorch.org/docs/stable/torch.compiler.html",
    "tensorflow 1": "",
    "tensorflow": "https://www.tensorflow.org/guide/function",
    "jax": "https://docs.jax.dev/en/latest/jit-compilation.html",
    "": "",
}


def untold_ns(subject: Subject) -> int:
    """Return how long the device waits without a recorded reason, if that is most of the only step of a recording; else 0.

    It may well be start-up, so what could be saved is not known.
    """
    rows = subject.idle((idle_causes.PROGRAM,))
    ns, gaps = words.time_of(rows), float(rows["count"].sum())
    single = subject.per == STEPS and subject.count == 1 and not subject.on_host
    return ns if single and subject.trace.host_lines.empty and ns > max(_MOST * subject.step_ns, _LONG * gaps) else 0


def device_waits(subject: Subject) -> list[Advice]:
    """The device finishes before the host has launched its next work."""
    if subject.on_host or untold_ns(subject):
        return []
    rows = subject.idle(_PACE)
    idle_ns = words.time_of(rows)
    ns = max(idle_ns - subject.waited_ns, 0)
    kernels = subject.kernels()
    count = float(kernels["count"].sum())
    mean = float(kernels["duration_ns"].sum()) / count if count else 0.0
    short = f", {words.duration(mean)} each on average" if mean < _SHORT else f" of {words.duration(mean)} on average"
    own = rows[(rows["cause"] == idle_causes.PROGRAM).to_numpy(bool)]
    evidence = [
        f"The device idles {words.share(subject, idle_ns)} {subject.per} while the host prepares its next work; "
        f"it runs {words.count(count)} kernel{'' if count == 1 else 's'}{short}.",
        f"Meanwhile the host is: {words.largest(rows, 'cause', 4)}.",
    ]
    detailed = rows[rows["detail"].notna()]
    evidence += words.where(detailed, "detail") if words.time_of(detailed) > ns / 2 else []
    if subject.waited_ns:
        follows = f"{words.duration(subject.waited_ns)} of it comes right after the host waited for the device"
        evidence.append(f"{follows}: faster launches do not save that.")
    mostly_own = words.time_of(own) > ns / 2
    title = "the device waits for the program's own code" if mostly_own else "the device waits for its launches"
    if subject.per == STEPS and subject.count == 1:
        evidence.append("Only one step was recorded: work that runs once, such as start-up, counts as if every step did it.")
    gaps = float(own["count"].sum())
    few = mostly_own and words.time_of(own) > _LONG * gaps
    unknown = few and subject.trace.host_lines.empty
    if unknown:
        evidence.append(f"In {words.count(gaps)} gaps the program's own code runs, and the recording does not show what it does.")
    longest = words.longest_place(subject, 0.1 * ns) if few and not unknown else ""
    move = f"move {longest}, and what else the program does there, out of the step, or onto another thread" if longest else _MOVE
    return [
        Advice(
            "host-bound",
            title,
            ns,
            "all of that idle time except what follows waits, if the host runs ahead of the device"
            if subject.waited_ns
            else "all of that idle time, if the host runs ahead of the device",
            [*evidence, *words.lines(subject, 0.1 * ns, words.SLOWED * ns)],
            move if few and not unknown else _NAME if few else words.text(subject, REMEDIES),
            "" if few else words.text(subject, LINKS),
            words.ids(rows),
        )
    ]


def gaps(subject: Subject) -> list[Advice]:
    """The device idles before kernels that were launched in time: the host is ahead, and faster launches change nothing."""
    rows = subject.idle((idle_causes.QUEUED,))
    ns, count = words.time_of(rows), float(rows["count"].sum())
    if not count:
        return []
    mean = ns / count
    long = mean > idle_causes.LONG_GAP
    number = f"{words.count(count)} gaps {subject.per}, {words.duration(mean)} on average"
    return [
        Advice(
            "gaps between kernels",
            "the device idles between kernels that are launched in time",
            ns if long else max(ns - _NEXT * count, 0.0),
            "all of it" if long else "all but 500 ns a gap, which an H200 takes inside CUDA graphs",
            [
                f"{number}, together {words.share(subject, ns)}.",
                *longest_gaps.sentences(subject),
            ],
            idle_causes.AFTER_LONG_GAPS if long else words.text(subject, _CLOSER),
            "" if long else words.text(subject, LINKS),
            words.ids(rows),
        )
    ]


def dispatch(subject: Subject) -> list[Advice]:
    """On the host, operators and layers take time in which nothing computes: dispatch, and the Python around it."""
    if not subject.on_host or onnx_graph.is_profile(subject):
        return []
    rows = _dispatching(subject)
    ns = words.time_of(rows)
    if ns < _EAGER * subject.step_ns:
        return []
    operators = float(rows.loc[(rows["cause"] == idle_causes.OPERATOR).to_numpy(bool), "count"].sum())
    number = f", in {words.count(operators)} operators" if operators >= 1 else ""
    return [
        Advice(
            "dispatch",
            "dispatching operators takes longer than it needs to",
            ns - _EAGER * subject.step_ns / 3,
            "all but the 5% of a step that compiled programs still need",
            [
                f"In operators and layers, outside of kernels: {words.share(subject, ns)} {subject.per}{number}.",
                *(words.where(rows, "layer") or words.where(rows, "detail")),
                *words.lines_of(subject, rows),
            ],
            words.compiling(subject, words.text(subject, {**REMEDIES, **_ON_HOST}), rows),
            words.text(subject, LINKS),
            words.ids(rows),
        )
    ]


def _dispatching(subject: Subject) -> pd.DataFrame:
    """Return the rows of operators and layers in which nothing computes, and which a compiled program would not have."""
    rows = subject.idle((idle_causes.OPERATOR, idle_causes.RANGE))
    operators = rows["cause"] == idle_causes.OPERATOR
    kept = operators | rows["layer"].notna()
    kept &= (rows["phase"] != "data").fillna(True) & ~_of_callbacks(rows)
    kept &= ~rows.index.isin(loops.reading_out(subject)[0].index)
    kept &= ~rows["layer"].isin([*keras_loops.LOOPS, *subject.recurrent])
    kept &= ~(operators & (rows["time_ns"] > _NO_DISPATCH * rows["count"]))
    return rows[kept.to_numpy(bool)]


def own_code(subject: Subject) -> list[Advice]:
    """On the host, the program's own code runs between layers while nothing computes."""
    if not subject.on_host:
        return []
    chosen = (subject.rows["part"] == IDLE) & subject.rows["layer"].isna() & (subject.rows["phase"] != "data").fillna(True)
    own = subject.rows["cause"].isin([idle_causes.PROGRAM, idle_causes.RANGE]) | _of_callbacks(subject.rows)
    own &= ~subject.rows["detail"].str.contains(_WAITED_IN).fillna(False).astype(bool)
    rows = subject.rows[(chosen & own).to_numpy(bool)]
    ns = words.time_of(rows)
    mostly_recording = float(subject.facts.get("traced_step_ns") or 0) > _RECORDED * subject.step_ns
    if ns < _OWN * subject.step_ns or mostly_recording:
        return []
    named = rows[rows["detail"].notna().to_numpy(bool)]
    return [
        Advice(
            "python",
            f"the program's own code runs{'' if subject.program else ' in the step'} outside of any operator",
            ns,
            _OWN_GAINS if subject.program else "all of it, if that code leaves the loop or runs on another thread",
            [
                f"Outside of operators and layers: {words.share(subject, ns)} {subject.per}.",
                *(words.where(named, "detail") if 2 * words.time_of(named) > ns else []),
                *(words.lines_of(subject, rows) or words.idle_lines(subject, ns)),
            ],
            _OWN_REMEDIES[subject.program],
            "",
            words.ids(rows),
        )
    ]


def _of_callbacks(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return which rows are in callbacks that the program gave to its framework's loop."""
    return (rows["detail"] == _CALLBACKS).fillna(False).astype(bool)


RULES: tuple[Rule, ...] = (device_waits, gaps, dispatch, own_code)
