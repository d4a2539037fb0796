"""Takes out of a recorded folder what must not be passed on (see disclosure), when whoever wrote it has ended.

Profilers and libraries write paths and messages of their own: traces name the files of Python functions, logs the folders of
packages. Texts, plain or gzip, are written anew; in any other file a path becomes one of the same length, ~///////x.py, so that
nothing in it moves. Databases are left to who knows them (nsys_wrappers.privacy).
"""

import gzip
import mmap
import os
import shutil

from kernelscope.tracer.inside import disclosure

TEXTS = (".json", ".jsonl", ".log", ".raw", ".txt", ".csv", ".py", ".new", ".seen", ".failed", "owner")
DATABASES = (".sqlite", ".parquet", ".nsys-rep", ".qdrep", ".qdstrm")
_SMALL = 1 << 20  # bytes of a text that is searched for what looks like a secret too


class Scrubber(object):
    """Takes out of a run's record and files what must not be passed on.

    full_paths: home folders and user names stay. variables, command: the environment and the command line whose secrets are
    looked for.
    """

    def __init__(self, full_paths, variables, command):
        known = disclosure.secrets(variables, command)
        self._large = disclosure.Hiding(full_paths, known, shapes=False)
        self._small = disclosure.Hiding(full_paths, known)

    def of(self, value):
        """Return plain data, as of JSON, as it may be written down."""
        return self._small.of(value)

    def folder(self, folder):
        """Rewrite the files below a folder; links are left alone. Raises OSError where a file cannot be written."""
        for root, _, names in os.walk(str(folder)):
            for name in names:
                path = os.path.join(root, name)
                if os.path.islink(path) or not os.path.getsize(path) or name.endswith(DATABASES):
                    continue
                if name.endswith(".gz"):
                    _packed(path, self._large)
                elif name.endswith(TEXTS):
                    _text(path, self._small if os.path.getsize(path) <= _SMALL else self._large)
                else:
                    _binary(path, self._large)


def _packed(path, hiding):
    """Rewrite a text that is packed; it is unpacked beside it only if it has to be changed."""
    with gzip.open(path, "rb") as packed:
        try:
            content = packed.read()
        except (OSError, EOFError):
            return  # cut short by a process that was killed: nothing reads it
    if hiding.needed(content):
        _replace(path, lambda out: _pack(out, hiding.text(_decoded(content)).encode("utf8", "surrogateescape")))


def _pack(out, content):
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=3, mtime=0) as packed:
        packed.write(content)


def _text(path, hiding):
    """Rewrite a text."""
    with open(path, "rb") as file:
        content = file.read()
    text = _decoded(content)
    if hiding.shapes or hiding.needed(content):
        hidden = hiding.text(text)
        if hidden != text:
            _replace(path, lambda out: out.write(hidden.encode("utf8", "surrogateescape")))


def _binary(path, hiding):
    """Rewrite any other file, which may be large: it is only looked at where it has nothing."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        hidden = hiding.same_length(content[:]) if hiding.needed(content) else None
    if hidden is not None:
        _replace(path, lambda out: out.write(hidden))


def _decoded(content):
    return content.decode("utf8", "surrogateescape")


def _replace(path, write):
    """Write a file as a whole, with the rights that it had: a kill leaves the old or the new one."""
    with open(path + ".scrubbed", "wb") as out:
        write(out)
    shutil.copymode(path, path + ".scrubbed")
    os.replace(path + ".scrubbed", path)
