"""One child: the framework's interpreter running one pass, controlled through a pipe."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from kernelscope.tracer.outside import answers
from kernelscope.tracer.outside.errors import ChildError

_SLEEP_LIMIT_S = 0.4  # longest wait for a child's spinning threads to sleep (Intel's OpenMP spins for 0.2 s)
_END_LIMIT_S = 10.0
_LOG_TAIL = 2000


class Collector(Protocol):
    """A profiler that a child runs under: the prefix of its command line, and the processes that result."""

    prefix: list[str]

    def processes(self) -> list[int]:
        """Return the ids of the profiler's and the child's processes."""

    def stop(self) -> None:
        """Kill all of them."""

    def of_child(self, lines: list[str]) -> list[str]:
        """Return the lines of the log that the child printed rather than the profiler."""


class Child:
    """A started child. Its stdout and stderr go to `log`, which every failure names.

    Under a collector, the started process is the profiler, and the child is one of its descendants, in its own process group.
    The child inherits the pipes as usual, but profilers keep copies, so the pipes close seconds after the child ends.
    inherited: further descriptors of ours that stay open in the child, such as that of a lock.
    """

    def __init__(
        self,
        python: Path,
        spec: dict[str, Any],
        folder: Path,
        environment: dict[str, str],
        timeout_s: float,
        module: str = "kernelscope.tracer.inside.child",
        collector: Collector | None = None,
        inherited: Sequence[int] = (),
    ):
        self.framework = str(spec["framework"])
        self.name = f"{spec.get('label') or self.framework}, {spec['pass']} pass"
        self.log = folder / "child.log"
        self.timeout_s = timeout_s
        self._buffer = bytearray()
        self._collector = collector
        self._pid: int | None = None
        self._watched: list[int] = []
        commands_read, self._commands = os.pipe()
        self._answers, answers_write = os.pipe()
        try:
            spec = {**spec, "commands_fd": commands_read, "answers_fd": answers_write}
            if collector is not None:
                spec["umask"] = _umask()
            path = folder.resolve() / "spec.json"
            path.write_text(json.dumps(spec, indent=1), encoding="utf8")
            with self.log.open("wb") as log:
                self._process = subprocess.Popen(
                    [*(collector.prefix if collector else ()), str(python), "-m", module, str(path)],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=folder,
                    pass_fds=(commands_read, answers_write, *inherited), start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            os.close(self._commands)
            os.close(self._answers)
            self._commands = self._answers = -1
            raise ChildError(f"{self.name}: cannot start {python}: {error.strerror or error}", "missing") from error
        finally:
            os.close(commands_read)
            os.close(answers_write)

    @property
    def pid(self) -> int:
        """Process id; under a collector, the child's own after its first answer."""
        return self._process.pid if self._pid is None else self._pid

    def tell(self, **command: Any) -> dict[str, Any]:
        """Send one command and return its answer; raise ChildError if the child fails, dies or does not answer in time."""
        try:
            os.write(self._commands, (json.dumps(command) + "\n").encode())
        except BrokenPipeError:
            raise self._died() from None
        answer = self.answer()
        expected = answers.EVENTS.get(str(command.get("do")), ())
        if expected and answer["event"] not in expected:
            raise self._nonsense(f"{answers.shown(answer['event'])} to {command['do']}")
        return answer

    def answer(self) -> dict[str, Any]:
        """Wait for the next answer; raise ChildError if the child says that it failed, or writes anything else."""
        line = self._read_line()
        try:
            message = answers.parse(line)
        except answers.NoAnswerError as error:
            raise self._nonsense(str(error)) from None
        if message["event"] == "error":
            self.stop()
            said = answers.visible(message["message"])
            if message["kind"] == "import":
                remedy = f"create its environment with `kernelscope env create {self.framework}`"
                raise ChildError(f"{self.name}: import failed: {said}; {remedy} (log: {self.log})", "missing")
            raise ChildError(f"{self.name}: {said} (log: {self.log})", message["kind"])
        if "pid" in message:
            self._pid = message["pid"]
            self._watched = [self._pid, *(self._collector.processes() if self._collector else ())]
        return message

    def _read_line(self) -> bytes:
        deadline = time.monotonic() + self.timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            end = self._buffer.find(b"\n")
            while end < 0:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.stop()
                    hint = "raise --timeout, or look at the log"
                    raise ChildError(f"{self.name}: no answer within {self.timeout_s:g} s; {hint}: {self.log}", "timeout")
                received = os.read(self._answers, 1 << 16)
                if not received:
                    raise self._died()
                if len(self._buffer) + len(received) > answers.LONGEST:
                    raise self._nonsense(
                        f"a line of more than {answers.LONGEST // 10**6} MB: {answers.shown(bytes(self._buffer[:500]))}"
                    )
                place = received.find(b"\n")
                end = place if place < 0 else len(self._buffer) + place
                self._buffer += received
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _nonsense(self, what: str) -> ChildError:
        """End a child that wrote something else than an answer; return what to raise."""
        self.stop()
        return ChildError(f"{self.name}: wrote no answer into its pipe, but {what} (log: {self.log})")

    def _died(self) -> ChildError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self.timeout_s)
        tail = self._last_line()
        self.stop()
        how = self._how(self._process.returncode)
        return ChildError(f"{self.name}: ended with {how}{tail} (log: {self.log})", "killed" if "SIGKILL" in how else "failed")

    def _how(self, code: int) -> str:
        """Return an exit status in words; like shells, profilers pass on their program's signal as a status above 128."""
        if self._collector is not None and 128 < code < 128 + signal.NSIG:
            code = 128 - code
        return f"exit status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"

    def _last_line(self) -> str:
        lines = self.log.read_bytes()[-_LOG_TAIL:].decode("utf8", "replace").strip().splitlines()
        if self._collector is not None:
            lines = self._collector.of_child(lines)
        return f": {answers.visible(lines[-1])}" if lines else ""

    def wait_until_asleep(self) -> None:
        """Wait until no thread of the child or its collector runs and disturbs the next child; give up after a while."""
        deadline = time.monotonic() + _SLEEP_LIMIT_S
        watched = self._watched or [self.pid]
        while time.monotonic() < deadline and any(_any_thread_runs(pid) for pid in watched):
            time.sleep(0.002)

    def stop(self) -> None:
        """Kill the child with its own children and its collector, whatever they do; the files that it wrote stay."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self._process.kill()
        if self._collector is not None:
            self._collector.stop()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        for descriptor in (self._commands, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._commands = self._answers = -1

    def finish(self) -> None:
        """Let the child write its remaining data and end. Its collector may then still write a report."""
        self.tell(do="finish")
        # everything is written by now, so a framework that hangs at exit can be killed
        try:
            self._process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            self.stop()
        if self._collector is not None:
            self._wait_for_child()
        self._close()

    def _wait_for_child(self) -> None:
        """Wait for a child whose profiler was killed: the profiler's agent waits for the child's remaining data."""
        deadline = time.monotonic() + _END_LIMIT_S
        while time.monotonic() < deadline and Path(f"/proc/{self.pid}").exists():
            time.sleep(0.01)


def _umask() -> int:
    """Return the mask of new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _any_thread_runs(pid: int) -> bool:
    """Return whether the kernel shows a thread of this process as running or ready to run."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return any(_state(thread / "stat") == "R" for thread in threads)
    except OSError:
        return False


def _state(stat: Path) -> str:
    try:
        return stat.read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""  # the thread ended meanwhile
