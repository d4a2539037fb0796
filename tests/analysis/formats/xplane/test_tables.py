"""XSpace files: a small one that this project recorded, and what a damaged or foreign file leads to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import protobuf_columns
from kernelscope.analysis.formats.xplane import tables as xplane
from tests.analysis.formats.xplane.made import field, varint
from tests.places import ROOT

CAPTURE = ROOT / "tests" / "data" / "tensorflow" / "lenet-train" / "operators.xplane.pb"


def event(metadata_id, offset_ps, duration_ps):
    return field(1, metadata_id) + field(2, offset_ps) + field(3, duration_ps)


def metadata(key, name, display_name=b""):
    return field(1, key) + field(2, field(1, key) + field(2, name) + field(4, display_name))


def space(events, timestamp_ns=7, start_time_ns=None):
    line = field(1, 3) + field(2, b"thread/3") + field(3, timestamp_ns) + b"".join(field(4, one) for one in events)
    host = field(2, b"/host:CPU") + field(3, line) + field(4, metadata(1, b"a:Add", b"Add")) + field(4, metadata(2, b"wait"))
    content = field(1, host)
    if start_time_ns:
        stat = field(1, 9) + field(3, start_time_ns)
        content += field(1, field(2, b"Task Environment") + field(5, metadata(9, b"profile_start_time")) + field(6, stat))
    return content


def test_a_recorded_file_has_every_thread_and_operator():
    events = xplane.read(CAPTURE)
    assert events.attrs["wall_clock"]
    assert list(events.columns) == ["plane", "line_id", "line", "start_ns", "duration_ns", "name", "display_name"]
    assert set(events["line"].str.split("/").str[0]) == {"python", "tf_Compute", "tf_numa_-1_Eigen"}
    counts = events["name"].value_counts()
    assert counts["lenet_1/conv1_1/BiasAdd:_MklNativeFusedConv2D"] == 3
    assert counts["train_step"] == 3
    assert events["name"].notna().all()
    assert events["line_id"].nunique() == events["line"].nunique()


def test_a_recorded_file_is_on_the_wall_clock():
    events = xplane.read(CAPTURE)
    assert events["start_ns"].between(1_795_000_000_000_000_000, 1_796_000_000_000_000_000).all()
    assert (events["start_ns"] + events["duration_ns"]).max() - events["start_ns"].min() < 1_000_000_000


def test_times_are_rounded_and_counted_from_the_profilers_start(tmp_path):
    path = tmp_path / "made.xplane.pb"
    started = 1_700_000_000_000_000_000
    path.write_bytes(space([event(1, 1_499, 2_500), event(2, 5_000_000, 0)], start_time_ns=started))
    events = xplane.read(path)
    assert events["start_ns"].tolist() == [started + 8, started + 7 + 5_000]
    assert events["duration_ns"].tolist() == [3, 0]
    assert events["name"].tolist() == ["a:Add", "wait"]
    assert events["display_name"].fillna("").tolist() == ["Add", ""]


def test_a_file_without_the_profilers_start_says_that_its_clock_is_its_own(tmp_path):
    path = tmp_path / "made.xplane.pb"
    path.write_bytes(space([event(1, 1_000, 1_000)]))
    events = xplane.read(path)
    assert not events.attrs["wall_clock"]
    assert events["start_ns"].tolist() == [8]


def test_absolute_times_of_older_releases_are_kept(tmp_path):
    path = tmp_path / "made.xplane.pb"
    started = 1_700_000_000_000_000_000
    path.write_bytes(space([event(1, 1_000, 1_000)], timestamp_ns=started + 50, start_time_ns=started))
    assert xplane.read(path)["start_ns"].tolist() == [started + 51]


def test_an_event_whose_name_is_not_declared_is_kept_without_one(tmp_path):
    path = tmp_path / "made.xplane.pb"
    path.write_bytes(space([event(77, 0, 1_000)]))
    assert xplane.read(path)["name"].isna().tolist() == [True]


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3), max_size=20), st.data())
def test_integer_fields_are_decoded_whatever_stands_between_them(values, data):
    others = st.sampled_from([b"", field(4, b"stats"), varint(9 << 3 | 1) + bytes(8), varint(8 << 3 | 5) + bytes(4), field(5, 3)])
    messages = [b"".join(field(i + 1, value) + data.draw(others) for i, value in enumerate(row)) for row in values]
    ends = np.cumsum([len(message) for message in messages], dtype=np.int64)
    starts = ends - np.array([len(message) for message in messages], dtype=np.int64)
    found, _ = protobuf_columns.decode(protobuf_columns.padded(b"".join(messages)), starts, ends, (1, 2, 3), ())
    assert list(zip(*(found[i].tolist() for i in (1, 2, 3)), strict=True)) == values


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"not a protobuf message at all", "not an XSpace"),
        (field(3, b"a warning"), "no planes"),
        (space([event(1, 1, 1)])[:-4], "cut short"),
        (space([b"\x08\x01\x12\x7f"]), "do not end"),
        (space([b"\x0b\x01"]), "do not end"),
    ],
)
def test_what_is_no_readable_trace_is_refused_with_the_reason(tmp_path, content, said):
    path = tmp_path / "damaged.xplane.pb"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=said) as caught:
        xplane.read(path)
    assert str(path) in str(caught.value)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(EvidenceError, match="nowhere"):
        xplane.read(tmp_path / "nowhere.xplane.pb")
