"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

# pytest-xdist tells its workers how wide the terminal is; what commands print into pipes must not depend on it
os.environ.pop("COLUMNS", None)

# What a shell without job control starts in the background ignores Ctrl-C, and hands that on to what it starts
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests run beside each other: threads of frameworks and of BLAS that spin while they wait would take what the others need
os.environ.setdefault("OMP_NUM_THREADS", "1")

# As commands have it: to search for cyclic garbage, of which there is little, costs some percent
gc.set_threshold(100_000, 20, 20)

# How long an example takes says more about what else the machine does
hypothesis.settings.register_profile("kernelscope", deadline=None)
hypothesis.settings.load_profile("kernelscope")

# Files that record real frameworks for long: one worker takes all of them, because their threads spin beside each other
RECORDING = {
    f"tests/{name}.py"
    for name in (
        "test_compare", "test_faults", "test_more_frameworks", "tools/planted/test_planted", "workloads/test_mxnet",
        "workloads/test_pytorch", "workloads/test_tensorflow",
    )
}  # fmt: skip


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--enable-logging=stderr", "--log-level=0", "--dump-dom",
)  # fmt: skip
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


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


@pytest.fixture
def browse(tmp_path: Path) -> Callable[..., tuple[str, list[str]]]:
    """Open a page in headless Chromium; return its document once its scripts ran, and what the console then says.

    more: HTML that is put behind the page, which drives it; a page forbids foreign scripts, and only here is that lifted.
    milliseconds: of the page's own time. options: of the browser, beside those that all have.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium on this machine")

    def opened(path: Path, more: str = "", milliseconds: int = 3000, options: Sequence[str] = ()) -> tuple[str, list[str]]:
        if more:
            text = POLICY.sub("", path.read_text(encoding="utf8"))
            path = path.with_name(f"driven-{path.name}")
            path.write_text(text + more, encoding="utf8")
        own = [f"--user-data-dir={tmp_path / 'profile'}", f"--virtual-time-budget={milliseconds}"]
        command = [browser, *BROWSER_OPTIONS, *own, *options, path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return opened
