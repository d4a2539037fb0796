"""Remove from a recorded folder what must not be shared (see disclosure), after its writers have ended.

Profilers and libraries write paths and messages of their own: traces name the files of Python functions, logs the folders of
packages. Texts, plain or gzip, and texts in databases are rewritten. In any other file, a path becomes one of the same length,
~///////x.py, so that nothing moves. nsys's own reports, which are kept only on request, stay as they are.
"""

import contextlib
import gzip
import mmap
import os
import shutil
import zlib
from typing import IO, Any, Callable, Iterable, Iterator, Mapping, Sequence, Union

from kernelscope.tracer.inside import disclosure, durable

TEXTS = (".json", ".jsonl", ".log", ".raw", ".txt", ".csv", ".py", ".new", ".seen", ".failed", "owner")
DATABASE = ".sqlite"
LEFT = (".parquet", ".nsys-rep", ".qdrep", ".qdstrm")  # our own numbers, and what only nsys can read
SMALL = 1 << 20  # bytes of a text that is also searched for what looks like a secret


class Scrubber(object):
    """Removes from a run's record and files what must not be shared.

    full_paths: keep home folders and user names. variables, command: the environment and the command line whose secrets to
    search for.
    """

    def __init__(self, full_paths: bool, variables: Mapping[str, str], command: Sequence[str]) -> None:
        known = disclosure.secrets(variables, command)
        self._large = disclosure.Hiding(full_paths, known, shapes=False)
        self._small = disclosure.Hiding(full_paths, known)

    def of(self, value: Any) -> Any:
        """Return plain data, as in JSON, as it may be written down."""
        return self._small.of(value)

    def folder(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        """Rewrite the files below a folder; links are left alone. Raises OSError if a file cannot be written."""
        for root, _, names in os.walk(str(folder)):
            self.files(os.path.join(root, name) for name in names)

    def files(self, paths: Iterable[Union[str, "os.PathLike[str]"]]) -> None:
        """Rewrite files, as `folder` does."""
        for path in map(str, paths):
            if os.path.islink(path) or not os.path.getsize(path) or path.endswith(LEFT):
                continue
            if path.endswith(".gz"):
                _packed(path, self._large)
            elif path.endswith(DATABASE):
                _database(path, self._large)
            elif path.endswith(TEXTS):
                _text(path, self._small if os.path.getsize(path) <= SMALL else self._large)
            else:
                _binary(path, self._large)


def _packed(path: str, hiding: disclosure.Hiding) -> None:
    """Rewrite a gzip text. A truncated one is removed: nothing can read it, and its content is unknown."""
    try:
        with gzip.open(path, "rb") as packed:
            content = packed.read()
    except (OSError, EOFError, zlib.error):
        os.unlink(path)
        return
    if hiding.needed(content):
        _replace(path, lambda out: _pack(out, _encoded(hiding.text(_decoded(content)))))


def _pack(out: IO[bytes], content: Any) -> None:
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=3, mtime=0) as packed:
        packed.write(content)


def _text(path: str, hiding: disclosure.Hiding) -> None:
    """Rewrite a text."""
    with open(path, "rb") as file:
        content = file.read()
    text = _decoded(content)
    if hiding.shapes or hiding.needed(content):
        hidden = hiding.text(text)
        if hidden != text:
            _replace(path, lambda out: out.write(_encoded(hidden)))


def _binary(path: str, hiding: disclosure.Hiding) -> None:
    """Rewrite any other file, which may be large: if there is nothing to remove, it is only read."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        hidden = hiding.same_length(content[:]) if hiding.needed(content) else None
    if hidden is not None:
        _replace(path, lambda out: out.write(hidden))


def _database(path: str, hiding: disclosure.Hiding) -> None:
    """Rewrite the texts of an SQLite file; a truncated one is treated like any other file."""
    import sqlite3  # not every build of Python has it, and only collectors write such files

    try:
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.create_function("hidden", 1, hiding.text)
            if sum(database.execute(update).rowcount for update in _updates(database)):
                database.commit()
                database.execute("VACUUM")  # pages keep remains of the old texts
    except sqlite3.Error:
        _binary(path, hiding)


def _updates(database: Any) -> Iterator[str]:
    """Yield the statement that rewrites each column declared to hold texts."""
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in map(_quoted, tables):
        for row in database.execute("PRAGMA table_info(%s)" % table).fetchall():
            if row[2].upper() in ("TEXT", "STRING"):
                text = "UPDATE {0} SET {1} = hidden({1}) WHERE typeof({1}) = 'text' AND hidden({1}) != {1}"
                yield text.format(table, _quoted(row[1]))


def _quoted(name: str) -> str:
    return '"%s"' % name.replace('"', '""')


def _decoded(content: bytes) -> str:
    return content.decode("utf8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf8", "surrogateescape")


def _replace(path: str, write: Callable[[Any], Any]) -> None:
    """Replace a file atomically, with its old permissions: a kill leaves the old or the new one, a full disk the old one."""
    new = path + ".scrubbed"
    try:
        with open(new, "wb") as out:
            write(out)
        shutil.copymode(path, new)
        durable.replace(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
