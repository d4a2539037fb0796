"""Signals for the command: it gets those that it would get without us, each once.

A signal that only we got is handed on. One that went to our whole group of processes, as by a terminal's Ctrl-C, killpg or
`timeout`, reached the command by itself. Which of both it was the system does not tell; a companion in our group that any signal
ends does.
"""

import contextlib
import shutil
import signal
import subprocess
from typing import Any, Iterator

_HANDED_ON = (  # those that people and schedulers send, and that end a process which does not expect them
    signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
    signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR,
)  # fmt: skip
_SOON_S = 0.2  # within which a signal has reached all of a group


@contextlib.contextmanager
def to(process: Any) -> Iterator[None]:
    """Hand signals on to a process for as long as the block lasts."""
    companion = _Companion()

    def hand_on(number: int, _: Any) -> None:
        if companion.ended_by(number):
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in _HANDED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        companion.close()


class _Companion(object):
    """A process of our group that does nothing, and ends with us, whatever ends us: its input does."""

    def __init__(self) -> None:
        self._process = self._started()

    def _started(self) -> Any:
        path = shutil.which("cat")
        try:
            return path and subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError:
            return None  # every signal is handed on

    def ended_by(self, number: int) -> bool:
        """Return whether a signal reached it, too; if so there is another one for the next signal."""
        if self._process is None:
            return False
        try:
            status = self._process.wait(_SOON_S)
        except subprocess.TimeoutExpired:
            return False
        self._process.stdin.close()
        self._process = self._started()
        return bool(status == -number)

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
