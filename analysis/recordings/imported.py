"""A folder that `import` wrote: the Trace of another tool's capture, and the tables made from it.

    import.json         what was read, from where, with which warnings, and the size and checksum of each file below; written
                        last, so a folder without it is incomplete
    trace/*.parquet     the Trace's tables, and trace/info.json
    breakdowns/*.json   every breakdown that the capture allows, ready to be shown

The captures themselves are not copied: they may be large, and may hold what should not be passed on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.accounting.breakdowns import BY, breakdown, envelopes
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.device.busy import busy
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text, whole
from kernelscope.analysis.recordings import import_record, kinds, written
from kernelscope.analysis.trace import TABLES, plain, storage
from kernelscope.analysis.trace.storage import load
from kernelscope.tracer.inside import temporary

if TYPE_CHECKING:
    from kernelscope.analysis.trace import Trace

SCHEMA = "kernelscope/import/1"
_OURS = (kinds.IMPORT, "trace", "breakdowns", "report.html")  # replaced by a new import, with its report
RESULTS_VERSION = 7  # raise it when the same trace gives other breakdowns: stored ones are then made again


class Imported:
    """An imported capture; opening it reads import.json and checks file sizes. Raises EvidenceError if it is not a readable
    import, or if files of its Trace have another size than recorded. Folders of earlier versions have no such records.
    """

    def __init__(self, path: Path):
        self.path = path
        file = path / kinds.IMPORT
        kinds.kind_of(path)
        try:
            self.record: dict[str, Any] = json_text.parsed(file.read_text(encoding="utf8"))
            schema = str(self.record["schema"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EvidenceError(f"{file}: not the record of an import ({error}); import the capture again") from error
        if schema != SCHEMA:
            raise EvidenceError(f"{file}: schema {schema!r} is not {SCHEMA}; import the capture again with this version")
        if reason := import_record.wrong(self.record):
            raise EvidenceError(f"{file}: not the record of an import ({reason}); import the capture again")
        self._files: written.Notes = self.record.get("files", {})
        written.check_notes(path, self._files)
        written.check_sizes(path, self._noted("trace"))
        self._checked = False

    def _noted(self, part: str) -> written.Notes:
        """Return the recorded sizes and checksums of one file, or of the files in a subfolder."""
        return {name: note for name, note in self._files.items() if name == part or name.startswith(f"{part}/")}

    def _check(self) -> None:
        """Raise EvidenceError if the Trace's files were changed: they would not match the tables made from them."""
        if not self._checked:
            written.check_content(self.path, self._noted("trace"))
        self._checked = True

    def trace(self) -> Trace:
        """Return the Trace, with device work assigned to steps as this version does it.

        Raises EvidenceError if its files were changed.
        """
        self._check()
        trace = load(self.path / "trace")
        device_steps.relate(trace)
        return trace

    def breakdown(self, by: str) -> dict[str, Any]:
        """Return a breakdown's envelope (see Breakdown.as_dict), as stored at import or, if outdated, made now.

        Raises EvidenceError if the capture does not allow this breakdown, or its Trace was changed.
        """
        self._check()
        stored = self._stored(f"breakdowns/{by}.json")
        return _given(stored) if stored is not None else breakdown(self.trace(), by).as_dict()

    def _stored(self, name: str) -> dict[str, Any] | None:
        """Return the envelope in a file; None if it is missing, changed, or of another version."""
        try:
            written.check_content(self.path, self._noted(name))
            stored = json_text.parsed((self.path / name).read_text(encoding="utf8"))
            good = stored["version"] == RESULTS_VERSION and stored["digest"] == _digest(stored["breakdown"])
            return dict(stored["breakdown"]) if good else None
        except (EvidenceError, OSError, ValueError, KeyError, TypeError):
            return None

    def breakdowns(self) -> list[dict[str, Any]]:
        """Return every breakdown's envelope; {"by", "unavailable": reason, "rows": []} for those that the capture lacks.

        Raises EvidenceError if its Trace was changed.
        """
        self._check()
        result = []
        for by in BY:
            try:
                result.append(self.breakdown(by))
            except EvidenceError as error:
                result.append({"by": by, "unavailable": str(error), "rows": []})
        return result


def _digest(envelope: Any) -> str:
    """Return the digest of a stored breakdown; if it does not match, the breakdown is made again."""
    return hashlib.sha256(json.dumps(envelope, sort_keys=True).encode()).hexdigest()


def _given(envelope: dict[str, Any]) -> dict[str, Any]:
    if "unavailable" in envelope:
        raise EvidenceError(envelope["unavailable"])
    return envelope


def write(
    trace: Trace,
    sources: Sequence[Path],
    folder: Path,
    created: str,
    version: str,
    info: Callable[[], dict[str, Any]] | None = None,
    replacing: bool = False,
) -> dict[str, Any]:
    """Write a Trace as an imported capture and return its record; missing parent folders are created.

    created: when, as text. version: kernelscope's. info: returns the Trace's info to store, if it is known only after all else
    is done. replacing: replace what is in the folder, which stays until the new content is complete. If writing fails, nothing
    is left behind. Raises EvidenceError if the folder holds something that must not be replaced.
    """

    folder.parent.mkdir(parents=True, exist_ok=True)
    threads = ThreadPoolExecutor(max_workers=1)  # making the tables needs the other core
    growing = Path(temporary.made(temporary.beside(folder.name), str(folder.parent)))
    try:
        saved = threads.submit(storage.save_tables, trace, growing / "trace")
        described = threads.submit(lambda: list(map(_source, sources)))
        devices = threads.submit(busy, trace)
        _write_breakdowns(trace, growing / "breakdowns")
        known = {"info": info() if info else trace.info, "diagnostics": trace.diagnostics}
        saved.result()
        storage.save_facts(growing / "trace", known)
        record = {
            "schema": SCHEMA, "kernelscope": version, "created": created, "sources": described.result(),
            **known,
            "samples": summed_samples(trace), "devices": devices.result(),
            "tables": {name: len(getattr(trace, name)) for name in TABLES if len(getattr(trace, name))},
            "files": written.noted(growing, [file for file in growing.rglob("*") if file.is_file()]),
        }  # fmt: skip
        (growing / kinds.IMPORT).write_text(json.dumps(record, indent=1), encoding="utf8")
        whole.name_folder(growing, folder, replacing)
        whole.keep_others(growing, folder, _OURS)
    except BaseException:
        threads.shutdown(cancel_futures=True)  # from here on nothing writes
        raise
    finally:
        threads.shutdown()
        temporary.removed(str(growing))
    return record


def summed_samples(trace: Trace) -> list[dict[str, Any]]:
    """Return one row per device and metric of the samples: their count, mean, min and max."""
    if trace.samples.empty:
        return []
    grouped = trace.samples.groupby(["device", "metric"], dropna=False, sort=False)["value"]
    return plain.rows(grouped.agg(["count", "mean", "min", "max"]).reset_index())


def _source(path: Path) -> dict[str, Any]:
    """Return what identifies a source: its name without folders, its size and, for a file, its content's digest."""
    if path.is_dir():
        return {"name": path.name, "bytes": sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())}
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}


def _write_breakdowns(trace: Trace, folder: Path) -> None:
    """Make every breakdown once; for those that the capture does not allow, store the reason."""
    folder.mkdir()
    for by, result in envelopes(trace, tuple(BY)).items():
        envelope = {"by": by, "unavailable": result} if isinstance(result, str) else result
        (folder / f"{by}.json").write_text(
            json.dumps({"version": RESULTS_VERSION, "digest": _digest(envelope), "breakdown": envelope}), encoding="utf8"
        )
