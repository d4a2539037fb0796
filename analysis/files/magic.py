"""First bytes by which files are recognised: separate from the readers, so that using them imports nothing else."""

from __future__ import annotations

import re

SQLITE_MAGIC = b"SQLite format 3\x00"
CUPTI_RECORDS_MAGIC = b"KSCUPTI\x01"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # little-endian, big-endian

# First bytes of packed files. zstd: a frame, or one that decoders skip (pzstd). bzip2: its first block, or the end if empty
_PACKINGS = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)"),
}

# Containers that only one or a few formats have, by a text near the beginning
CONTAINERS = {
    "database": (SQLITE_MAGIC,),
    "report": (b"NVIDIA Tegra Profiler ", b"NVIDIA Nsight Systems "),
    "records": (CUPTI_RECORDS_MAGIC,),
}
_SIGNS = 64  # bytes that include a container's sign


def packing(head: bytes) -> str | None:
    """Return the packing of a file that begins like this: gzip, zstd, xz or bzip2; None if it is not packed."""
    return next((name for name, sign in _PACKINGS.items() if sign.match(head)), None)


def container(head: bytes) -> str | None:
    """Return the key in CONTAINERS for a file that begins like this; None if there is none."""
    return next((name for name, signs in CONTAINERS.items() if any(sign in head[:_SIGNS] for sign in signs)), None)
