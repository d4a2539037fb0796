"""What a helper sends: columns come over as they are, and what is not as agreed is nothing."""

import json
import mmap
import os
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from kernelscope.analysis import helper_messages as messages
from kernelscope.analysis import helper_tables, helper_ties
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.helper_values import Memory
from kernelscope.analysis.kernel_lookup import look
from kernelscope.analysis.readers.combinations import Combinations
from kernelscope.analysis.readers.nsys_tables import Column, Gathered, Names, Nullable
from kernelscope.analysis.ties import REPEATED, Ties

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
    memory = Memory()
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
            "same": column(memory, np.array([7, 7]), np.array([7])),
            "same at first": column(memory, np.array([7, 7]), np.array([], dtype=np.int64), np.array([8, 7])),
            "all null": column(memory, *2 * [Nullable(np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.bool_))]),
            "null at last": column(memory, np.array([0.5, 0.5]), Nullable(np.array([0.5]), np.array([True]))),
            "none": column(memory),
            "no rows": column(memory, np.zeros(0, dtype=np.bool_)),
        },
        Counter({"lost": 3}),
        {"domains": [(1, 2, -1, "domain"), (1, 3, 0, None)]},
    )
    yield gathered, messages.found("ranges", helper_tables.described(gathered, memory)), memory
    memory.close()


def test_columns_come_over_as_they_are(sent):
    gathered, message, memory = sent
    task, got = messages.unpacked(message, mapped(memory))
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
    _, got = messages.unpacked(message, mapped(memory))
    gathered["plain"].values()[0] = 99
    assert got["plain"].values()[0] == 99


def test_what_is_the_same_in_all_rows_takes_no_memory(sent):
    _, message, memory = sent
    told = json.loads(message)["columns"]
    assert told["same"]["values"] == ["<i8", 3, None, 7]
    assert told["all null"]["null"] == ["|b1", 4, None, True]
    _, got = messages.unpacked(message, mapped(memory))
    got["same"].values()[0] = 99  # what is made of it can be written to
    assert got["same"].values().tolist() == [7, 7, 7]


def test_texts_come_over_as_they_are():
    error = messages.unpacked(messages.failed("calls", "a.sqlite: cut short"), [])
    assert error[0] == "calls"
    assert isinstance(error[1], EvidenceError)
    assert str(error[1]) == "a.sqlite: cut short"
    remarks = [("warnings", "ö"), ("notes", "")]
    assert messages.unpacked(messages.searched("secrets", remarks), []) == ("secrets", remarks)
    assert messages.unpacked(messages.digested("digest", "0f" * 32), []) == ("digest", "0f" * 32)


def ties(**other):
    told = {
        "sizes": {"kernels": 3, "calls": 2, "ranges": 1},
        "calls": {"kernels": [1, -1, 0]},
        "ranges": {"kernels": [0, -1, -1]},
        "counts": {REPEATED: 4},
    } | other
    found = ({name: np.array(rows) for name, rows in told[part].items()} for part in ("calls", "ranges"))
    return Ties(told["sizes"], *found, told["counts"])


def test_ties_come_over_as_they_are():
    memory = Memory()
    sent = ties()
    task, got = messages.unpacked(messages.found("ties", helper_ties.described(sent, memory)), mapped(memory))
    memory.close()
    assert (task, got.sizes, got.counts) == ("ties", sent.sizes, sent.counts)
    assert got.calls["kernels"].tolist() == [1, -1, 0]
    assert got.ranges["kernels"].tolist() == [0, -1, -1]
    memory = Memory()
    _, got = messages.unpacked(messages.found("ties", helper_ties.described(sent._replace(ranges=None), memory)), mapped(memory))
    memory.close()
    assert got.ranges is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"calls": {"kernels": [1, -1, 2]}},  # there are two
        {"ranges": {"kernels": [0, -2, 0]}},
        {"calls": {"kernels": [1, 1]}},  # rows without an answer
        {"calls": {"ranges": [0]}},
        {"sizes": {"kernels": 3}},
        {"sizes": {"kernels": 3, "calls": 2.0, "ranges": 1}},
        {"counts": {REPEATED: "4"}},
    ],
)
def test_ties_that_are_not_as_agreed(wrong):
    memory = Memory()
    message = messages.found("ties", helper_ties.described(ties(**wrong), memory))
    assert messages.unpacked(message, mapped(memory)) is None
    memory.close()


def test_what_names_tell_comes_over_as_it_is():
    names = {name: look(name) for name in ("ampere_sgemm_128x64_nn", "void mine<float>()", "")}
    assert names["ampere_sgemm_128x64_nn"].transpose == "NN"
    message = messages.looked_up("names", names)
    assert messages.unpacked(message, []) == ("names", names)
    for value in ("0", 1.5, True):
        told = json.loads(message)
        told["names"][""][1] = value  # no position
        assert messages.unpacked(json.dumps(told).encode(), []) is None
    told["names"][""] = ["", None]
    assert messages.unpacked(json.dumps(told).encode(), []) is None


def test_values_in_other_memory_are_not_sent(sent):
    with pytest.raises(LookupError):
        sent[2].array(np.zeros(3))


ARRAY = ["<i8", 3, 0]
CODES = ["<i4", 2, 1]  # 0 and -1
PART = {"values": ARRAY, "null": None, "distinct": [], "texts": []}
INLINE = [0, CODES, ["a"]]


def body(**other):
    return {"task": "calls", "columns": {"start": PART}, "counts": {}, "lists": {}} | other


def of_column(**other):
    return body(columns={"start": PART | other})


def without(key, content):
    return {name: value for name, value in content.items() if name != key}


def unpacked(content):
    values, codes = mmap.mmap(-1, 24), mmap.mmap(-1, 8)
    codes[4:] = b"\xff" * 4
    return messages.unpacked(content if isinstance(content, bytes) else json.dumps(content).encode(), [values, codes])


def test_what_the_next_test_spoils_is_right():
    assert unpacked(body())[1]["start"].values().tolist() == [0, 0, 0]
    assert unpacked(of_column(null=["|b1", 3, 0], distinct=[[1, None]], texts=[INLINE]))[1]["start"].texts[0][1].to_pylist() == [
        "a", None
    ]  # fmt: skip
    assert unpacked(body(lists={"domains": [[1, 2, 3, None]]}))[1].lists == {"domains": [(1, 2, 3, None)]}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x80\x04N.", b"\xff" * 50, b"[" * 100_000, json.dumps(body()).encode()[:-1], json.dumps(body()).encode() + b"\x00",
        None, [], {}, {"task": "calls"}, {"task": "calls", "failed": 1}, {"failed": "why"},
        {"task": "calls", "failed": "why", "remarks": []}, {"task": "secrets", "remarks": [["notes"]]},
        {"task": "secrets", "remarks": [["notes", 1]]}, {"task": "secrets", "remarks": {}},
        {"task": "digest", "digest": 1}, {"task": "digest", "digest": "0f"}, {"task": "digest", "digest": "<>" * 32},
        body(task=None), body(counts={"lost": "many"}), body(counts={"lost": True}), body(lists={"domains": [[1, 2]]}),
        body(lists={"domains": [[1, 2, 3, 4]]}), body(lists={"domains": None}), body(columns=[]), body(columns={"start": None}),
        body(more=1), without("counts", body()), body(columns={"start": without("null", PART)}),
        of_column(more=1), of_column(memory=[]),
        *(of_column(values=[kind, 3, 0]) for kind in ("|O", "object", "<M8[s]", "<U4", "|V24", ">i8", "<i8,<i8", "", 5, [])),
        *(of_column(values=["<i8", length, 0]) for length in (4, -1, 2**63, 2**64 - 1, 2.5, True, None)),
        *(of_column(values=["<i8", 3, memory]) for memory in (2, -1, 2**64 - 1, None, "0", False)),
        *(
            of_column(values=["<i8", 3, None, *value])
            for value in ([], [1.0], [True], [2**63], [2**64], [-(2**63) - 1], ["1"], [None], [1, 1])
        ),
        *(
            of_column(values=[kind, 3, None, value])
            for kind, value in (("|i1", 128), ("<i4", 2**31), ("|b1", 1), ("<f8", 1), ("|O", 1))
        ),
        *(of_column(values=["<i8", length, None, 1]) for length in (-1, 2**63, 2**64 - 1, 2.5, True, None)),
        of_column(null=["|b1", 2, None, True]),
        of_column(values="<i8"), of_column(values=[*ARRAY, 0]), of_column(values=None),
        of_column(null=["|b1", 2, 0]), of_column(null=["|i1", 3, 0]), of_column(null=["|b1", 9, 1]),
        of_column(distinct=[["text"]]), of_column(distinct=[1]), of_column(distinct=[[1.5]]), of_column(texts=[1]),
        *(of_column(texts=[[start, *INLINE[1:]]]) for start in (-1, 2, 2**64 - 1, None)),
        *(of_column(texts=[[0, codes, ["a"]]]) for codes in (["<i8", 1, 1], ["|b1", 2, 1], ["<i4", 3, 1], "a", None)),
        of_column(texts=[[0, CODES, [None]]]), of_column(texts=[[0, CODES, []]]), of_column(texts=[[0, CODES, ["\ud800"]]]),
    ],
)  # fmt: skip
def test_what_is_not_as_agreed_is_nothing(content):
    assert unpacked(content) is None
