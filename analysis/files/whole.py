"""Files and folders that appear under their names only when complete, even if the command that writes them is killed."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.tracer.inside import durable, temporary

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of renameat2(2)


@contextmanager
def growing(target: Path) -> Iterator[Path]:
    """Yield a path to write a file's content to; the file gets it if the block ends without an error, else stays as it was.

    The path has the suffix of the file's name. A target that is not a regular file, such as /dev/stdout, or is in a folder
    where no other file can be made, is written directly. Raise OSError if that fails, EvidenceError for targets that
    `refuse_endless` refuses.
    """
    refuse_endless(target)
    real = Path(os.path.realpath(target))
    if real.exists() and not (real.is_file() and os.access(real.parent, os.W_OK)):
        yield target
        return
    growing = Path(temporary.made_file(temporary.beside(real.name), str(real.parent), "".join(real.suffixes[-2:])))
    try:
        growing.chmod(real.stat().st_mode & 0o777 if real.exists() else 0o666 & ~_umask())
        yield growing
        durable.replace(growing, real)
    finally:
        temporary.removed(str(growing))


def refuse_endless(target: Path) -> None:
    """Raise EvidenceError for a pipe, a socket or a disk: writing there would wait for a reader, or overwrite its content.

    Pipes that are already open, such as /dev/stdout, are in /proc.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = target.stat().st_mode
        endless = (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and not os.path.realpath(target).startswith("/proc/")
        if endless or stat.S_ISBLK(mode):
            raise EvidenceError(f"{target}: not a regular file; name one to write")


def write_text(target: Path, text: str) -> None:
    """Write a text, in UTF-8. Raise OSError if that fails."""
    with growing(target) as path:
        path.write_text(text, encoding="utf8")


def name_folder(new: Path, folder: Path, replacing: bool) -> None:
    """Give a finished folder its name. replacing: replace a non-empty folder of that name, which is then at `new`.

    Raise EvidenceError if a folder of that name may not be replaced, OSError if renaming fails.
    """
    new.chmod(0o777 & ~_umask())
    if replacing and folder.is_dir() and any(folder.iterdir()):
        durable.flush(new)
        _exchange(new, folder)
        return
    try:
        durable.replace(new, folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        remedy = "name another folder, or pass --force to replace it"
        raise EvidenceError(f"{folder}: another command has written it in the meantime; {remedy}") from error


def keep_others(old: Path, folder: Path, ours: Collection[str]) -> None:
    """Move others' files from a folder to the one that replaced it. ours: names of our own files."""
    for entry in old.iterdir() if old.is_dir() else ():
        if entry.name not in ours and not (folder / entry.name).exists():
            entry.rename(folder / entry.name)


def _exchange(new: Path, folder: Path) -> None:
    """Exchange the names of two folders, atomically if the system can, so that one of them has the name at any moment."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename and rename(_HERE, os.fsencode(new), _HERE, os.fsencode(folder), _EXCHANGE) == 0:
        return
    aside = folder.with_name(f".{folder.name}.earlier")  # a kill between the two leaves the earlier results there
    folder.rename(aside)
    new.rename(folder)
    aside.rename(new)


def _umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask
