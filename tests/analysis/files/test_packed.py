"""Files are had in blocks, unpacked where they are gzip, zstd, xz or bzip2, however they were packed."""

import bz2
import gzip
import io
import lzma
import sqlite3
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import packed
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.files.magic import packing
from kernelscope.analysis.files.packed import blocks, pack, plain_file, read_content

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
    with pytest.raises(EvidenceError, match="over 150 times"):
        list(blocks(io.BytesIO(packed), "t", allowed=1 << 20))


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(EvidenceError, match="No such file"):
        read_content(tmp_path / "none")
    with pytest.raises(EvidenceError, match="Is a directory"):
        read_content(Path(tmp_path))


def packed_as(kind, content):
    if kind == "zstd":
        target = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(target, "zstd") as out:
            out.write(content)
        return target.getvalue().to_pybytes()
    return {"gzip": gzip, "xz": lzma, "bzip2": bz2}[kind].compress(content)


KINDS = ["gzip", "zstd", "xz", "bzip2"]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(parts=PARTS, read=st.integers(16, 40))
def test_members_of_all_kinds(kind, parts, read):
    content = b"".join(packed_as(kind, part) for part in parts)
    assert packing(content) == kind
    assert unpacked(content, _PACKED=read, _BLOCK=7) == b"".join(parts)


@pytest.mark.parametrize("kind", KINDS)
def test_cut_damaged_and_huge_content_of_all_kinds_is_refused(kind):
    plain = bytes(range(256)) * 4000
    content = packed_as(kind, plain)
    for bad in (content[:-9], content[: len(content) // 2], content[:-40] + bytes(40)):
        with pytest.raises(EvidenceError, match="damaged or cut short") as error:
            unpacked(bad)
        assert "\n" not in str(error.value)
    bomb = packed_as(kind, bytes(1 << 26))
    with pytest.raises(EvidenceError, match="over 150 times"):
        list(blocks(io.BytesIO(bomb), "t", allowed=1 << 20))
    with pytest.raises(EvidenceError, match="over 150 times"):
        list(blocks(io.BytesIO(bomb + packed_as(kind, b"x" * 100)), "t", allowed=1 << 20))


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_database_is_read_from_a_copy_that_is_deleted(tmp_path, kind):
    database = tmp_path / "a.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE things (name TEXT)")
        connection.execute("INSERT INTO things VALUES ('one')")
    connection.close()
    path = tmp_path / f"a.sqlite.{kind}"
    path.write_bytes(packed_as(kind, database.read_bytes()))
    head = read_head(path)
    assert (head.container, head.tables, head.compressed) == ("database", {"things"}, True)
    with plain_file(path) as plain:
        assert plain != path
        assert plain.read_bytes() == database.read_bytes()
    assert not plain.exists()
    with plain_file(database) as plain:
        assert plain == database
    with pytest.raises(EvidenceError, match=rf"^{path}: odd$"), plain_file(path) as plain:
        raise EvidenceError(f"{plain}: odd")


@pytest.mark.parametrize("kind", KINDS)
def test_content_is_packed_again_as_it_was(kind):
    target = io.BytesIO()
    pack(io.BytesIO(b"content" * 1000), target, kind)
    assert packing(target.getvalue()) == kind
    assert unpacked(target.getvalue()) == b"content" * 1000
