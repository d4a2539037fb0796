"""Damage to captures: to the bytes of any file, to a gzip file's frame, to lines and cells of text, to folders.

A mutation takes a random.Random and content and returns other content; equal generators give equal results.
"""

from __future__ import annotations

import gzip
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import blocks
import jsons
import protobufs
import sqlites

Mutation = Callable[[Random, bytes], bytes]

NUMBERS = (
    b"-1", b"0", b"1e999", b"-1e999", b"nan", b"NaN", b"inf", b"-Infinity", b"9223372036854775807", b"9223372036854775808",
    b"18446744073709551616", b"-9223372036854775809", b"1" * 400, b"7" * 5000, b"0x10", b"1,5", b"1.2.3", b"--", b"-", b"",
    b"1e-400", b"\xd9\xa3", b" ", b'"', b"'", b"\x00", b"\xff\xfe", b"\x1b[31m", b"<script>", b"[N/A]", b"None", b"e", b".",
    b"99999999999999999999999999.999999999s", b"1ms", b"inf us",
)  # fmt: skip


def truncate(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def flip_bits(rng: Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20)) if out else 0):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def set_bytes(rng: Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 2, 4, 8)) if out else 0):
        out[rng.randrange(len(out))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(out)


def replace_run(rng: Random, data: bytes) -> bytes:
    start, length = rng.randrange(len(data) + 1), rng.choice((1, 4, 16, 100, 4096))
    filling = rng.choice((b"\x00" * length, b"\xff" * length, rng.randbytes(length), b" " * length, b"A" * length))
    return data[:start] + filling + data[start + length :]


def remove_run(rng: Random, data: bytes) -> bytes:
    start, length = rng.randrange(len(data) + 1), rng.choice((1, 2, 7, 64, 1000, 20000))
    return data[:start] + data[start + length :]


def repeat_run(rng: Random, data: bytes) -> bytes:
    start, length = rng.randrange(len(data) + 1), rng.choice((1, 8, 64, 1000, 20000))
    return data[: start + length] + data[start : start + length] * rng.choice((1, 2, 20)) + data[start + length :]


def move_run(rng: Random, data: bytes) -> bytes:
    start, length = rng.randrange(len(data) + 1), rng.choice((8, 64, 1000))
    run, rest = data[start : start + length], data[:start] + data[start + length :]
    place = rng.randrange(len(rest) + 1)
    return rest[:place] + run + rest[place:]


def insert_number(rng: Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + rng.choice(NUMBERS) + data[start:]


def reencode(rng: Random, data: bytes) -> bytes:
    if rng.random() < 0.5:
        return b"\xef\xbb\xbf" + data
    return data[: 1 << 20].decode("latin-1").encode(rng.choice(("utf-16", "utf-16-le", "utf-32")))


def twice(rng: Random, data: bytes) -> bytes:
    return data + rng.choice((b"", b"\n", b"\x00")) + data


ANY = (truncate, flip_bits, set_bytes, replace_run, remove_run, repeat_run, move_run, insert_number)


def _lines(rng: Random, data: bytes, change: Callable[[list[bytes], int], None]) -> bytes:
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 1, 3, 10))):
        if lines:
            change(lines, rng.randrange(len(lines)))
    return b"\n".join(lines)


def drop_lines(rng: Random, data: bytes) -> bytes:
    return _lines(rng, data, lambda lines, at: lines.__delitem__(at))


def repeat_lines(rng: Random, data: bytes) -> bytes:
    return _lines(rng, data, lambda lines, at: lines.insert(rng.randrange(len(lines)), lines[at]))


def cut_lines(rng: Random, data: bytes) -> bytes:
    def cut(lines: list[bytes], at: int) -> None:
        lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]

    return _lines(rng, data, cut)


def change_cells(rng: Random, data: bytes) -> bytes:
    """Drop, repeat, empty, swap or replace cells of lines, by the separator that the line seems to have."""

    def change(lines: list[bytes], at: int) -> None:
        separator = max((b",", b"\t", b" ", b"|", b"="), key=lines[at].count)
        cells = lines[at].split(separator)
        place = rng.randrange(len(cells))
        action = rng.randrange(5)
        if action == 0:
            del cells[place]
        elif action == 1:
            cells.insert(place, cells[rng.randrange(len(cells))])
        elif action == 2:
            cells[place] = b""
        else:
            cells[place] = rng.choice(NUMBERS)
        lines[at] = separator.join(cells)

    return _lines(rng, data, change)


def change_headings(rng: Random, data: bytes) -> bytes:
    """Change cells of the first lines, where the names of columns are."""
    head, newline, rest = data.partition(b"\n")
    more, newline_too, rest = rest.partition(b"\n")
    first = change_cells(rng, head + newline + more)
    return first + newline_too + rest


def change_numbers(rng: Random, data: bytes) -> bytes:
    """Replace one number, wherever it is, by a hostile one."""
    start = rng.randrange(len(data) + 1)
    while start < len(data) and not data[start : start + 1].isdigit():
        start += 1
    end = start
    while end < len(data) and data[end : end + 1].isdigit():
        end += 1
    return data[:start] + rng.choice(NUMBERS) + data[end:]


def long_line(rng: Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + rng.choice((b"x", b",", b'"', b" ", b"(", b"\x00", b"9")) * 1_000_000 + data[start:]


def line_ends(rng: Random, data: bytes) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\x0b", b"\xe2\x80\xa8")))


TEXT = (
    drop_lines, repeat_lines, cut_lines, change_cells, change_cells, change_headings, change_numbers, change_numbers, line_ends,
)  # fmt: skip


def compress(rng: Random, data: bytes) -> bytes:
    """Return the content as gzip whose frame may be damaged too."""
    packed = gzip.compress(data, 1, mtime=0)
    action = rng.randrange(8)
    if action == 0:
        return truncate(rng, packed)
    if action == 1:
        return flip_bits(rng, packed)
    if action == 2:
        return packed + rng.choice((b"\x00" * 10, b"junk", packed, gzip.compress(packed, 1, mtime=0)))
    if action == 3:
        return gzip.compress(packed, 1, mtime=0)
    if action == 4:
        return gzip.compress(zlib.compress(data), 1, mtime=0)
    return packed


BY_KIND: dict[str, tuple[Mutation, ...]] = {
    "json": (jsons.change_values, jsons.change_values, jsons.change_values, jsons.change_column, jsons.change_text),
    "protobuf": (protobufs.change_fields, protobufs.change_fields, protobufs.change_varints, protobufs.nest),
    "text": TEXT,
    "pickle": (set_bytes, flip_bits, insert_number),
    "blocks": (blocks.change_blocks, blocks.change_blocks, truncate),
    "other": ANY,
}


def mutate(rng: Random, kind: str, seed: Path, target: Path) -> list[str]:
    """Write a mutated copy of the seed (a file or folder) to target; return the names of what was done."""
    if rng.random() < 0.02:
        shutil.copytree(seed, target) if seed.is_dir() else shutil.copyfile(seed, target)
        return []
    if seed.is_dir():
        return _mutate_folder(rng, seed, target)
    content = seed.read_bytes()
    if kind == "sqlite":
        target.write_bytes(content)
        done = sqlites.change(rng, target) if rng.random() < 0.8 else []
        content = target.read_bytes()
        if not done or rng.random() < 0.15:
            content, more = _apply(rng, ANY, content)
            done += more
            target.write_bytes(content)
        return done
    own = BY_KIND[kind] if rng.random() < 0.75 else ANY
    content, done = _apply(rng, own, content)
    if rng.random() < 0.03:
        content, more = _apply(rng, (long_line, reencode, twice), content, 1)
        done += more
    if rng.random() < 0.15:
        content = compress(rng, content)
        done.append("compress")
    target.write_bytes(content)
    return done


def _apply(rng: Random, mutations: tuple[Mutation, ...], content: bytes, count: int = 0) -> tuple[bytes, list[str]]:
    done = []
    for _ in range(count or rng.choice((1, 1, 1, 2, 3))):
        mutation = rng.choice(mutations)
        content = mutation(rng, content)
        done.append(mutation.__name__)
    return content, done


def _mutate_folder(rng: Random, seed: Path, target: Path) -> list[str]:
    """Copy a folder with one or two of its files damaged, gone, renamed or swapped."""
    target.mkdir()
    names = sorted(entry.name for entry in seed.iterdir())
    contents = {name: (seed / name).read_bytes() for name in names}
    done = []
    for _ in range(rng.choice((1, 1, 2))):
        name, other = rng.choice(names), rng.choice(names)
        action = rng.randrange(6)
        if action == 0:
            contents.pop(name, None)
        elif action == 1:
            contents[name] = contents.get(other, b"")
        elif action == 2:
            contents[other] = b""
        else:
            contents[name], more = _apply(rng, ANY, contents.get(name, b""))
            done += more
        done.append(f"folder {action} {name}")
    for name, content in contents.items():
        (target / name).write_bytes(content)
    return done
