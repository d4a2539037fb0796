"""What holds for all tests."""

from __future__ import annotations

import os
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

# pytest-xdist tells its workers how wide the terminal is; what commands print into pipes must not depend on it
os.environ.pop("COLUMNS", None)

# How long an example takes says more about what else the machine does
hypothesis.settings.register_profile("kernelscope", deadline=None)
hypothesis.settings.load_profile("kernelscope")

# Files that record real frameworks for long: one worker takes all of them, because their threads spin beside each other
RECORDING = {
    f"tests/{name}.py"
    for name in (
        "test_compare", "test_faults", "test_more_frameworks", "planted/test_planted", "workloads/test_mxnet",
        "workloads/test_pytorch", "workloads/test_tensorflow",
    )
}  # fmt: skip


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker whole files, and all that record to one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return "recording" if file in RECORDING else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Share out files as said above, whatever --dist asks for."""
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let what records begin first."""
    items.sort(key=lambda item: item.nodeid.split("::")[0] not in RECORDING)
