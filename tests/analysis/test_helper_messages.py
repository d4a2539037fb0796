"""What a helper sends: columns come over as they are, and what is not as agreed is nothing."""

import mmap
import os
from collections import Counter

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from kernelscope.analysis import helper_messages as messages
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.readers.nsys_tables import Column, Combinations, Gathered, Names, Nullable

ROWS = 4


def mapped(memory):
    """The memory of a message as the process has it that gets the message."""
    return [mmap.mmap(descriptor, os.fstat(descriptor).st_size) for descriptor in memory.passed]


def column(memory, *parts):
    made = Column(2 * ROWS)  # more room than rows
    for part in parts:
        made.add(part, memory.room)
    return made


@pytest.fixture
def sent():
    """Columns of all sorts: (what was gathered, its message, the memory)."""
    memory = messages.Memory()
    texts = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int32()), pa.array(["", "ö\x00"], pa.large_string()))
    gathered = Gathered(
        {
            "plain": column(memory, np.array([1, -(2**63), 2**63 - 1])),
            "null": column(memory, Nullable(np.array([5]), None), Nullable(np.array([6, 7]), np.array([True, False]))),
            "number": column(memory, np.array([1.5, np.inf])),
            "yes": column(memory, np.array([True, False])),
            "byte": column(memory, np.array([1, 0], dtype=np.int8)),
            "names": column(memory, Names(np.array([0], np.int32)), Names(np.array([-1, 2, -2], np.int32), texts)),
            "triples": column(memory, Combinations(np.array([1, 0, 1]), [(1, None, -3), (2**40, 0, 0)])),
            "none": column(memory),
            "no rows": column(memory, np.zeros(0, dtype=np.bool_)),
        },
        Counter({"lost": 3}),
        {"domains": [(1, 2, -1, "domain"), (1, 3, 0, None)]},
    )
    yield gathered, messages.found("ranges", gathered, memory), memory
    memory.close()


def test_columns_come_over_as_they_are(sent):
    gathered, message, memory = sent
    task, got = messages.unpacked(messages.packed(message), mapped(memory))
    assert task == "ranges"
    assert (got.counts, got.lists) == (gathered.counts, gathered.lists)
    assert list(got.columns) == list(gathered.columns)
    for name, expected in gathered.columns.items():
        column = got[name]
        assert column.values().dtype == expected.values().dtype
        assert column.values().tolist() == expected.values().tolist()
        assert (column.null() is None) == (expected.null() is None)
        assert column.null() is None or column.null().tolist() == expected.null().tolist()
        assert list(column.distinct.items()) == list(expected.distinct.items())
        assert [start for start, _ in column.texts] == [start for start, _ in expected.texts]
        for (_, text), (_, same) in zip(column.texts, expected.texts, strict=True):
            text.validate(full=True)
            assert text.equals(same)


def test_memory_is_shared(sent):
    gathered, message, memory = sent
    _, got = messages.unpacked(messages.packed(message), mapped(memory))
    gathered["plain"].values()[0] = 99
    assert got["plain"].values()[0] == 99


def test_texts_come_over_as_they_are():
    error = messages.unpacked(messages.packed(messages.Failed("calls", "a.sqlite: cut short")), [])
    assert error[0] == "calls"
    assert isinstance(error[1], EvidenceError)
    assert str(error[1]) == "a.sqlite: cut short"
    remarks = [("warnings", "ö"), ("notes", "")]
    assert messages.unpacked(messages.packed(messages.Searched("secrets", remarks)), []) == ("secrets", remarks)


def test_values_in_other_memory_are_not_sent(sent):
    with pytest.raises(LookupError):
        sent[2].array(np.zeros(3))


ARRAY = ["<i8", 3, 0]
PART = [ARRAY, None, [], []]
INLINE = [0, np.array([0, -1], np.int32).tobytes(), ["a"]]


def body(**other):
    return {"type": "Found", "task": "calls", "columns": {"start": PART}, "counts": {}, "lists": {}} | other


def of_column(*part):
    return body(columns={"start": [*part, *PART[len(part) :]]})


def unpacked(content):
    room = mmap.mmap(-1, 24)
    return messages.unpacked(content if isinstance(content, bytes) else msgspec.msgpack.encode(content), [room])


def test_what_the_next_test_spoils_is_right():
    assert unpacked(body())[1]["start"].values().tolist() == [0, 0, 0]
    assert unpacked(of_column(ARRAY, ["|b1", 3, 0], [[1, None]], [INLINE]))[1]["start"].texts[0][1].to_pylist() == ["a", None]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x80\x04N.", b"\xc1" * 50, msgspec.msgpack.encode(body())[:-1], msgspec.msgpack.encode(body()) + b"\x00",
        None, [], {}, {"type": "Other", "task": "calls"}, {"type": "Failed", "task": "calls"},
        {"type": "Failed", "task": "calls", "reason": 1}, {"type": "Searched", "task": "secrets", "remarks": [["notes"]]},
        body(task=None), body(counts={"lost": "many"}), body(lists={"domains": [[1, 2]]}), body(columns=[]), body(more=1),
        *(of_column([kind, 3, 0]) for kind in ("|O", "object", "<M8[s]", "<U4", "|V24", ">i8", "<i8,<i8", "(3,)<i8", "", 5)),
        *(of_column(["<i8", length, 0]) for length in (4, -1, 2**63, 2**64 - 1, 2.5, None)),
        *(of_column(["<i8", 3, memory]) for memory in (1, -1, 2**64 - 1, None, b"\x00" * 24)),
        of_column(ARRAY, ["|b1", 2, 0]), of_column(ARRAY, ["|i1", 3, 0]), of_column(ARRAY, ["|b1", 3, 1]),
        of_column(ARRAY, None, [["text"]]), of_column([*ARRAY, 0]), of_column(ARRAY, None, [1]),
        *(of_column(ARRAY, None, [], [[start, *INLINE[1:]]]) for start in (-1, 2, 2**64 - 1)),
        *(of_column(ARRAY, None, [], [[0, codes, ["a"]]]) for codes in (b"\x01", b"\x01\x00\x00\x00", b"\xff\xff\xff\x7f", "a")),
        of_column(ARRAY, None, [], [[0, INLINE[1], [None]]]), of_column(ARRAY, None, [], [[0, INLINE[1], []]]),
    ],
)  # fmt: skip
def test_what_is_not_as_agreed_is_nothing(content):
    assert unpacked(content) is None
