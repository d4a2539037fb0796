"""Measured ceilings from run folders and the user's cache: the highest rates at which a device copies and multiplies.

A rate is compared with a ceiling that it cannot exceed: the fastest copy of at least as many bytes, as less data may stay in a
cache, and the product of the kernel's own element type. If a rate exceeds REFUSED times its ceiling, one of the two is wrong, and
the rate is withheld.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text

NAME, VERSION = "kernelscope/ceilings", 1
REFUSED = 1.05  # of the ceiling: clocks and the best of several vary by some percent between a run and a measurement
DISTURBED = 0.1  # the share of its time that the measuring thread may wait, and of the machine that others may use
SOURCES = ("measured", "vendor")


@dataclass(frozen=True)
class Ceiling:
    """A rate per second (bytes or operations) and its description."""

    rate: float
    name: str


@dataclass(frozen=True)
class Ceilings:
    """copies: by the bytes that one copy reads and writes. products: by element type. source: one of SOURCES."""

    copies: Mapping[int, Ceiling]
    products: Mapping[str, Ceiling]
    source: str
    framework: str | None
    device: str | None
    threads: int | None
    measured: str | None = None  # when, ISO 8601
    notes: tuple[str, ...] = ()

    def copy(self, moved: int) -> Ceiling | None:
        """Return the fastest copy of at least so many bytes; beyond the largest that was measured, that one."""
        if not self.copies:
            return None
        fitting = [ceiling for size, ceiling in self.copies.items() if size >= moved]
        return max(fitting, key=lambda ceiling: ceiling.rate) if fitting else self.copies[max(self.copies)]

    def product(self, dtype: str | None, tensor_core: bool | None = None) -> Ceiling | None:
        """Return the product of an element type; f32 on tensor cores is TF32."""
        kind = "tf32" if dtype == "f32" and tensor_core else dtype
        return self.products.get(kind) if kind else None


def read(path: Path) -> Ceilings:
    """Return the ceilings in a file; raise EvidenceError if it holds none."""
    try:
        content = json_text.parsed(path.read_text(encoding="utf8"))
    except (OSError, UnicodeDecodeError) as error:
        raise EvidenceError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except ValueError as error:
        raise EvidenceError(f"{path}: not JSON ({error}); name a file of the schema {NAME}/{VERSION}") from error
    return of_record(content, str(path))


def of_record(content: Any, where: str) -> Ceilings:
    """Return the ceilings in a record such as run.json's "ceilings"; `where` names it in errors."""
    if not isinstance(content, dict) or content.get("schema") != f"{NAME}/{VERSION}":
        raise EvidenceError(f"{where}: no ceilings of the schema {NAME}/{VERSION}; measure them with `roofline RUN --measure`")
    try:
        source = str(content["source"])
        copies = {int(entry["bytes"]): _ceiling(entry, "bytes_per_s", _copied(entry), source) for entry in content["copies"]}
        products = {
            str(entry["dtype"]): _ceiling(entry, "flops_per_s", _multiplied(entry), source) for entry in content["products"]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"{where}: damaged ceilings ({type(error).__name__}: {error}); measure them again") from error
    if source not in SOURCES:
        raise EvidenceError(f"{where}: source {source!r} of ceilings; it must be one of {', '.join(SOURCES)}")
    known = (content.get("framework"), content.get("device"), content.get("threads"))
    framework, device, threads = known
    return Ceilings(
        copies, products, source, str(framework) if framework else None, str(device) if device else None,
        threads if type(threads) is int else None, str(content["measured"]) if content.get("measured") else None,
        tuple(_notes(content)),
    )  # fmt: skip


def _ceiling(entry: Mapping[str, Any], key: str, name: str, source: str) -> Ceiling:
    rate = float(entry[key])
    if not 0 < rate < float("inf"):
        raise ValueError(f"{key} is {rate}")
    return Ceiling(rate, f"{name}, vendor's number" if source == "vendor" else name)


def _copied(entry: Mapping[str, Any]) -> str:
    return f"copy of {_size(int(entry['bytes']))}"


def _size(count: int) -> str:
    """Return bytes in units of powers of 1024, such as 256 KiB: measured sizes are powers of two."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:g} {unit}"
    return f"{count} B"


def _multiplied(entry: Mapping[str, Any]) -> str:
    sizes = [entry.get(name) for name in "mnk"]
    return f"{entry['dtype']} product" + (f" {'x'.join(map(str, sizes))}" if all(sizes) else "")


def _notes(content: Mapping[str, Any]) -> list[str]:
    notes = [f"no ceiling of {name}: {why}" for name, why in dict(content.get("unavailable") or {}).items()]
    shares = {what: content.get(name) for name, what in (("waited", "of the time waited"), ("others", "of it used by others"))}
    parts = [f"{share:.0%} {what}" for what, share in shares.items() if isinstance(share, int | float) and share > DISTURBED]
    if parts:
        notes.append(
            f"ceilings may be too low: the machine did other things while they were measured ({', '.join(parts)}); "
            "measure them again with `roofline RUN --measure` when it is quiet"
        )
    return notes
