"""Compress the files of a framework's profiler with our own `open`; others, such as gzip.open, would use the program's."""

import gzip
import shutil

from kernelscope.tracer.inside.own import open, os


def pack(path: str, level: int) -> str:
    """Replace a file by a compressed one (level 1 to 9); return its path, which ends in .gz."""
    packed = path + ".gz"
    with open(path, "rb") as source, open(packed, "wb") as target:
        with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=level) as out:
            shutil.copyfileobj(source, out)
    os.remove(path)
    return packed
