"""What TensorFlow's profiler writes to stderr when it starts and stops, kept from the script's output."""

import os
import re
import tempfile

_OURS = re.compile(
    rb"^[^\n]*\b(\w*profiler\w*|\w*tracer\w*|session_manager|save_profile|cupti\w*|xplane\w*)\.cc:\d+\][^\n]*\n"
    rb"|^WARNING: All log messages before absl::[^\n]*\n",
    re.MULTILINE,
)


class Quiet(object):
    """Descriptor 2 points at a file within the block; what others wrote meanwhile goes to where it belongs afterwards."""

    def __enter__(self):
        self._kept = None
        try:
            self._file = tempfile.TemporaryFile()
            self._kept = os.dup(2)
            os.dup2(self._file.fileno(), 2)
        except OSError:
            pass  # no stderr, so nothing is written

    def __exit__(self, *_):
        if self._kept is None:
            return
        os.dup2(self._kept, 2)
        self._file.seek(0)
        rest = _OURS.sub(b"", self._file.read())
        self._file.close()
        while rest:
            rest = rest[os.write(self._kept, rest) :]
        os.close(self._kept)
