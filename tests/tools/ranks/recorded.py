"""What the jobs that are recorded for tests share: ranks of gloo on one machine, and torch.profiler around a few steps."""

import os
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

WARMUP = 5  # steps before any is recorded


def begin(rank: int, world: int, port: int) -> None:
    """Join the other ranks, with one thread each and the same numbers."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")


def record(step: Callable[[], None], steps: int, path: str) -> None:
    """Record so many steps to a file, and leave the other ranks."""
    for _ in range(WARMUP):
        step()
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, schedule=schedule(wait=0, warmup=1, active=steps),
        on_trace_ready=lambda recorded: recorded.export_chrome_trace(path),
    ) as profiler:  # fmt: skip
        for _ in range(steps + 1):
            step()
            profiler.step()
    dist.destroy_process_group()
