"""Signals for the command: it gets each signal that it would get without us, once.

A signal that only we got is forwarded. One sent to our whole process group, as by a terminal's Ctrl-C, killpg or `timeout`, has
already reached the command. The system does not say which of the two happened; a companion process in our group, which any
signal ends, shows it.
"""

import contextlib
import shutil
import signal
import subprocess
from typing import Any, Iterator

_HANDED_ON = (  # signals that people and schedulers send and that end an unprepared process
    signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
    signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR,
)  # fmt: skip
_SOON_S = 0.2  # time in which a signal has reached the whole group


@contextlib.contextmanager
def to(process: Any) -> Iterator[None]:
    """Forward signals to a process while the block lasts."""
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
    """An idle process in our group. It ends with us, whatever ends us, since its input then ends."""

    def __init__(self) -> None:
        self._process = self._started()

    def _started(self) -> Any:
        path = shutil.which("cat")
        try:
            return path and subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError:
            return None  # every signal is forwarded

    def ended_by(self, number: int) -> bool:
        """Return whether the signal reached the companion too; if so, start another one for the next signal."""
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
        """End the companion."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
