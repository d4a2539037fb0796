"""A Perfetto trace's packets as columns: track events and render stages with their names, tracks and times.

A packet belongs to a sequence. A sequence defines texts, clocks and defaults once and then refers to them by number, until it
clears them all. The stretch between two clears is called a generation here.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from google.protobuf.message import DecodeError

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import packed
from kernelscope.analysis.files.protobuf_columns import Blocks, Integers, decode, distinct_texts, padded
from kernelscope.analysis.formats.perfetto import clocks, messages

_EVENT_INTEGERS = {"type": 9, "track": 11, "name_iid": 10, "category_iid": 3, "delta_us": 1, "absolute_us": 16}
_EVENT_NAME, _EVENT_CATEGORY, _LEGACY = 23, 22, 6
_STAGE_INTEGERS = {"duration": 2, "queue": 13, "stage": 14, "gpu": 11, "name_iid": 20, "old_queue": 3, "old_stage": 4}
_STAGE_NAME = 17
_MOST_UNPACKED = 1 << 30  # bytes to which compressed packets of a trace may unpack


@dataclass
class Packets:
    """The content of a file.

    events, stages: columns start_ns, sequence (int64), order (the packet's position), name (string). Events also have type,
    track, category and legacy (whether they are of the old kind); stages have duration, queue, gpu. tracks: descriptors by
    uuid, as signed numbers. threads: descriptors of the old kind, by sequence. unread: numbers of packets that are not read, by
    kind. diagnostics: oddities, counted.
    """

    events: pd.DataFrame
    stages: pd.DataFrame
    tracks: dict[int, Any]
    threads: dict[int, Any]
    unread: dict[str, int]
    diagnostics: dict[str, int] = field(default_factory=dict)


def read(path: Path) -> Packets:
    """Return a file's packets; raise EvidenceError if it cannot be read or is not a trace."""
    content = packed.read_content(path)
    try:
        packets = _unpacked(_split(content), path)
        return _PacketReader(packets).read()
    except (DecodeError, ValueError, zlib.error) as error:
        shown = " ".join(str(error).split())[:200]
        raise EvidenceError(f"{path}: not a Perfetto trace, damaged or cut short ({shown}); record or export it again") from error


def _split(content: bytes) -> list[bytes]:
    result: list[bytes] = list(messages.classes()["Trace"].FromString(content).packets)
    return result


def _unpacked(packets: list[bytes], path: Path) -> list[bytes]:
    """Return the packets, with compressed ones replaced by the packets inside them."""
    _, buffer, starts, ends = _joined(packets)
    _, blocks = decode(buffer, starts, ends, (), (messages.ZLIB_PACKETS, messages.ZSTD_PACKETS))
    if not any(len(rows) for rows, _, _ in blocks.values()):
        return packets
    inside: dict[int, list[bytes]] = {}
    left = _MOST_UNPACKED
    for number, (rows, begins, stops) in blocks.items():
        for row, begin, stop in zip(rows.tolist(), begins.tolist(), stops.tolist(), strict=True):
            content = buffer[begin:stop].tobytes()
            plain = _inflated(content, left, path) if number == messages.ZLIB_PACKETS else _of_zstd(content, path)
            left -= len(plain)
            if left < 0:
                raise EvidenceError(f"{path}: packets that unpack to over {_MOST_UNPACKED >> 20} MiB; record less")
            inside.setdefault(row, []).extend(_split(plain))
    return [one for row, packet in enumerate(packets) for one in inside.get(row, [packet])]


def _inflated(content: bytes, left: int, path: Path) -> bytes:
    stream = zlib.decompressobj()
    plain = stream.decompress(content, max(left, 0) + 1)
    if not stream.eof and len(plain) <= left:
        raise EvidenceError(f"{path}: compressed packets are cut short; record the trace again")
    return plain


def _of_zstd(content: bytes, path: Path) -> bytes:
    return b"".join(packed.blocks(io.BytesIO(content), path))


def _joined(packets: list[bytes]) -> tuple[bytes, npt.NDArray[np.uint8], Integers, Integers]:
    """Return the concatenated messages, as bytes and as a buffer, and where each begins and ends."""
    content = b"".join(packets)
    lengths = np.fromiter(map(len, packets), dtype=np.int64, count=len(packets))
    ends = np.cumsum(lengths)
    return content, padded(content), ends - lengths, ends


class _PacketReader:
    """Decodes packets."""

    def __init__(self, packets: list[bytes]) -> None:
        self.content, self.buffer, starts, ends = _joined(packets)
        integers = (messages.TIMESTAMP, messages.CLOCK, messages.SEQUENCE, messages.FLAGS, messages.CLEARED, messages.DROPPED)
        parts = (
            messages.EVENT, messages.TRACK, messages.INTERNED, messages.DEFAULTS, messages.STAGE, messages.CLOCKS,
            messages.PROCESS, messages.THREAD, *messages.UNREAD,
        )  # fmt: skip
        self.fields, self.blocks = decode(self.buffer, starts, ends, integers, parts)
        self.sequence = self.fields[messages.SEQUENCE]
        cleared = ((self.fields[messages.FLAGS] & 1) != 0) | (self.fields[messages.CLEARED] != 0)
        turn = pd.Series(cleared.astype(np.int64)).groupby(self.sequence).cumsum().to_numpy()
        self.generation = pd.factorize(pd.MultiIndex.from_arrays([self.sequence, turn]))[0].astype(np.int64)

    def read(self) -> Packets:
        """Return the packets' content."""
        self.diagnostics: dict[str, int] = {}
        names, categories, stages = self._interned()
        clock, track = self._defaults()
        time, doubtful = clocks.aligned(
            self.fields[messages.TIMESTAMP], clock, self.sequence, self._messages(messages.CLOCKS, "Clocks")
        )
        unread = {name: len(self.blocks[number][0]) for number, name in messages.UNREAD.items() if len(self.blocks[number][0])}
        events, result = self._events(names, categories, track, time), self._stages(names, stages, time)
        used = np.zeros(len(time), dtype=bool)
        used[self.blocks[messages.EVENT][0]] = used[self.blocks[messages.STAGE][0]] = True
        self._count("times of a clock that nothing ties to the others", int((doubtful & used).sum()))
        self._count("packets that were lost before others", int((self.fields[messages.DROPPED] != 0).sum()))
        described = {signed(one.uuid): one for _, one in self._messages(messages.TRACK, "Track")}
        threads = {int(self.sequence[row]): one for row, one in self._messages(messages.THREAD, "Thread")}
        return Packets(events, result, described, threads, unread, self.diagnostics)

    def _count(self, what: str, number: int) -> None:
        if number:
            self.diagnostics[what] = self.diagnostics.get(what, 0) + number

    def _messages(self, number: int, name: str) -> list[tuple[int, Any]]:
        """Return a field's messages with the rows of their packets."""
        one = messages.classes()[name]
        rows, begins, ends = (values.tolist() for values in self.blocks[number])
        return [(row, one.FromString(self.content[begin:end])) for row, begin, end in zip(rows, begins, ends, strict=True)]

    def _interned(self) -> tuple[pd.Series, pd.Series, pd.Series]:
        """Return the interned names, categories and render stages, by generation and number."""
        result: tuple[dict[tuple[int, int], str], ...] = ({}, {}, {})
        for row, interned in self._messages(messages.INTERNED, "Interned"):
            generation = int(self.generation[row])
            for known, texts in zip(result, (interned.names, interned.categories, interned.stages), strict=True):
                known.update({(generation, signed(one.iid)): messages.text(one.name) for one in texts})
        names, categories, stages = (pd.Series(known, dtype="object") for known in result)
        return names, categories, stages

    def _defaults(self) -> tuple[Integers, Integers]:
        """Return each packet's clock, 0 for the trace's own, and the default track of its generation, for events without one."""
        clock, track = self.fields[messages.CLOCK].copy(), np.zeros(len(self.sequence), dtype=np.int64)
        defaults = self._messages(messages.DEFAULTS, "Defaults")
        if defaults:
            at = np.array([row for row, _ in defaults], dtype=np.int64)
            rows = pd.DataFrame({"generation": self.generation[at], "row": at, "which": np.arange(len(defaults))})
            packets = pd.DataFrame({"generation": self.generation, "row": np.arange(len(clock))})
            result = pd.merge_asof(packets, rows, on="row", by="generation")
            which = result["which"].fillna(len(defaults)).to_numpy(np.int64)  # the last one stands for no defaults
            clock = np.where(clock == 0, np.array([*(int(one.clock) for _, one in defaults), 0], dtype=np.int64)[which], clock)
            track = np.array([*(signed(one.event.track) for _, one in defaults), 0], dtype=np.int64)[which]
        return clock, track

    def _events(self, names: pd.Series, categories: pd.Series, track: Integers, time: Integers) -> pd.DataFrame:
        """Return the track events."""
        rows, begins, ends = self.blocks[messages.EVENT]
        parts = (_EVENT_NAME, _EVENT_CATEGORY, _LEGACY)
        fields, blocks = decode(self.buffer, begins, ends, tuple(_EVENT_INTEGERS.values()), parts)
        columns = {name: fields[number] for name, number in _EVENT_INTEGERS.items()}
        legacy = np.zeros(len(rows), dtype=bool)
        legacy[blocks[_LEGACY][0]] = True
        old = (columns["delta_us"] != 0) | (columns["absolute_us"] != 0)
        self._count("events with times of a kind that is no longer written", int(old.sum()))
        table = pd.DataFrame(
            {
                "order": rows,
                "start_ns": time[rows],
                "sequence": self.sequence[rows],
                "type": columns["type"],
                "track": np.where(columns["track"] == 0, track[rows], columns["track"]),
                "name": self._texts(rows, blocks[_EVENT_NAME], names, columns["name_iid"], "names"),
                "category": self._texts(rows, blocks[_EVENT_CATEGORY], categories, columns["category_iid"], "categories"),
                "legacy": legacy,
            }
        )
        kept: pd.DataFrame = table[~old].reset_index(drop=True)
        return kept

    def _stages(self, names: pd.Series, stages: pd.Series, time: Integers) -> pd.DataFrame:
        """Return the GPUs' render stages; packets that only describe stages are left out."""
        rows, begins, ends = self.blocks[messages.STAGE]
        fields, blocks = decode(self.buffer, begins, ends, tuple(_STAGE_INTEGERS.values()), (_STAGE_NAME,))
        columns = {name: fields[number] for name, number in _STAGE_INTEGERS.items()}
        name = self._texts(rows, blocks[_STAGE_NAME], names, columns["name_iid"], "names")
        stage = self._texts(rows, (rows[:0], rows[:0], rows[:0]), stages, columns["stage"], "stages")
        numbered = "stage " + pd.Series(columns["old_stage"] + columns["stage"]).astype("string")
        table = pd.DataFrame(
            {
                "order": rows,
                "start_ns": time[rows],
                "sequence": self.sequence[rows],
                "duration": columns["duration"],
                "queue": np.where(columns["queue"] != 0, columns["queue"], columns["old_queue"]),
                "gpu": columns["gpu"],
                "name": name.fillna(stage).fillna(numbered),
            }
        )
        timed: pd.DataFrame = table[self.fields[messages.TIMESTAMP][rows] != 0].reset_index(drop=True)
        return timed

    def _texts(self, rows: Integers, own: Blocks, interned: pd.Series, iids: Integers, what: str) -> pd.Series:
        """Return the texts of messages: their own, or those interned under their numbers; null if there is none."""
        texts = np.full(len(rows), None, dtype=object)
        keys = pd.MultiIndex.from_arrays([self.generation[rows], iids])
        codes, distinct = pd.factorize(keys)
        known = interned.to_dict()
        result = np.array([known.get((int(pair[0]), int(pair[1]))) for pair in distinct], dtype=object)
        if len(result):
            texts = result[codes]
        missing = (iids != 0) & pd.isna(texts)
        self._count(f"{what} that the trace refers to and does not hold", int(missing.sum()))
        place, begins, ends = own
        if len(place):
            chosen, distinct_own = distinct_texts(self.buffer, begins, ends)
            texts[place] = np.array(distinct_own, dtype=object)[chosen]
        return pd.Series(texts, dtype="string")


def signed(value: int) -> int:
    """Return an unsigned 64-bit number as the int64 with the same bits."""
    return value - (1 << 64) if value >= 1 << 63 else value
