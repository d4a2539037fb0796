"""Files are had in blocks, unpacked where they are gzip, however they were packed."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import packed
from kernelscope.analysis.files.packed import blocks, read_content

PARTS = st.lists(st.binary(max_size=400) | st.integers(0, 400).map(bytes), min_size=1, max_size=5)


def unpacked(content, **sizes):
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setattr(packed, name, size)
        return b"".join(blocks(io.BytesIO(content), "t"))


@settings(max_examples=200, deadline=None)
@given(PARTS, st.integers(0, 20), st.integers(2, 40), st.integers(1, 40))
def test_members_zeros_and_any_size_of_blocks(parts, zeros, read, block):
    packed = bytes(zeros).join(map(gzip.compress, parts)) + bytes(zeros)
    assert unpacked(packed, _PACKED=read, _BLOCK=block) == b"".join(parts)


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=1, max_size=300), st.integers(1, 300), st.integers(2, 40))
def test_cut_or_damaged_data_is_refused(part, cut, read):
    packed = gzip.compress(part)
    with pytest.raises(EvidenceError, match="damaged or cut short"):
        unpacked(packed[: max(-cut, 2 - len(packed))], _PACKED=read)
    with pytest.raises(EvidenceError, match="damaged or cut short"):
        unpacked(packed[:-8] + bytes(byte ^ 1 for byte in packed[-8:]), _PACKED=read)


@pytest.mark.parametrize("content", [b"", b"a", b"\x1f", bytes(3 << 20)])
def test_other_files_are_what_they_are(tmp_path, content):
    path = tmp_path / "a"
    path.write_bytes(content)
    assert read_content(path) == content
    with path.open("rb") as file:
        assert b"".join(blocks(file, path)) == content


@pytest.mark.parametrize("members", [1, 64])
def test_what_unpacks_out_of_proportion_is_refused(members):
    packed = gzip.compress(bytes((1 << 24) // members)) * members
    assert sum(map(len, blocks(io.BytesIO(packed), "t"))) == 1 << 24
    with pytest.raises(EvidenceError, match="over 300 times"):
        list(blocks(io.BytesIO(packed), "t", allowed=1 << 20))


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(EvidenceError, match="No such file"):
        read_content(tmp_path / "none")
    with pytest.raises(EvidenceError, match="Is a directory"):
        read_content(Path(tmp_path))
