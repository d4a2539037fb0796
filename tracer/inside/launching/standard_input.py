"""The standard input of a command that runs several times: a file is read again from the same place, a pipe is used up."""

import contextlib
import os
import stat
from typing import Optional


class StandardInput(object):
    """The input of the command's runs. read_up: whether what one run reads is gone for the next."""

    def __init__(self) -> None:
        self.read_up = False
        self._place: Optional[int] = None  # in a file
        with contextlib.suppress(OSError):  # it may be closed
            kind = os.fstat(0).st_mode
            self.read_up = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
            if stat.S_ISREG(kind):
                self._place = os.lseek(0, 0, os.SEEK_CUR)

    def begin_again(self) -> None:
        """Let the next run read the same input as the first, if that is possible."""
        if self._place is not None:
            os.lseek(0, self._place, os.SEEK_SET)
