"""The run folder: run.json, and a folder per pass and repeat with raw files. Always readable: complete or marked incomplete."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kernelscope.tracer.inside import durable, temporary
from kernelscope.tracer.inside.disclosure import Hiding
from kernelscope.tracer.inside.plan import PASSES
from kernelscope.tracer.inside.run_record import RUN_FILE, RunRecord
from kernelscope.tracer.inside.scrubbing import Scrubber
from kernelscope.tracer.outside import locks, orphans
from kernelscope.tracer.outside.errors import InputError

_RECORDS = (RUN_FILE, "compare.json", "import.json")
# What runs, comparisons and imports write into their folders, and commands that take such a folder
_WRITTEN = frozenset({
    *_RECORDS, *PASSES, "energy", "trace", "sources", "confirm", "breakdowns", "tables", "report.html", "report.pftrace.gz",
    "ranks.html", "profile.json", "profile.json.seen", "profile.json.failed", "owner", "now", "notes.jsonl", "faults.log",
    ".writable",
})  # fmt: skip


def dated(within: str, name: str) -> Path:
    """Return a folder name in another folder that is not used yet, from a name and the present time."""
    plain = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name).strip(".-") or "run"
    stem = f"{plain}-{datetime.now().strftime('%Y%m%d-%H%M%S')}"
    taken = (Path(within, f"{stem}{f'-{number}' if number else ''}") for number in range(1000))
    return next(path for path in taken if not path.exists())


def prepare_output(folder: Path, force: bool, keep: bool = False, importing: bool = False) -> None:
    """Make `folder` an empty folder; refuse one that holds results unless `force`, and one in use. Raises InputError.

    keep: leave its content, for a writer that replaces the folder as a whole. importing: likewise, but the writer replaces only
    an earlier import and leaves everything else.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file; name a folder for the results")
        if folder.is_symlink():
            raise InputError(f"{folder}: is a link; name the folder that it leads to, or another one")
        if _is_around_us(folder):
            raise InputError(f"{folder}: is or contains the current folder; name another, such as {folder}/results")
        if locks.is_locked(folder):
            raise locks.in_use(folder)
        if folder.is_dir() and any(folder.iterdir()):
            _refuse_beside_orphan(folder)
            if not force and not _recorded_nothing(folder):
                raise InputError(f"{folder}: not empty; name another folder or pass --force to replace its contents")
            _refuse_recorded(folder) if importing else _refuse_others(folder)
            if not (keep or importing):
                _empty(folder)
        elif not folder.exists():
            _make(folder)
        probe = folder / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise InputError(f"{folder}: not writable: {error.strerror or error}; name another folder") from error


def _is_around_us(folder: Path) -> bool:
    """Return whether a folder is or contains the current folder, which would be lost with it."""
    with contextlib.suppress(OSError):  # the current folder was removed
        return Path.cwd().is_relative_to(folder.resolve())
    return False


def _refuse_beside_orphan(folder: Path) -> None:
    """Refuse a folder that a program still records into although its `profile` was killed: its steps would be mixed up."""
    process = orphans.recording_into(folder)
    if process is not None:
        still = f"a program that a killed command started still records into it (process {process})"
        raise InputError(f"{folder}: {still}; wait until it ends, or name another folder")


@dataclass
class Replacement:
    """What replaces earlier results. recorded: whether it holds anything; if not, the earlier results are kept."""

    recorded: bool = True


@contextmanager
def replaced(folder: Path, force: bool) -> Iterator[Replacement]:
    """Make `folder` an empty folder, as `prepare_output` does; keep an earlier run's results until the block has succeeded.

    Until then they are beside the folder, as .NAME.earlier. They stay there if the block fails, says that it recorded nothing,
    or is killed. The folder is locked until the block ends: other commands that would write to it are refused.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    prepare_output(folder, force, keep=not _recorded_nothing(folder))
    earlier = folder.with_name(f".{folder.name}.earlier")
    with ExitStack() as held:
        held.enter_context(locks.exclusive_folder(folder))
        if any(folder.iterdir()):
            if earlier.exists():
                _empty(folder)  # content of a failed try; the results before it are kept
            else:
                _put_aside(folder, earlier)
                held.enter_context(locks.exclusive_folder(folder))
        replacement = Replacement()
        try:
            yield replacement
        except BaseException:
            replacement.recorded = False
            raise
        finally:
            if replacement.recorded:
                shutil.rmtree(earlier, ignore_errors=True)
            elif earlier.exists():
                print(f"kernelscope: the earlier results are kept: {earlier}", file=sys.stderr)
            elif made:
                _remove_empty(made)


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders, innermost first, as far as they are empty."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _put_aside(folder: Path, earlier: Path) -> None:
    """Rename a folder to `earlier` and create it anew; if it cannot be renamed, such as a mount point, empty it."""
    try:
        folder.rename(earlier)
    except OSError:
        _empty(folder)
    folder.mkdir(exist_ok=True)


def move_content(folder: Path, to: Path) -> None:
    """Move a folder's content into another on the same file system, replacing that one's; the folders and their locks stay."""
    to.mkdir(exist_ok=True)
    _empty(to)
    for path in folder.iterdir():
        path.rename(to / path.name)


def _make(folder: Path) -> None:
    """Create a folder; if two commands begin at once, only one succeeds."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise InputError(f"{folder}: another command created it meanwhile; name another folder") from error


def _recorded_nothing(folder: Path) -> bool:
    """Return whether a folder is what `profile` leaves of a program that failed before anything was recorded."""
    record = _record(folder / RUN_FILE)
    return record.get("recorder") == "profile" and record.get("passes") == {} and all(path.is_file() for path in folder.iterdir())


def _record(file: Path) -> dict[str, Any]:
    """Return the object in a file; an empty one if there is none."""
    try:
        content = json.loads(file.read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _refuse_others(folder: Path) -> None:
    """Refuse a folder that no run, comparison or import made, or that holds other files too, even with --force."""
    if not any(_is_ours(folder / name) for name in _RECORDS) and not any(folder.glob(f"*/{RUN_FILE}")) and not is_begun(folder):
        raise InputError(f"{folder}: holds files that no run wrote; --force replaces only earlier results")
    others = sorted(path.name for path in folder.iterdir() if path.name not in _WRITTEN and not _is_part(path))
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        holds = f"holds {others[0]}{more}, which no run wrote"
        raise InputError(f"{folder}: {holds}; --force replaces only earlier results: move it away, or name another folder")


def _refuse_recorded(folder: Path) -> None:
    """Refuse a folder that an import must not replace: one of a run or comparison, or a foreign one."""
    if any((folder / name).exists() for name in (RUN_FILE, "compare.json")) or not _is_ours(folder / "import.json"):
        raise InputError(
            f"{folder}: holds files that no import wrote; --force replaces only an earlier import: name another folder"
        )
    within = [path for name in ("trace", "breakdowns") if (folder / name).is_dir() for path in (folder / name).iterdir()]
    others = sorted(path for path in within if not path.is_file() or path.suffix not in (".parquet", ".json"))
    if others:
        remedy = "which no import wrote; move it away, or name another folder"
        raise InputError(f"{folder}: holds {others[0].relative_to(folder)}, {remedy}")


def _is_ours(file: Path) -> bool:
    """Return whether a file is the record of a run, a comparison or an import."""
    return str(_record(file).get("schema")).startswith("kernelscope/")


def is_begun(folder: Path) -> bool:
    """Return whether a folder is empty, or has only an incomplete record, because its writer was killed."""
    return all(path.name in {f"{name}.new" for name in _RECORDS} for path in folder.iterdir())


def _is_part(path: Path) -> bool:
    """Return whether an entry of a folder is a run folder, such as a comparison's side, or a killed command's remains."""
    growing = path.name.startswith(".") and temporary.PREFIX in path.name
    left = growing or path.name.removesuffix(".new") in _WRITTEN
    return left or (path.is_dir() and ((path / RUN_FILE).is_file() or _left_by_run(path)))


def _left_by_run(folder: Path) -> bool:
    """Return whether a folder is the remains of a killed command's run: empty, or set aside."""
    return (folder.name.startswith(".") and folder.name.endswith(".earlier")) or not any(folder.iterdir())


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


class RunFolder:
    """Writes one side's run folder, and creates it if necessary; `record` is the content of run.json (see RunRecord).

    scrubber: removes everything that must not be passed on (default: only what no folder may contain).
    """

    def __init__(self, path: Path, record: dict[str, Any], scrubber: Scrubber | None = None):
        self.path = path
        self._scrubber = scrubber or Scrubber(False, {}, ())
        path.mkdir(parents=True, exist_ok=True)
        self._file = RunRecord(path, record, self._scrubber)
        self.record: dict[str, Any] = self._file.record

    def write(self) -> None:
        """Replace run.json with the current record."""
        self._file.write()

    def pass_folder(self, name: str, repeat: int) -> Path:
        """Create and return the folder of one repeat of a pass, and mark it as running in run.json."""
        folder = self.path / name / str(repeat)
        folder.mkdir(parents=True)
        entry = self.record["passes"].setdefault(name, {"status": "running", "folders": []})
        entry["status"] = "running"
        entry["folders"].append(f"{name}/{repeat}")
        return folder

    def scrub(self, folder: Path) -> None:
        """Remove from a pass's folder what must not be passed on, after its child has ended."""
        self._scrubber.folder(folder)

    def pass_done(self, name: str, sampling: dict[str, Any] | None = None) -> None:
        """Mark a pass as complete."""
        self.record["passes"][name]["status"] = "complete"
        if sampling is not None:
            self.record["passes"][name]["sampling"] = sampling
        self.write()

    def pass_failed(self, name: str, reason: str) -> None:
        """Mark a pass as failed and the run as incomplete; the pass's files stay."""
        self.record["passes"].setdefault(name, {"folders": []}).update(status="failed", reason=reason)
        self.record["reason"] = reason
        self.write()

    def finish(self) -> None:
        """Mark the run as complete if every pass is; also scrub the user's own program beside run.json."""
        self._scrubber.files([path for path in self.path.iterdir() if path.is_file() and path.name != RUN_FILE])
        complete = all(entry["status"] == "complete" for entry in self.record["passes"].values())
        self._file.finish(complete, None if complete else self.record["reason"])


def add(folder: Path, key: str, value: Any) -> None:
    """Add a fact to the run.json of a finished run; raise InputError if that fails."""
    file = folder / RUN_FILE
    try:
        record = json.loads(file.read_text(encoding="utf8"))
        durable.write_text(file, json.dumps({**record, key: Hiding().of(value)}, indent=1))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: {key} cannot be added ({error}); make the folder writable") from error
