import json
import math

import pytest

from kernelscope.analysis.comparisons import sweeps

DEFAULTS = {"threads": 2, "device": "cpu", "devices": 1, "hardware": "a processor, 2 cores", "mode": "train"}
LINES = {"pytorch": 60, "tensorflow": 55, "mxnet": 58, "cntk": 70, "keras-tensorflow": 31, "onednn": 190, "keras-torch": 31}
SPEED = {"pytorch": 1.0, "tensorflow": 0.9, "mxnet": 1.3, "cntk": 0.4, "keras-tensorflow": 0.7, "onednn": 2.0, "keras-torch": 0.8}
WORK = {"lenet": 9000.0, "alexnet": 40.0, "resnet50": 6.0, "cifarcnn": 450.0, "mlp": 30000.0, "fcn5": 120.0}


def cell(framework, network, status="done", like="pytorch", **more):
    """A row of results.parquet; its rate is made of the tables above, its interval is 4% to either side.

    A framework that they do not have is like another one.
    """
    row = {**DEFAULTS, "framework": framework, "network": network, "batch": 64, "status": status, **more}
    row.setdefault(
        "cell",
        "-".join(
            str(row.get(name))
            for name in (
                "framework",
                "network",
                "mode",
                "batch",
                "threads",
                "device",
                "devices",
                "precision",
                "layout",
                "autotune",
            )
        ),
    )
    row.setdefault("version", "1.0")
    if status != "done":
        return {"reason": "because", **row}
    if "step_ns" not in row:
        rate = (
            WORK[network] * SPEED.get(framework, SPEED[like]) * math.sqrt(row["threads"]) * min(1.0, (row["batch"] / 64) ** 0.5)
        )
        row["step_ns"] = round(row["batch"] / rate * 1e9)
    row["step_low_ns"], row["step_high_ns"] = round(row["step_ns"] * 0.96), round(row["step_ns"] * 1.04)
    for name, of in (("", "step_ns"), ("_low", "step_high_ns"), ("_high", "step_low_ns")):
        row[f"samples_per_second{name}"] = row["batch"] / row[of] * 1e9
    row.setdefault("host_memory_mib", 300.0 + 100 * len(framework))
    row.setdefault("lines_of_code", LINES.get(framework))
    return {"repeats": 3, "repeat_samples_per_second": [row["samples_per_second"]] * 3, **row}


def written(folder, rows, experiment=None, **record):
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "schema": "kernelscope/sweep/1", "name": folder.name, "title": f"The sweep {folder.name}", "experiment": experiment,
        "toml": "", "machine": {}, "kernelscope": "0.1.0", "cells": [], **record,
    }  # fmt: skip
    (folder / "sweep.json").write_text(json.dumps(about), encoding="utf8")
    sweeps.write(folder, [{"experiment": experiment, **row} for row in rows])
    return folder


@pytest.fixture(scope="session")
def make_cell():
    return cell


@pytest.fixture(scope="session")
def make_sweep(tmp_path_factory):
    """Writes a sweep of these rows into a folder of this name, and returns the folder."""
    return lambda name, rows, experiment=None, **record: written(
        tmp_path_factory.mktemp("sweeps") / name, rows, experiment, **record
    )


@pytest.fixture(scope="module")
def thesis(tmp_path_factory):
    names = ("pytorch", "tensorflow", "mxnet", "cntk", "keras-tensorflow")
    rows = [cell(name, network) for network in ("lenet", "alexnet", "resnet50") for name in names]
    rows = [row for row in rows if (row["framework"], row["network"]) not in {("cntk", "resnet50"), ("mxnet", "alexnet")}]
    rows.append(cell("cntk", "resnet50", "out of memory", reason="killed by the system at 3.9 GiB"))
    rows.append(cell("mxnet", "alexnet", "timeout", reason="no end after 600 s"))
    return written(tmp_path_factory.mktemp("sweeps") / "thesis", rows, "thesis")


@pytest.fixture
def shi(tmp_path):
    rows = [
        cell(name, "fcn5", threads=threads, batch=batch)
        for name in ("pytorch", "tensorflow", "cntk")
        for threads in (1, 2, 4)
        for batch in (16, 32, 64)
        if not (name == "tensorflow" and batch == 64)
    ]
    rows += [cell("tensorflow", "fcn5", "out of memory", threads=threads, batch=64) for threads in (1, 2, 4)]
    return written(tmp_path / "shi", rows, "shi2016")


@pytest.fixture
def levels(tmp_path):
    rows = [cell(name, "lenet", mode="infer", batch=1) for name in ("onednn", "pytorch", "tensorflow", "keras-tensorflow")]
    rows += [cell("keras-torch", "lenet", "not available", mode="infer", batch=1)]
    return written(tmp_path / "levels", rows, "abstraction")


@pytest.fixture
def gpus(tmp_path):
    common = {"device": "cuda", "hardware": "2 GPUs"}
    rows = [
        cell(
            name, network, **common, devices=devices, power_w=200.0 + devices, gpu_memory_mib=1000.0,
            step_ns=round(64 / (WORK[network] * SPEED[name]) * 1e8 / devices**0.8),
        )
        for name in ("pytorch", "tensorflow", "mxnet")
        for network in ("lenet", "alexnet")
        for devices in (1, 2)
    ]  # fmt: skip
    return written(tmp_path / "gpus", rows, "thesis")
