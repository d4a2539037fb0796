"""Writes that survive a power cut: the content goes to the disk first, then the file gets its name.

A rename may reach the disk before the content of the renamed file; fsync(2) orders the two.
"""

import errno
import os
from typing import Union

Place = Union[str, "os.PathLike[str]"]
_WITHOUT = (errno.EINVAL, errno.ENOTSUP)  # file systems without fsync


def write_text(path: Place, text: str) -> None:
    """Replace a file atomically: readers see the old or the new one, also after a kill, a full disk or a power cut."""
    new = "%s.new" % os.fspath(path)
    with open(new, "w", encoding="utf8") as out:
        out.write(text)
    replace(new, path)


def replace(new: Place, path: Place) -> None:
    """Give a completely written file or folder its name."""
    flush(new)
    os.replace(new, path)
    _flush(os.path.dirname(os.path.abspath(path)))


def flush(path: Place) -> None:
    """Flush a file, or a folder with everything in it, to the disk."""
    for folder, _, names in os.walk(path):
        for name in names:
            one = os.path.join(folder, name)
            if os.path.isfile(one):
                _flush(one)
        _flush(folder)
    if not os.path.isdir(path):
        _flush(path)


def _flush(path: Place) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _WITHOUT:
            raise
    finally:
        os.close(descriptor)
