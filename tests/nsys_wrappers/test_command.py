"""Commands are right for each release, and what a release cannot do is refused in one line."""

from pathlib import Path

import pytest

from kernelscope.nsys_wrappers import cuda_versions, find
from kernelscope.nsys_wrappers.command import CaptureError, nsys_command, nvprof_command, report_suffix
from kernelscope.nsys_wrappers.find import Tool
from kernelscope.nsys_wrappers.options import CPU_TRACES, NsysOptions, NvprofOptions, NvtxRange

OUT = Path("/runs/a/nsys")
PROGRAM = ["/usr/bin/python3", "-c", "print('$(id)'); #`id`", "--version"]


def nsys(version):
    return Tool("nsys", Path("/opt/nsys"), version, "installed")


def command(version="2024.6.2.225", offered=frozenset(), **options):
    built = nsys_command(nsys(version), NsysOptions(OUT, **options), PROGRAM, offered)
    assert built[-len(PROGRAM) :] == PROGRAM  # as they are: nothing reaches a shell
    return built[: -len(PROGRAM)]


def test_what_disturbs_is_off_and_the_program_is_left_alone():
    assert command(traces=CPU_TRACES) == [
        "/opt/nsys", "profile", "--output=/runs/a/nsys", "--trace=nvtx,osrt", "--sample=none", "--cpuctxsw=none", "--kill=none",
        "--wait=primary", "--osrt-backtrace-threshold=2147483647",
    ]  # fmt: skip


def test_all_options():
    built = command(
        traces=("cuda", "nvtx"), capture=NvtxRange("step 3; rm -rf /", "mine"), cuda_graph_trace="node", cpu_sampling=True,
        gpu_metrics=("0", "1"), memory_usage=True, delay_s=2, duration_s=5, stats=True, environment=(("A", "b=c"),), session="k",
    )  # fmt: skip
    assert built[3:] == [
        "--trace=cuda,nvtx", "--sample=process-tree", "--cpuctxsw=process-tree", "--kill=none", "--wait=primary",
        "--session-new=k", "--capture-range=nvtx", "--nvtx-capture=step 3; rm -rf /@mine", "--capture-range-end=stop",
        "--env-var=A=b=c,NSYS_NVTX_PROFILER_REGISTER_ONLY=0", "--cuda-graph-trace=node", "--cuda-memory-usage=true",
        "--gpu-metrics-devices=0,1", "--delay=2", "--duration=5", "--stats=true",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        ("2021.1.3.14", {"capture": "cudaProfilerApi"}, ["--capture-range=cudaProfilerApi", "--stop-on-range-end=true"]),
        ("2021.5.2.53", {"capture": "cudaProfilerApi"}, ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]),
        ("2021.5.2.53", {"cuda_graph_trace": "node"}, []),  # what it does anyway
        ("2022.4.2.1", {"cuda_graph_trace": "graph"}, ["--cuda-graph-trace=graph"]),
        ("2023.4.4.54", {"gpu_metrics": ("all",)}, ["--gpu-metrics-device=all"]),
        ("2025.1.3.140", {"gpu_metrics": ("all",)}, ["--gpu-metrics-devices=all"]),
        ("2026.2.1.210", {"capture": NvtxRange("train")}, ["--capture-range=nvtx", "--nvtx-capture=train",
                                                          "--capture-range-end=stop",
                                                          "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0"]),
        ("2026.2.1.210", {"capture": NvtxRange("train", "*")}, ["--capture-range=nvtx", "--nvtx-capture=train@*",
                                                               "--capture-range-end=stop",
                                                               "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0"]),
    ],
)  # fmt: skip
def test_options_that_changed(version, options, expected):
    built = command(version, **options)[8:]
    assert [argument for argument in built if "osrt" not in argument] == expected


def test_the_help_of_an_installation_is_believed_more_than_the_table():
    assert command("2024.6.2.225", frozenset({"--gpu-metrics-device"}), gpu_metrics=("0",))[-1] == "--gpu-metrics-device=0"
    assert command("2022.1.1.1", frozenset({"--cuda-graph-trace"}), cuda_graph_trace="graph")[-1] == "--cuda-graph-trace=graph"


@pytest.mark.parametrize(
    ("version", "options", "told"),
    [
        ("2020.4.3.7", {}, "older than 2021"),
        ("2021.5.2.53", {"cuda_graph_trace": "graph"}, "always records the nodes"),
        ("2021.1.3.14", {"gpu_metrics": ("0",)}, "use nsys 2021.2 or later"),
        ("2024.6.2", {"gpu_metrics": ("0 --stats",)}, "is not a GPU"),
        ("2024.6.2", {"traces": ("cuda,osrt --kill",)}, "nsys cannot trace"),
        ("2024.6.2", {"traces": CPU_TRACES, "capture": "cudaProfilerApi"}, "needs the trace cuda"),
        ("2024.6.2", {"traces": CPU_TRACES, "cuda_graph_trace": "node"}, "needs the trace cuda"),
        ("2024.6.2", {"traces": ("cuda",), "capture": NvtxRange("a")}, "needs the trace nvtx"),
        ("2024.6.2", {"capture": NvtxRange("a@b")}, "takes what follows @ for a domain"),
        ("2024.6.2", {"environment": (("A", "1,B=2"),)}, "must not contain a comma"),
        ("2024.6.2", {"delay_s": -1}, "cannot be negative"),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_line(version, options, told):
    with pytest.raises(CaptureError, match=told) as caught:
        command(version, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("program", [[], [""], ["--help"]])
def test_a_program_is_needed(program):
    with pytest.raises(CaptureError, match="give its path"):
        nsys_command(nsys("2024.6.2"), NsysOptions(OUT), program)


def test_names_of_files_are_literal():
    built = nsys_command(nsys("2024.6.2"), NsysOptions(Path("/runs/50% of %q{HOME}/nsys")), PROGRAM)
    assert built[2] == "--output=/runs/50%% of %%q{HOME}/nsys"


def test_reports_have_the_name_of_their_release():
    assert [report_suffix(nsys(version)) for version in ("2021.3.3.2", "2021.4.1.73", "2025.6.3")] == [
        ".qdrep", ".nsys-rep", ".nsys-rep"
    ]  # fmt: skip


def test_nvprof():
    tool = Tool("nvprof", Path("/cuda/bin/nvprof"), "11.8.87", "PATH")
    options = NvprofOptions(Path("/r/100%.nvvp"), Path("/r/nvprof.log"), capture="cudaProfilerApi", memory_usage=True)
    assert nvprof_command(tool, options, PROGRAM) == [
        "/cuda/bin/nvprof", "--export-profile", "/r/100%%.nvvp", "--log-file", "/r/nvprof.log",
        "--unified-memory-profiling", "off", "--profile-from-start", "off", "--track-memory-allocations", "on", *PROGRAM,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "cuda", "wanted"),
    [
        ("2022.4.2.1", "11.8", None),
        ("2022.4.2.1", "11.4", None),  # older than the table
        ("2022.4.2.1", "12.4", "2023.4.4"),
        ("2024.4.2.133", "12.6", None),
        ("2024.6.2.225", "12.8.1", None),
        ("2024.6.2.225", "13.0", "2025.3.2"),
        ("2025.6.3.541", "13.9", "2026.1.3"),  # newer than the table
        ("2022.4.2.1", "", None),
        ("2022.4.2.1", "N/A", None),
    ],
)
def test_an_nsys_older_than_cuda_is_a_warning(version, cuda, wanted):
    told = cuda_versions.warning(nsys(version), cuda)
    assert told is None if wanted is None else f"'s own {wanted}:" in told


def test_the_installed_nsys_knows_the_options():
    tool = find.find("nsys")
    if tool is None:
        pytest.skip("asking an nsys for its options needs Nsight Systems")
    offered = find.offered(tool)
    built = nsys_command(
        tool, NsysOptions(OUT, capture=NvtxRange("a"), stats=True, delay_s=1, session="k"), ["/bin/true"], offered
    )
    assert not offered or "--osrt-backtrace-threshold=2147483647" in built
    used = {argument.partition("=")[0] for argument in built[2:-1]}
    assert used <= offered
