"""Splitting of chrome traces: however their JSON is written and wherever it is cut, the events are the same."""

import gzip
import json

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_numbers
from kernelscope.analysis.files.chrome_json import EventList, mend
from kernelscope.analysis.formats.kineto import tables as kineto
from kernelscope.analysis.formats.kineto.groups import EventGroup

TRICKY = st.sampled_from(
    ['}, {"ph": "X"', "},{", '"traceEvents": [', "]}", "\\", '"', "\u20ac", "\\u007d", "\n", "nan", ""]
) | st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TRICKY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TRICKY, inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"ph": st.just("X"), "name": TRICKY, "args": st.dictionaries(TRICKY, VALUES, max_size=4), "x": VALUES}
    ),
    max_size=12,
)
LAYOUTS = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])


def collected(path, content, size):
    decoder = msgspec.json.Decoder(list[msgspec.Raw])
    events = EventList(path, lambda text: list(map(bytes, decoder.decode(text))), size, content)
    found = [json.loads(event) for piece in events for event in piece]
    return found, {key: json.loads(value) for key, value in events.header.items()}


@settings(max_examples=150, deadline=None)
@given(
    EVENTS,
    st.dictionaries(TRICKY, VALUES, max_size=2),
    st.dictionaries(TRICKY, VALUES, max_size=2),
    LAYOUTS,
    st.integers(1, 200),
    st.booleans(),
)
def test_events_and_header_survive_any_layout_and_any_cut(events, before, after, layout, size, packed):
    whole = {**before, "traceEvents": events, **{key: value for key, value in after.items() if key != "traceEvents"}}
    header = {key: value for key, value in whole.items() if key not in ("", "traceEvents")}
    content = json.dumps(whole, **layout).encode("utf8", "surrogatepass")
    if "traceEvents" in before:
        return
    try:
        content.decode("utf8")
    except UnicodeDecodeError:
        return
    found, read_header = collected("t", gzip.compress(content) if packed else content, size)
    assert found == events
    assert read_header == header


@settings(max_examples=60, deadline=None)
@given(EVENTS, LAYOUTS, st.integers(1, 100))
def test_bare_lists_survive_any_cut(events, layout, size):
    content = json.dumps(events, **layout).encode("utf8", "replace")
    assert collected("t", content, size)[0] == json.loads(content)


TIMES = st.integers(0, 8 * 10**15).map(lambda value: value / 1000) | st.integers(0, 10**15)
COMPLETE = st.fixed_dictionaries(
    {
        "ph": st.just("X"),
        "cat": st.sampled_from(["cpu_op", "kernel"]),
        "name": TRICKY,
        "pid": st.integers(0, 3) | st.just("1"),
        "tid": st.integers(0, 9),
        "ts": TIMES,
        "dur": TIMES,
    },
    optional={
        "args": st.fixed_dictionaries(
            {},
            optional={
                "correlation": st.integers(0, 2**40),
                "Input Dims": st.lists(st.lists(st.integers(0, 9))),
                "dtype": st.text(max_size=3),
            },
        )
    },
)


@settings(max_examples=60, deadline=None)
@example([{"ph": "X", "cat": "kernel", "name": "null", "pid": 0, "tid": 0, "ts": 0, "dur": 0}], 20)
@given(st.lists(COMPLETE, min_size=1, max_size=20), st.integers(20, 2000))
def test_tables_are_the_same_decoded_with_types_or_as_text(events, size):
    content = json.dumps(events).encode("utf8", "replace")
    groups = {"all": EventGroup(None, arguments=("correlation", "shapes", "dtype"))}
    typed = kineto.scan("t", groups, content=content)
    odd = json.dumps([*json.loads(content), {"ph": "M", "ts": [], "args": {"correlation": 0.5}}]).encode()
    untyped = kineto.scan("t", groups, size, odd)
    pd.testing.assert_frame_equal(typed.tables["all"].astype("object"), untyped.tables["all"].astype("object"))
    assert typed.tracks.equals(untyped.tracks)


@given(st.decimals(-(10**15), 10**15, places=5) | st.integers(-(10**15), 10**15), st.booleans())
def test_numbers_in_text_are_exact(value, quoted):
    text = f'"{value}"' if quoted else str(value)
    (found,), (valid,) = json_numbers.thousandfold([text.encode()])
    assert valid
    assert found == round(value * 1000)


def test_numbers_that_are_none():
    odd = [b"", b"null", b"NaN", b"1e400", b"9" * 30, b"[1]", b"\xff", b'"x"', b"true", b"-", b"1.5.5"]
    assert not json_numbers.thousandfold(odd)[1].any()
    assert not json_numbers.integers(odd)[1].any()
    assert json_numbers.integers([b"5.0", b"-7", b'"12"'])[0].tolist() == [5, -7, 12]
    assert json_numbers.thousandfold([b"1.5e3", b"2E-3"])[0].tolist() == [1_500_000, 2]
    assert json_numbers.thousandfold([])[0].dtype == np.int64


def test_mending_leaves_json_alone():
    text = json.dumps({"a": ["nan", ": nan,", 'q\\"', 1.5, None, "inf"], "C:\\x": "\u20ac"}).encode()
    assert mend(text) == text


def test_halves_of_surrogate_pairs_are_replaced():
    """Python's json writes and reads them; a backslash before them that stands for itself makes them text."""
    names = ["\ud800x", "a\udfff", "\U0001f600", "\\ud800", "\\\ud800"]
    mended = [json.loads(mend(json.dumps(name).encode())) for name in names]
    assert mended == ["\ufffdx", "a\ufffd", "\U0001f600", "\\ud800", "\\\ufffd"]
    events = [{"name": name, "ph": "X", "ts": 1, "dur": 1} for name in names]
    whole = EventList("a.json", lambda text: msgspec.json.decode(text), content=json.dumps({"traceEvents": events}).encode())
    assert [event["name"] for piece in whole for event in piece] == mended
    assert whole.repaired == 1


def test_the_quote_that_autograd_forgot_is_put_back():
    flow = b'[{"ts": 1.5, "tid": 1}, {"name": "add", "ph": "f", "ts": 2.5, tid": 0, "pid": "CUDA functions"}]'
    assert json.loads(mend(flow))[1] == {"name": "add", "ph": "f", "ts": 2.5, "tid": 0, "pid": "CUDA functions"}
    assert mend(mend(flow)) == mend(flow)


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_a_file_cut_anywhere_is_refused(cut):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "a}, {", "ts": n, "dur": 1, "args": {"x": [{"y": n}, {"z": "\\"}]}} for n in range(9)
    ]
    content = json.dumps({"schemaVersion": 1, "traceEvents": events, "end": 1}).encode()
    with pytest.raises(EvidenceError, match=r"cut short|no list"):
        collected("t", content[: len(content) - 1 - cut], 64)
