"""A child of the agent: this interpreter running one pass, controlled through a pipe."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, Dict

MODULE = "kernelscope.tracer.inside.child"


class ChildError(Exception):
    """A child failed: one line that names the pass, what happened, and its log."""


class ChildProcess(object):
    """A started child; its stdout and stderr go to child.log in its folder."""

    def __init__(self, spec: Dict[str, Any], folder: str, variables: Dict[str, str], timeout_s: float) -> None:
        self.name = "%s, %s pass" % (spec["framework"], spec["pass"])
        self.log = os.path.join(folder, "child.log")
        self.timeout_s = timeout_s
        self._buffer = b""
        commands_read, self._commands = os.pipe()
        self._answers, answers_write = os.pipe()
        path = os.path.join(folder, "spec.json")
        with open(path, "w") as out:
            json.dump(dict(spec, commands_fd=commands_read, answers_fd=answers_write), out, indent=1)
        try:
            with open(self.log, "wb") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", MODULE, os.path.abspath(path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env=variables, cwd=folder, pass_fds=(commands_read, answers_write), start_new_session=True,
                )  # fmt: skip
        finally:
            os.close(commands_read)
            os.close(answers_write)
        self.pid = self._process.pid

    def tell(self, **command: Any) -> Dict[str, Any]:
        """Send a command and return its answer; raise ChildError if the child fails, dies or does not answer in time."""
        try:
            os.write(self._commands, (json.dumps(command) + "\n").encode())
        except BrokenPipeError:
            raise self._died() from None
        return self.answer()

    def answer(self) -> Dict[str, Any]:
        """Wait for the next answer."""
        message = json.loads(self._line().decode("utf8"))
        if message["event"] == "error":
            self.stop()
            raise ChildError("%s: %s (log: %s)" % (self.name, message["message"], self.log))
        return message

    def _line(self) -> bytes:
        deadline = time.monotonic() + self.timeout_s
        while b"\n" not in self._buffer:
            if not select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))[0]:
                self.stop()
                said = "no answer within %g s; raise --timeout, or look at the log: %s" % (self.timeout_s, self.log)
                raise ChildError("%s: %s" % (self.name, said))
            received = os.read(self._answers, 1 << 16)
            if not received:
                raise self._died()
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def _died(self) -> "ChildError":
        code = self._process.wait()
        how = "exit status %d" % code if code >= 0 else "signal %s" % signal.Signals(-code).name
        with open(self.log, "rb") as log:
            tail = log.read()[-400:].decode("utf8", "replace").strip().splitlines()
        self.stop()
        return ChildError("%s: ended with %s%s (log: %s)" % (self.name, how, ": " + tail[-1] if tail else "", self.log))

    def stop(self) -> None:
        """Kill the child and its own children; what it wrote stays."""
        if self._process.poll() is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except OSError:
                self._process.kill()
        self._process.wait()
        for descriptor in (self._commands, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._commands = self._answers = -1

    def finish(self) -> None:
        """Let the child write what is left and end by itself; kill it if its framework hangs at exit."""
        self.tell(do="finish")
        try:
            self._process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            pass
        self.stop()
