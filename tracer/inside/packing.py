"""Compression of what a framework's profiler wrote: whoever compresses by itself, gzip too, takes the program's `open`."""

import gzip
import shutil

from kernelscope.tracer.inside.own import open, os


def pack(path: str, level: int) -> str:
    """Replace a file by a compressed one, of a level from 1 to 9; return its path, which ends in .gz."""
    packed = path + ".gz"
    with open(path, "rb") as source, open(packed, "wb") as target:
        with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=level) as out:
            shutil.copyfileobj(source, out)
    os.remove(path)
    return packed
