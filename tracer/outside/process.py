"""One child: the framework's interpreter running one pass, told through a pipe what to do."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from kernelscope.tracer.outside.errors import ChildError

_SLEEP_LIMIT_S = 0.4  # how long to wait for a child's spinning threads to fall asleep (Intel's OpenMP spins for 0.2 s)
_LOG_TAIL = 400


class Child:
    """A started child. `log` is where its stdout and stderr go; every failure names it."""

    def __init__(
        self,
        python: Path,
        spec: dict[str, Any],
        folder: Path,
        environment: dict[str, str],
        timeout_s: float,
        module: str = "kernelscope.tracer.inside.child",
    ):
        self.framework = str(spec["framework"])
        self.name = f"{spec.get('label') or self.framework}, {spec['pass']} pass"
        self.log = folder / "child.log"
        self.timeout_s = timeout_s
        self._buffer = b""
        commands_read, self._commands = os.pipe()
        self._answers, answers_write = os.pipe()
        try:
            spec = {**spec, "commands_fd": commands_read, "answers_fd": answers_write}
            path = folder.resolve() / "spec.json"
            path.write_text(json.dumps(spec, indent=1), encoding="utf8")
            with self.log.open("wb") as log:
                self._process = subprocess.Popen(
                    [str(python), "-m", module, str(path)],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=folder,
                    pass_fds=(commands_read, answers_write), start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            os.close(self._commands)
            os.close(self._answers)
            raise ChildError(f"{self.name}: cannot start {python}: {error.strerror or error}") from error
        finally:
            os.close(commands_read)
            os.close(answers_write)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def tell(self, **command: Any) -> dict[str, Any]:
        """Send one command and return its answer; raise ChildError when the child fails, dies or does not answer in time."""
        try:
            os.write(self._commands, (json.dumps(command) + "\n").encode())
        except BrokenPipeError:
            raise self._died() from None
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Wait for the next answer."""
        line = self._read_line()
        message: dict[str, Any] = json.loads(line)
        if message["event"] == "error":
            self.stop()
            if message["kind"] == "import":
                remedy = f"create its environment with `kernelscope env create {self.framework}`"
                raise ChildError(f"{self.name}: import failed: {message['message']}; {remedy} (log: {self.log})")
            raise ChildError(f"{self.name}: {message['message']} (log: {self.log})")
        return message

    def _read_line(self) -> bytes:
        deadline = time.monotonic() + self.timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.stop()
                    hint = "raise --timeout, or look at the log"
                    raise ChildError(f"{self.name}: no answer within {self.timeout_s:g} s; {hint}: {self.log}")
                received = os.read(self._answers, 1 << 16)
                if not received:
                    raise self._died()
                self._buffer += received
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def _died(self) -> ChildError:
        self._process.wait()
        code = self._process.returncode
        how = f"exit status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        tail = self._last_line()
        self.stop()
        return ChildError(f"{self.name}: ended with {how}{tail} (log: {self.log})")

    def _last_line(self) -> str:
        text = self.log.read_bytes()[-_LOG_TAIL:].decode("utf8", "replace").strip()
        return f": {text.splitlines()[-1]}" if text else ""

    def wait_until_asleep(self) -> None:
        """Wait until no thread of the child runs, so that it does not disturb the next one; give up after a while."""
        deadline = time.monotonic() + _SLEEP_LIMIT_S
        while time.monotonic() < deadline and _any_thread_runs(self.pid):
            time.sleep(0.002)

    def stop(self) -> None:
        """End the child, whatever it does, with its own children; what it wrote stays."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self._process.kill()
        self._process.wait()
        for descriptor in (self._commands, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._commands = self._answers = -1

    def finish(self) -> None:
        """Let the child write what is left and end by itself."""
        self.tell(do="finish")
        # everything is written by now: a framework that hangs at exit has nothing left to tell
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self.timeout_s)
        self.stop()


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
