"""Time the calls that one shared library makes into another, if the callee prints nothing.

A library calls functions of other libraries through slots of its procedure linkage table. Writing the address of our own
function into a slot redirects exactly that library's calls; no other calls are affected, and no file is changed.
Sources: System V ABI, AMD64 supplement, chapter 5 (program loading and dynamic linking); elf(5).

Only for 64-bit x86 Linux with writable slots (no full RELRO). Elsewhere `Library.replace` returns False, and the caller says
what is not available. The caller must not hold the interpreter's lock while in the library, or calls from the library's other
threads would wait forever.
"""

import ctypes
import mmap
import os
import platform
import struct
import sys
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

_R_X86_64_JUMP_SLOT = 7
_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, align, entry size
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SHT_RELA, _SHT_DYNSYM = 4, 11


def mappings() -> List[Tuple[int, int, str, int, str]]:
    """Return [(start, end, permissions, offset, path)] of the process's memory that is mapped from files."""
    found = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(None, 5)
            if len(fields) == 6:
                start, end = (int(edge, 16) for edge in fields[0].split("-"))
                found.append((start, end, fields[1], int(fields[2], 16), fields[5].rstrip("\n")))
    return found


def loaded(fragment: str) -> Optional[str]:
    """Return the path of the loaded library whose file name starts with `fragment`, or None."""
    if not os.path.exists("/proc/self/maps"):
        return None
    paths = [path for _, _, _, _, path in mappings() if os.path.basename(path).startswith(fragment)]
    return paths[0] if paths else None


def call_slots(path: str) -> Dict[str, int]:
    """Return {symbol: offset of its slot from the library's base address} of an ELF file; empty for any other file."""
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            return _call_slots(data)
        finally:
            data.close()


def _call_slots(data: Any) -> Dict[str, int]:
    if data[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return {}
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [_SECTION.unpack_from(data, table + index * size) for index in range(count)]
    slots = {}
    for section in sections:
        if section[1] != _SHT_RELA or sections[section[6]][1] != _SHT_DYNSYM:
            continue
        symbols = sections[section[6]]
        strings = sections[symbols[6]][4]
        for offset, info, _ in _RELOCATION.iter_unpack(data[section[4] : section[4] + section[5]]):
            if info & 0xFFFFFFFF == _R_X86_64_JUMP_SLOT:
                name = strings + _SYMBOL.unpack_from(data, symbols[4] + (info >> 32) * _SYMBOL.size)[0]
                slots[data[name : data.find(b"\0", name)].decode("ascii", "replace")] = offset
    return slots


class Library(object):
    """A loaded library whose calls to another can be replaced. Keep a reference: it keeps the replacements alive."""

    def __init__(self, caller: str, callee: str) -> None:
        """Take the paths of two loaded libraries: the one whose calls are replaced, and the one with the real functions."""
        places = [place for place in mappings() if place[4] == caller]
        self.callee = ctypes.CDLL(callee)
        self._base = min(start for start, _, _, offset, _ in places if offset == 0)
        self._writable = [(start, end) for start, end, allowed, _, _ in places if "w" in allowed]
        self._slots = call_slots(caller) if supported() else {}
        self._kept: List[Any] = []
        self._before: Dict[Any, Any] = {}  # symbol -> the original address in its slot

    def replace(self, symbol: str, prototype: Any, make: Callable[..., Any]) -> bool:
        """Send the calls of `symbol` to make(original); return whether that was possible.

        prototype: a ctypes function type with the function's signature. make: takes the original as a callable and returns a
        callable of the same signature, which must not raise.
        """
        if symbol not in self._slots or not hasattr(self.callee, symbol):
            return False
        slot = self._base + self._slots[symbol]
        if not any(start <= slot and slot + 8 <= end for start, end in self._writable):
            return False
        original = prototype(ctypes.cast(getattr(self.callee, symbol), ctypes.c_void_p).value)
        replacement = prototype(make(original))
        self._kept.append(replacement)
        place = ctypes.c_void_p.from_address(slot)
        self._before.setdefault(symbol, place.value)
        place.value = ctypes.cast(replacement, ctypes.c_void_p).value
        return True

    def restore(self, symbols: Iterable[str]) -> None:
        """Restore the original targets of these symbols; replacements stay alive, as another thread may be inside one."""
        for symbol in symbols:
            if symbol in self._before:
                ctypes.c_void_p.from_address(self._base + self._slots[symbol]).value = self._before.pop(symbol)


def supported() -> bool:
    """Return whether calls can be replaced on this platform."""
    return sys.platform.startswith("linux") and platform.machine() == "x86_64" and ctypes.sizeof(ctypes.c_void_p) == 8
