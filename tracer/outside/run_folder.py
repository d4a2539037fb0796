"""The run folder: run.json, and a folder per pass and repeat with raw files. Always readable, complete or marked incomplete."""

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
# What runs, comparisons and imports write into their folders, and commands that are given such a folder
_WRITTEN = frozenset({
    *_RECORDS, *PASSES, "energy", "trace", "sources", "confirm", "breakdowns", "tables", "report.html", "report.pftrace.gz",
    "ranks.html", "profile.json", "profile.json.seen", "profile.json.failed", "owner", "now", "notes.jsonl", "faults.log",
    ".writable",
})  # fmt: skip


def dated(within: str, name: str) -> Path:
    """Return a folder in another one that is not there yet, for results of what is called so."""
    plain = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name).strip(".-") or "run"
    stem = f"{plain}-{datetime.now().strftime('%Y%m%d-%H%M%S')}"
    taken = (Path(within, f"{stem}{f'-{number}' if number else ''}") for number in range(1000))
    return next(path for path in taken if not path.exists())


def prepare_output(folder: Path, force: bool, keep: bool = False, importing: bool = False) -> None:
    """Make `folder` an empty folder; refuse one that holds results unless `force`, and one in use. Raises InputError.

    keep: leave what it holds, for a writer that replaces the folder as a whole. importing: the same, and the writer takes the
    place of an earlier import alone, and leaves what else is there.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file; name a folder for the results")
        if folder.is_symlink():
            raise InputError(f"{folder}: is a link; name the folder that it leads to, or another one")
        if _is_around_us(folder):
            raise InputError(f"{folder}: is the folder that you are in, or one around it; name another, such as {folder}/results")
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
    """Return whether a folder holds the working folder, which cannot be replaced without taking that away."""
    with contextlib.suppress(OSError):  # the working folder is gone
        return Path.cwd().is_relative_to(folder.resolve())
    return False


def _refuse_beside_orphan(folder: Path) -> None:
    """Refuse a folder into which a program still records whose `profile` was killed: its steps would be taken for another's."""
    process = orphans.recording_into(folder)
    if process is not None:
        still = f"a program that a killed command started still records into it (process {process})"
        raise InputError(f"{folder}: {still}; wait for its end, or name another folder")


@dataclass
class Replacement:
    """What takes the place of earlier results. recorded: whether it holds anything; where it does not, those are kept."""

    recorded: bool = True


@contextmanager
def replaced(folder: Path, force: bool) -> Iterator[Replacement]:
    """Make `folder` an empty folder, as `prepare_output` does, and keep what an earlier run left until the block has ended well.

    It lies beside the folder until then, .NAME.earlier, and stays there where the block fails or says that it recorded nothing,
    or is killed. Until the block ends the folder is locked: another command that would write into it is refused.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    prepare_output(folder, force, keep=not _recorded_nothing(folder))
    earlier = folder.with_name(f".{folder.name}.earlier")
    with ExitStack() as held:
        held.enter_context(locks.exclusive_folder(folder))
        if any(folder.iterdir()):
            if earlier.exists():
                _empty(folder)  # of a try that failed: what was there before it is kept
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
    """Remove folders, the innermost first, as far as there is nothing in them."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _put_aside(folder: Path, earlier: Path) -> None:
    """Let a folder be `earlier` and another take its name; where that cannot be, as of a mounted one, it is emptied."""
    try:
        folder.rename(earlier)
    except OSError:
        _empty(folder)
    folder.mkdir(exist_ok=True)


def move_content(folder: Path, to: Path) -> None:
    """Let a folder on the same file system hold what this one holds, and nothing else; the folders stay, with locks on them."""
    to.mkdir(exist_ok=True)
    _empty(to)
    for path in folder.iterdir():
        path.rename(to / path.name)


def _make(folder: Path) -> None:
    """Make a folder; of two commands that begin at once, one does."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise InputError(f"{folder}: another command made it meanwhile; name another folder") from error


def _recorded_nothing(folder: Path) -> bool:
    """Return whether a folder is what `profile` leaves of a program that failed before anything was recorded of it."""
    record = _record(folder / RUN_FILE)
    return record.get("recorder") == "profile" and record.get("passes") == {} and all(path.is_file() for path in folder.iterdir())


def _record(file: Path) -> dict[str, Any]:
    """Return the object in a file; an empty one where there is none."""
    try:
        content = json.loads(file.read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _refuse_others(folder: Path) -> None:
    """Refuse a folder that a run, comparison or import did not make, or that somebody put more into, whatever --force says."""
    if not any(_is_ours(folder / name) for name in _RECORDS) and not any(folder.glob(f"*/{RUN_FILE}")) and not is_begun(folder):
        raise InputError(f"{folder}: holds files that no run wrote; --force replaces only earlier results")
    others = sorted(path.name for path in folder.iterdir() if path.name not in _WRITTEN and not _is_part(path))
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        holds = f"holds {others[0]}{more}, which no run wrote"
        raise InputError(f"{folder}: {holds}; --force replaces only earlier results: move it away, or name another folder")


def _refuse_recorded(folder: Path) -> None:
    """Refuse a folder that an import does not replace: one of a run or comparison, or of somebody else."""
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
    """Return whether a folder holds nothing, or nothing but a record that is not whole: what wrote it was killed."""
    return all(path.name in {f"{name}.new" for name in _RECORDS} for path in folder.iterdir())


def _is_part(path: Path) -> bool:
    """Return whether an entry of a folder is a run folder, as of a comparison's side, or what a killed command left."""
    growing = path.name.startswith(".") and temporary.PREFIX in path.name
    left = growing or path.name.removesuffix(".new") in _WRITTEN
    return left or (path.is_dir() and ((path / RUN_FILE).is_file() or _left_by_run(path)))


def _left_by_run(folder: Path) -> bool:
    """Return whether a folder is what a command that was killed left of a run: empty, or set aside."""
    return (folder.name.startswith(".") and folder.name.endswith(".earlier")) or not any(folder.iterdir())


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


class RunFolder:
    """Writes one side's run folder, which is made if need be; `record` is the content of run.json (see RunRecord).

    scrubber: takes out of all of it what must not be passed on (default: nothing but what anybody's folder must not have).
    """

    def __init__(self, path: Path, record: dict[str, Any], scrubber: Scrubber | None = None):
        self.path = path
        self._scrubber = scrubber or Scrubber(False, {}, ())
        path.mkdir(parents=True, exist_ok=True)
        self._file = RunRecord(path, record, self._scrubber)
        self.record: dict[str, Any] = self._file.record

    def write(self) -> None:
        """Replace run.json with the record as it is now."""
        self._file.write()

    def pass_folder(self, name: str, repeat: int) -> Path:
        """Make and return the folder of one repeat of a pass, and enter it in run.json as running."""
        folder = self.path / name / str(repeat)
        folder.mkdir(parents=True)
        entry = self.record["passes"].setdefault(name, {"status": "running", "folders": []})
        entry["status"] = "running"
        entry["folders"].append(f"{name}/{repeat}")
        return folder

    def scrub(self, folder: Path) -> None:
        """Take out of a pass's folder what must not be passed on, when its child has ended."""
        self._scrubber.folder(folder)

    def pass_done(self, name: str, sampling: dict[str, Any] | None = None) -> None:
        """Mark a pass as complete."""
        self.record["passes"][name]["status"] = "complete"
        if sampling is not None:
            self.record["passes"][name]["sampling"] = sampling
        self.write()

    def pass_failed(self, name: str, reason: str) -> None:
        """Mark a pass as failed and the run as incomplete; what the pass wrote stays."""
        self.record["passes"].setdefault(name, {"folders": []}).update(status="failed", reason=reason)
        self.record["reason"] = reason
        self.write()

    def finish(self) -> None:
        """Mark the run as complete if every pass is; what lies beside run.json, the user's own program, is scrubbed too."""
        self._scrubber.files([path for path in self.path.iterdir() if path.is_file() and path.name != RUN_FILE])
        complete = all(entry["status"] == "complete" for entry in self.record["passes"].values())
        self._file.finish(complete, None if complete else self.record["reason"])


def add(folder: Path, key: str, value: Any) -> None:
    """Write one more fact into the run.json of a finished run; raise InputError when that cannot be done."""
    file = folder / RUN_FILE
    try:
        record = json.loads(file.read_text(encoding="utf8"))
        durable.write_text(file, json.dumps({**record, key: Hiding().of(value)}, indent=1))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: {key} cannot be added ({error}); make the folder writable") from error
