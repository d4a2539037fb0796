"""Peak rates of accelerators from their vendors' data sheets, to predict how times of kernels differ between two devices.

The numbers are in datasheets.csv, with a row for each device as a program sees it (one die of an MI250X, one of a K80's two GPUs)
and its source. They are ceilings: dense, at the vendor's boost clock, and no kernel reaches them. A ratio of two of them predicts
better than either alone. Values that are not certain are None, never 0.

The rates that a device really reaches are measured: see ceilings.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

DATA = Path(__file__).with_name("datasheets.csv")

# Element types: of kernels -> of the table
TYPES = {
    "f64": "f64", "f32": "f32", "tf32": "tf32", "f16": "f16", "bf16": "bf16", "f8e4m3": "f8", "f8e5m2": "f8", "f8_e4m3": "f8",
    "f8_e5m2": "f8", "s8": "s8", "u8": "s8",
}  # fmt: skip
_WITHOUT_TF32 = (
    "Kepler", "Maxwell", "Pascal", "Pascal GP100", "Volta", "Turing", "GCN 5", "GCN 5.1", "CDNA", "CDNA 2", "CDNA 4", "RDNA 2",
    "RDNA 3",
)  # fmt: skip

# One lane and direction, bytes/s after the line's own coding: 8b/10b in the second generation, 128b/130b later
_LANE = {2: 5e9 / 10, **{generation: rate * 1e9 * 128 / 130 / 8 for generation, rate in ((3, 8), (4, 16), (5, 32))}}
_CHIP_TO_CHIP = {"NVLink-C2C": 450e9}

# Words that do not make a name another device's
_NOISE = frozenset(
    ("accelerator", "amd", "corporation", "geforce", "generation", "gpu", "graphics", "instinct", "intel", "nvidia", "oam")
) | {"r", "radeon", "tesla", "tm", "vf"}
_SIZE = re.compile(r"(\d+)gb")
_MEMORY = re.compile(r"hbm\d?e?|gddr\d?x?")


@dataclass(frozen=True)
class Datasheet:
    """One device. Rates are per second, in one direction if there are two; None is unknown.

    names: as captures may show the device, without words that do not matter (see lookup). multiprocessors: SMs or compute units.
    boost_hz: the highest clock that the vendor states. memory_gb: as the vendor counts, so mostly in units of 2**30 bytes.
    bandwidth: of the device's memory, bytes/s. host_link: such as "PCIe 4 x16", and host_bandwidth its bytes/s in one direction.
    link_bandwidth: of all links to other devices (NVLink, Infinity Fabric) together, bytes/s in one direction. l2_bytes: size of
    the level-2 cache. vector and tensor: operations/s, counting a multiply-add as two, by type of the operands (f64, f32, tf32,
    f16, bf16, f8, s8); tensor: on tensor cores or matrix units, dense, accumulating in 32 bits (f64 in 64). source: the document
    with the numbers.
    """

    name: str
    names: tuple[str, ...]
    architecture: str
    multiprocessors: int | None
    boost_hz: float | None
    memory_gb: float | None
    bandwidth: float | None
    l2_bytes: int | None
    host_link: str | None
    host_bandwidth: float | None
    link_bandwidth: float | None
    source: str
    vector: Mapping[str, float] = field(hash=False)
    tensor: Mapping[str, float] = field(hash=False)

    def flops(self, dtype: str, tensor_core: bool | None = None) -> float | None:
        """Return the peak operations/s for operands of a type, such as f16, f8e4m3 or s8; None if unknown.

        tensor_core False: of the vector units. Otherwise of the tensor cores, or of the vector units if the device has no tensor
        cores, or none for this type (f64, f32). f32 is TF32 only if tensor_core is True, and real float32 on devices without
        TF32.
        """
        kind = TYPES.get(dtype)
        if kind is None:
            return None
        if tensor_core is False:
            return self.vector.get(kind)
        if kind == "f32" and tensor_core and self.architecture not in _WITHOUT_TF32:
            return self.tensor.get("tf32")
        rate = self.tensor.get(kind)
        if rate is None and (kind in ("f64", "f32") or not self.tensor):
            return self.vector.get(kind)
        return rate


def lookup(name: str | None, multiprocessors: int | None = None) -> Datasheet | None:
    """Return the data sheet of a device that a capture names; None if the table has none or several.

    Case, names of vendors and brands and words such as GPU and VF do not matter, nor does a memory size that is the device's own;
    the most specific name wins. Any other word makes it another device: "Ti", "Laptop", "MIG 1g.5gb".

    multiprocessors: the capture's, if known. A device with another number is not the one in the table, but a slice of it, or a
    version with the same name. The number also distinguishes devices that share a name (Orin, Xavier).
    """
    words = _words(name or "")
    bare = tuple(word for word in words if not _SIZE.fullmatch(word) and not _MEMORY.fullmatch(word))
    sizes = {float(size[1]) for word in words if (size := _SIZE.fullmatch(word))}
    by_words = _by_words()
    named = by_words.get(words) or [row for row in by_words.get(bare, ()) if sizes <= {row.memory_gb}]
    fitting = [row for row in named if None in (multiprocessors, row.multiprocessors) or row.multiprocessors == multiprocessors]
    return fitting[0] if len(fitting) == 1 else None


@cache
def table() -> tuple[Datasheet, ...]:
    """Return all data sheets, in the file's order."""
    with DATA.open(newline="", encoding="utf8") as file:
        return tuple(_row(row) for row in csv.DictReader(file))


@cache
def _by_words() -> Mapping[tuple[str, ...], list[Datasheet]]:
    """Return the data sheets by the words in each of their names."""
    result: dict[tuple[str, ...], list[Datasheet]] = defaultdict(list)
    for row in table():
        for name in row.names:
            result[_words(name)].append(row)
    return dict(result)


def _words(name: str) -> tuple[str, ...]:
    """Return the words of a device's name that identify it: A100-SXM4-40GB and "A100 SXM4 40 GB" have the same."""
    joined = re.sub(r"(\d)\s*gi?b?\b", r"\1gb", name.lower())
    return tuple(word for word in re.findall(r"[a-z0-9]+", joined) if word not in _NOISE)


def _row(row: Mapping[str, str]) -> Datasheet:
    def number(column: str, scale: float = 1) -> float | None:
        return float(row[column]) * scale if row[column] else None

    def whole(column: str, scale: int = 1) -> int | None:
        value = number(column, scale)
        return None if value is None else round(value)

    rates: dict[str, dict[str, float]] = {"vector": {}, "tensor": {}}
    for column in row:
        kind, _, unit = column.removesuffix("_tflops").removesuffix("_tops").partition("_")
        value = number(column, 1e12) if column.endswith(("_tflops", "_tops")) else None
        if value is not None:
            rates[unit or "vector"][kind] = value
    link = row["host_link"] or None
    return Datasheet(
        row["device"], tuple(name.strip() for name in row["names"].split("|")), row["architecture"], whole("multiprocessors"),
        number("boost_mhz", 1e6), number("memory_gb"), number("bandwidth_gb_s", 1e9), whole("l2_mib", 1 << 20), link,
        _link_rate(link), number("link_gb_s", 1e9), row["source"], **rates,
    )  # fmt: skip


def _link_rate(link: str | None) -> float | None:
    """Return the bytes/s in one direction of a link such as "PCIe 4 x16"."""
    match = re.fullmatch(r"PCIe (\d) x(\d+)", link or "")
    return _LANE[int(match[1])] * int(match[2]) if match else _CHIP_TO_CHIP.get(link or "")
