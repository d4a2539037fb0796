"""Set theoretical occupancy, tensor cores and least bytes beside what the GPU's own counters say, kernel by kernel.

    python tests/tools/gpu/counters.py record FOLDER [--program NAME]...    # on a GPU: needs torch, torchvision and ncu
    python tests/tools/gpu/counters.py judge FOLDER                         # anywhere

Each program does one step of training twice: under PyTorch's profiler, whose kernels are what kernelscope derives its numbers
from, and under Nsight Compute. Both are of one stream and of the same program, so the k-th kernel is the same one.
"""

import argparse
import csv
import difflib
import os
import shutil
import subprocess
import sys

SECTIONS = ("LaunchStats", "Occupancy", "SpeedOfLight", "ComputeWorkloadAnalysis")
PIPE, HALVES = "sm__inst_executed_pipe_tensor", "_op_hmma_type_hfma2"
THEORETICAL, WAVES, ROUNDED = "sm__maximum_warps_per_active_cycle_pct", "launch__waves_per_multiprocessor", 0.0051
METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
PROGRAMS = {  # name -> options of plants.Program, changes of its sizes
    "gpt-bfloat16": ({"model": "gpt", "batch": 4}, {"layers": 2}),
    "gpt-tf32": ({"model": "gpt", "batch": 4, "precision": "float32"}, {"layers": 1}),
    "resnet18": ({"model": "resnet18"}, {}),
}


def program(name):
    """Return a program of one step."""
    import plants
    import torch

    options, sizes = PROGRAMS[name]
    if options["model"] == "gpt":
        original = plants.Gpt
        plants.Gpt = lambda given, **small: original(given, **{**sizes, **small})
        return plants.Program({**plants.DEFAULTS, **options})
    import torchvision

    model = torchvision.models.resnet18(num_classes=1000).to(plants.DEVICE).to(memory_format=torch.channels_last)
    images = torch.randn(32, 3, 224, 224, device=plants.DEVICE).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (32,), device=plants.DEVICE)
    plants.Program.resnet18 = lambda self: (model, [(images, labels)] * 2)
    return plants.Program({**plants.DEFAULTS, **options})


def step(name, path):
    """Do one step between cudaProfilerStart and cudaProfilerStop, or with a path recorded there by PyTorch's profiler."""
    import torch

    work = program(name)
    for _ in range(5):
        work.step()
    torch.cuda.synchronize()
    if path:
        with torch.profiler.profile(record_shapes=True) as profile:
            work.step()
            torch.cuda.synchronize()
        profile.export_chrome_trace(path)
        return
    torch.cuda.cudart().cudaProfilerStart()
    work.step()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def record(folder, names, kernels):
    """Record the programs under both, of the counters those of some kernels only; return whether all came to their end."""
    os.makedirs(folder, exist_ok=True)
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    known = subprocess.run([ncu, "--query-metrics"], stdout=subprocess.PIPE, text=True).stdout
    names_known = [line.split(" ")[0] for line in known.splitlines()]
    tensor = [name + ".sum" for name in names_known if name.startswith(PIPE)]
    print("tensor metrics:", *tensor, flush=True)
    fine = True
    for name in names:
        own = [sys.executable, os.path.abspath(__file__), "step", name]
        fine &= subprocess.run([*own, "--path", os.path.join(folder, name + ".pt.trace.json.gz")]).returncode == 0
        options = ["--profile-from-start", "off", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
        for section in SECTIONS:
            options += ["--section", section]
        if kernels:
            options += ["--kernel-name", "regex:" + kernels]
        options += ["--metrics", ",".join([*METRICS, *tensor])]
        with open(os.path.join(folder, name + ".ncu.csv"), "w") as file:
            fine &= subprocess.run([ncu, *options, *own], stdout=file).returncode == 0
        print(name, "recorded" if fine else "failed", flush=True)
    return fine


def counted(path):
    """Return the rows of Nsight Compute's table, and an error that it ended with, None without any."""
    with open(path) as file:
        lines = file.read().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith('"ID"'))
    error = next((line for line in lines[:first] if line.startswith("==ERROR==")), None)
    return [row for row in csv.DictReader(lines[first:]) if row["ID"]], error


def derived(path):
    """Return what kernelscope says of each kernel of a trace, in the order of their start."""
    from kernelscope.analysis.device import occupancy
    from kernelscope.analysis.recordings.reading import read

    keys = ["name", "grid", "block", "registers"]
    trace = read(path)
    known = occupancy.table(trace).rename(columns={"kernel": "name"}).astype({"name": "string"}).drop_duplicates(keys)
    kernels = trace.kernels.sort_values("start_ns").astype({"name": "string", "tensor_core": object})
    kernels = kernels.merge(known[[*keys, "occupancy", "waves"]], how="left", on=keys)
    return kernels[[*keys, "occupancy", "waves", "tensor_core"]].to_dict("records")


def pairs(kernels, rows):
    """Return (kernel, row) of those that both have, in order, by grid, block and registers."""
    sizes = ("Grid Size", "Block Size")
    ours = [(kernel["grid"], kernel["block"], int(kernel["registers"])) for kernel in kernels]
    theirs = [
        (*(row[size].strip("()").replace(" ", "") for size in sizes), int(row["launch__registers_per_thread"])) for row in rows
    ]
    blocks = difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    return [(kernels[a + place], rows[b + place]) for a, b, size in blocks for place in range(size)]


def disagreements(kernel, row):
    """Return in words where the two differ; products of pairs of halves run in the tensor pipe without multiplying matrices."""
    number = {name: float(row[name].replace(",", "")) for name in (THEORETICAL, WAVES, PIPE + ".sum", PIPE + HALVES + ".sum")}
    said = [
        f"{ours} {kernel[ours]:.4f}, by the counters {theirs:.4f}"
        for ours, theirs in (("occupancy", number[THEORETICAL] / 100), ("waves", number[WAVES]))
        if abs(kernel[ours] - theirs) > ROUNDED
    ]
    multiplies = number[PIPE + ".sum"] > number[PIPE + HALVES + ".sum"]
    if kernel["tensor_core"] in (True, False) and kernel["tensor_core"] != multiplies:
        said.append(f"tensor cores {kernel['tensor_core']}, by the counters {multiplies}")
    return [f"{kernel['name'][:60]}: {line}" for line in said]


def judge(folder):
    """Return {program: [kernels that both have, rows of counters, disagreements in words]}, and print it."""
    result = {}
    for name in sorted(path[: -len(".ncu.csv")] for path in os.listdir(folder) if path.endswith(".ncu.csv")):
        rows, error = counted(os.path.join(folder, name + ".ncu.csv"))
        both = pairs(derived(os.path.join(folder, name + ".pt.trace.json.gz")), rows)
        wrong = sorted({line for kernel, row in both for line in disagreements(kernel, row)})
        result[name] = len(both), len(rows), wrong
        ended = f"; ended with {error}" if error else ""
        print(f"{name}: {len(both)} of {len(rows)} kernels found, {len(wrong)} disagree{ended}")
        print("".join(f"  {line}\n" for line in wrong), end="")
    return result


def main():
    """Return 0 when all was recorded, or when what is judged agrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "step", "judge"))
    parser.add_argument("name", metavar="FOLDER", help="or, of `step`, the program")
    parser.add_argument("--program", action="append", choices=PROGRAMS)
    parser.add_argument("--kernels", metavar="REGEX", help="counters of these kernels only: each takes a quarter of a second")
    parser.add_argument("--path", help="of `step`: record there with PyTorch's profiler")
    arguments = parser.parse_args()
    if arguments.what == "step":
        step(arguments.name, arguments.path)
        return 0
    if arguments.what == "record":
        return 0 if record(arguments.name, arguments.program or list(PROGRAMS), arguments.kernels) else 1
    return 1 if any(wrong for *_, wrong in judge(arguments.name).values()) else 0


if __name__ == "__main__":
    sys.exit(main())
