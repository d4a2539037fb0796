"""The parts of Perfetto's messages that are read. Field numbers are those of protos/perfetto/trace/*.proto.

Track events, render stages and other messages that may come by the million are decoded as columns, and have no class here.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2

from kernelscope.analysis.files.protobuf_classes import message_classes

_Field = descriptor_pb2.FieldDescriptorProto
_INT, _UINT, _BYTES, _MESSAGE = _Field.TYPE_INT64, _Field.TYPE_UINT64, _Field.TYPE_BYTES, _Field.TYPE_MESSAGE

# fields of a packet
TIMESTAMP, CLOCK, SEQUENCE, FLAGS, CLEARED, DROPPED = 8, 58, 10, 13, 41, 42
EVENT, TRACK, INTERNED, DEFAULTS, STAGE, CLOCKS, PROCESS, THREAD = 11, 60, 12, 59, 53, 6, 43, 44
ZLIB_PACKETS, ZSTD_PACKETS = 50, 133
# messages that may hold work or samples and are not read
UNREAD = {
    1: "ftrace bundles", 37: "heap profiles", 54: "streaming profiles", 66: "perf samples", 135: "stack samples",
    52: "GPU counters", 62: "Vulkan memory events", 65: "Vulkan API events", 63: "GPU logs", 57: "graphics frames",
    5: "Chrome's legacy events", 95: "ETW bundles", 7: "system statistics", 9: "process statistics",
}  # fmt: skip

_MESSAGES: dict[str, tuple[tuple[str, int, int, bool, str | None], ...]] = {
    "Trace": (("packets", 1, _BYTES, True, None),),
    "Text": (("iid", 1, _UINT, False, None), ("name", 2, _BYTES, False, None)),
    "Interned": (
        ("categories", 1, _MESSAGE, True, "Text"),
        ("names", 2, _MESSAGE, True, "Text"),
        ("stages", 24, _MESSAGE, True, "Text"),
    ),
    "Thread": (("pid", 1, _INT, False, None), ("tid", 2, _INT, False, None), ("name", 5, _BYTES, False, None)),
    "Process": (("pid", 1, _INT, False, None), ("name", 6, _BYTES, False, None)),
    "Nothing": (),
    "Track": (
        ("uuid", 1, _UINT, False, None),
        ("name", 2, _BYTES, False, None),
        ("static_name", 10, _BYTES, False, None),
        ("atrace_name", 13, _BYTES, False, None),
        ("description", 14, _BYTES, False, None),
        ("process", 3, _MESSAGE, False, "Process"),
        ("thread", 4, _MESSAGE, False, "Thread"),
        ("parent", 5, _UINT, False, None),
        ("counter", 8, _MESSAGE, False, "Nothing"),
    ),
    "EventDefaults": (("track", 11, _UINT, False, None),),
    "Defaults": (("clock", 58, _UINT, False, None), ("event", 11, _MESSAGE, False, "EventDefaults")),
    "Clock": (
        ("id", 1, _UINT, False, None),
        ("timestamp", 2, _UINT, False, None),
        ("incremental", 3, _UINT, False, None),
        ("unit", 4, _UINT, False, None),
    ),
    "Clocks": (("clocks", 1, _MESSAGE, True, "Clock"), ("primary", 2, _UINT, False, None)),
}


@cache
def classes() -> dict[str, Any]:
    """Return the message classes by name."""
    return message_classes("kernelscope.perfetto", _MESSAGES)


def text(value: bytes) -> str:
    """Decode a text of a message; invalid UTF-8 is replaced."""
    return value.decode("utf8", errors="replace")
