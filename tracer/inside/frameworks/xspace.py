"""The trace of XLA's profiler, which TensorFlow and JAX share: a protobuf XSpace, stored without the machine's name."""

import glob
import shutil
from typing import Any, List, Tuple

from kernelscope.tracer.inside.own import open, os

TRACE_FILE = "operators.xplane.pb"
_HOST_NAMES_FIELD = 4  # XSpace.hostnames
_LENGTH_DELIMITED = 2


def keep(profile: Any, folder: str) -> List[str]:
    """Move the newest trace in a profile's folder to a pass's folder; return the names of the written files, if any.

    The profiler puts the machine's name into the file's name and into one field of its content; neither is kept. The profile's
    folder is removed.
    """
    found = sorted(glob.glob(os.path.join(profile, "plugins", "profile", "*", "*.xplane.pb")))
    try:
        if not found:
            return []
        with open(found[-1], "rb") as source:
            return write(source.read(), folder)
    finally:
        shutil.rmtree(profile, ignore_errors=True)


def write(content: bytes, folder: str) -> List[str]:
    """Write a serialised trace to a pass's folder, without the machine's name; return the names of the written files."""
    with open(os.path.join(folder, TRACE_FILE), "wb") as target:
        target.write(without_field(content, _HOST_NAMES_FIELD))
    return [TRACE_FILE]


def without_field(message: bytes, number: int) -> bytes:
    """Return a protobuf message without its top-level field `number`; all other bytes stay as they are.

    A message with a top-level field that is not length-delimited is returned unchanged.
    """
    kept, start = [], 0
    while start < len(message):
        key, position = _varint(message, start)
        if key & 7 != _LENGTH_DELIMITED:
            return message  # not an XSpace as we know it: keep it whole rather than cut it in the wrong place
        length, position = _varint(message, position)
        if key >> 3 != number:
            kept.append(message[start : position + length])
        start = position + length
    return b"".join(kept)


def _varint(data: bytes, position: int) -> Tuple[int, int]:
    """Return the variable-length integer at `position` and the position after it."""
    value, shift = 0, 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
