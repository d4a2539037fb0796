"""What `run` and `compare` have in common: options, environments, progress."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from kernelscope.tracer.outside import collectors, environments, gpu
from kernelscope.tracer.outside.collectors import Choice
from kernelscope.tracer.outside.environments import Environment
from kernelscope.tracer.outside.errors import UsageError
from kernelscope.tracer.outside.options import RunOptions, check_workload
from kernelscope.tracer.outside.run_folder import dated
from kernelscope.tracer.outside.session import Progress, Session
from kernelscope.tracer.outside.variants import Variant

_FOLDER = "runs"  # for results without -o
LOADERS = ("files", "records")
COLLECTORS = ("framework", "nsys", "nvprof", "cupti")  # collectors.NAMES, which is slow to import


def _at_least(low: int, high: int = 1 << 20) -> type:
    """Return an argparse type: an integer between `low` and `high`."""

    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{value} is not between {low} and {high}")
        return value

    return integer  # type: ignore[return-value]


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return value


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run` and `compare` share, in the order in which help lists them."""
    add = parser.add_argument
    add("network", metavar="WORKLOAD", help="the network, such as lenet; a wrong name lists them all")
    add("-o", "--output", metavar="DIR", help=f"folder for the results (default: {_FOLDER}/<name>-<date and time>)")
    _add_work(parser)
    _add_passes(parser)
    _add_computation(parser)
    _add_files(parser)


def _add_work(parser: argparse.ArgumentParser) -> None:
    """Add what a step is, and where it runs."""
    add = parser.add_argument
    add("--mode", choices=("train", "infer"), default="train", help="what a step is (default: train)")
    add("--batch", type=_at_least(1), default=64, metavar="N", help="samples per step (default: 64)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run (default: a GPU if NVML sees one)")
    add("--devices", type=_at_least(1, 1024), default=1, metavar="N", help="devices that share each batch (default: 1)")
    add("--threads", type=_at_least(1, 4096), metavar="N", help="processor threads (default: all allowed, shared by --devices)")


def _add_passes(parser: argparse.ArgumentParser) -> None:
    """Add how many steps are measured, and what records them."""
    add = parser.add_argument
    add("--steps", type=_at_least(1), default=30, metavar="N", help="measured steps per repeat of a pass (default: 30)")
    least = "minimum of warm-up steps; more run until their times settle (default: 10)"
    add("--warmup", type=_at_least(0), default=10, metavar="N", help=least)
    add("--repeats", type=_at_least(1, 1000), default=3, metavar="N", help="restarts of the clean pass (default: 3)")
    tools = ("auto", *COLLECTORS)
    add("--collector", choices=tools, default="auto", help="the tool that records the kernels pass (default: auto)")
    add("--nsys", metavar="PATH", help="the nsys to use (default: the newest that works)")
    keep = "also keep nsys's reports, which contain every process's environment variables"
    add("--keep-reports", action="store_true", help=keep)


def _add_computation(parser: argparse.ArgumentParser) -> None:
    """Add how the framework computes."""
    add = parser.add_argument
    add("--seed", type=_at_least(0, (1 << 31) - 1), default=0, metavar="N", help="seed of weights and data (default: 0)")
    types = ("float32", "float16", "bfloat16")
    add("--precision", choices=types, help="precision of the computation (default: the framework's own)")
    add("--layout", choices=("channels_first", "channels_last"), help="memory layout of images (default: the framework's own)")
    tune = "try convolution algorithms first and use the fastest (default: the framework's own)"
    add("--autotune", choices=("on", "off"), help=tune)
    steady = "steady heap, passive waiting and longer clean passes, to resolve smaller differences"
    add("--steady", action="store_true", help=steady)
    add("--energy", action="store_true", help="add the energy pass (a minute or two) if energy counters can be read")


def _add_files(parser: argparse.ArgumentParser) -> None:
    """Add what is read and written, and how long a child may take."""
    add = parser.add_argument
    add("--data", metavar="DIR", help="folder with MNIST or CIFAR-10 files, images or converted data (default: random data)")
    add(
        "--loader",
        choices=("memory", *LOADERS),
        default="memory",
        help="memory: read --data before the steps; files, records: read its files or records in every step (default: memory)",
    )
    add("--full-paths", action="store_true", help="keep the home folder and the user's name in the output (default: write ~)")
    add(
        "--timeout",
        type=_seconds,
        default=300.0,
        metavar="SECONDS",
        help="how long a child process may take to answer (default: 300)",
    )
    add("--force", action="store_true", help="replace earlier results in the output folder")


def folder(arguments: argparse.Namespace, name: str) -> Path:
    """Return the folder for the results: the one that was named, else a new one of this name."""
    return Path(arguments.output) if arguments.output else dated(_FOLDER, name)


def options(arguments: argparse.Namespace) -> RunOptions:
    """Return the options of a run; raise UsageError for an unknown workload or a missing device."""
    check_workload(arguments.network)
    device = arguments.device
    if device != "cpu":
        missing = gpu.find().reason
        if device == "cuda" and missing:
            raise UsageError(f"--device cuda: no GPU to run on ({missing}); use --device cpu")
        device = "cpu" if missing else "cuda"
    if arguments.batch % arguments.devices:
        raise UsageError(f"--batch {arguments.batch}: not divisible by --devices {arguments.devices}; choose a multiple")
    if device == "cuda":
        _check_gpus(arguments.devices)
    if arguments.data is not None and not os.path.isdir(arguments.data):
        raise UsageError(f"--data {arguments.data}: not a folder")
    if arguments.data is None and arguments.loader in LOADERS:
        raise UsageError(f"--loader {arguments.loader}: needs --data, the folder to read")
    cores = len(os.sched_getaffinity(0))
    return RunOptions(
        network=arguments.network, mode=arguments.mode, batch=arguments.batch, device=device,
        threads=arguments.threads or max(1, cores // arguments.devices), seed=arguments.seed, steps=arguments.steps,
        warmup=arguments.warmup, repeats=arguments.repeats, steady=arguments.steady, timeout_s=arguments.timeout,
        data=arguments.data, loader=arguments.loader if arguments.loader in LOADERS else None, collector=arguments.collector,
        keep_reports=arguments.keep_reports, energy=arguments.energy, full_paths=arguments.full_paths,
        precision=arguments.precision, layout=arguments.layout,
        autotune=None if arguments.autotune is None else arguments.autotune == "on", devices=arguments.devices,
    )  # fmt: skip


def _check_gpus(devices: int) -> None:
    """Raise UsageError if fewer GPUs are visible than are asked for."""
    visible = len(gpu.visible(os.environ, gpu.find().devices))
    if devices > max(visible, 1):  # some values of CUDA_VISIBLE_DEVICES do not tell which are visible
        raise UsageError(
            f"--devices {devices}: {visible} GPU{' is' if visible == 1 else 's are'} visible; name fewer, or see "
            "CUDA_VISIBLE_DEVICES and `kernelscope doctor`"
        )


def choices(arguments: argparse.Namespace, options: RunOptions, variants: list[Variant]) -> list[Choice]:
    """Return the collector of each side's kernels pass; raise UsageError if the one asked for is not available."""
    return [collectors.chosen(options, variant, arguments.nsys) for variant in variants]


def record(session: Session) -> None:
    """Run a session and show its progress, then print its warnings."""
    with progress() as shown:
        session.run(shown)
    for line in session.warnings:
        print(f"kernelscope: warning: {line}", file=sys.stderr)


def environment(framework: str, python: str | None) -> Environment:
    """Return the environment of a framework; raise UsageError for an unknown framework, ChildError if it is not ready."""
    return environments.resolve(framework, python)


@contextmanager
def progress() -> Iterator[Progress]:
    """Show progress on stderr: a bar on a terminal, a line per pass elsewhere."""
    console = Console(stderr=True)
    if not sys.stderr.isatty():
        yield lambda label, done, total: print(f"[{done}/{total}] {label}", file=sys.stderr, flush=True)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("so far,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Bars(*columns, console=console, transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda label, done, total: bar.update(task, description=f"pass: {label}", completed=done, total=total)
