"""First bytes by which files are recognised: apart from the readers, so that asking for them imports nothing else."""

from __future__ import annotations

import re

SQLITE_MAGIC = b"SQLite format 3\x00"
CUPTI_RECORDS_MAGIC = b"KSCUPTI\x01"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # little-endian, big-endian

# How packed files begin. zstd: with a frame, or with one that decoders pass over (pzstd). bzip2: its first block, or none
_PACKINGS = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)"),
}

# What can only be of one kind or a few, by a text near its beginning
CONTAINERS = {
    "database": (SQLITE_MAGIC,),
    "report": (b"NVIDIA Tegra Profiler ", b"NVIDIA Nsight Systems "),
    "records": (CUPTI_RECORDS_MAGIC,),
}
_SIGNS = 64  # bytes in which a container's sign stands


def packing(head: bytes) -> str | None:
    """Return how a file that begins so is packed: gzip, zstd, xz or bzip2; None where it is not."""
    return next((name for name, sign in _PACKINGS.items() if sign.match(head)), None)


def container(head: bytes) -> str | None:
    """Return the key of CONTAINERS that a file that begins so is, if it is one."""
    return next((name for name, signs in CONTAINERS.items() if any(sign in head[:_SIGNS] for sign in signs)), None)
