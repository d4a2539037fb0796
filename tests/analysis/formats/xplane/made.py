"""XSpace planes that are made up, and how they are read."""

from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.xplane import trace as xplane


def varint(value):
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def field(key, value):
    if isinstance(value, int):
        return varint(key << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(key << 3 | 2) + varint(len(value)) + value


class Names:
    """Numbers texts as a plane's metadata does."""

    def __init__(self):
        self.numbers = {}

    def __getitem__(self, text):
        return self.numbers.setdefault(text, len(self.numbers) + 1)

    def entries(self, key):
        return b"".join(field(key, field(1, n) + field(2, field(1, n) + field(2, text))) for text, n in self.numbers.items())


def plane(name, lines, stats=None):
    """Build a plane from {line: [(event, start in ns, duration in ns, {statistic: value})]}; a text "=x" is a string."""
    events, statistics = Names(), Names()

    def stat(text, value):
        if isinstance(value, int):
            return field(1, statistics[text]) + field(4, value)
        return field(1, statistics[text]) + (field(5, value[1:]) if value[:1] == "=" else field(7, statistics[value]))

    body = b""
    for identity, (line, found) in enumerate(lines.items()):
        rows = b"".join(
            field(4, field(1, events[text]) + field(2, start * 1000) + field(3, duration * 1000)
                  + b"".join(field(4, stat(*pair)) for pair in more.items()))
            for text, start, duration, more in found
        )  # fmt: skip
        body += field(3, field(1, 10 + identity) + field(2, line) + rows)
    own = b"".join(field(6, stat(*pair)) for pair in (stats or {}).items())
    return field(1, field(2, name) + body + events.entries(4) + statistics.entries(5) + own)


def read(tmp_path, *planes):
    path = tmp_path / "made.xplane.pb"
    path.write_bytes(b"".join(planes))
    assert xplane.matches(read_head(path))
    trace = xplane.read(path)
    trace.check()
    return trace
