"""What XSpace files hold, read by a small protobuf walker that shares nothing with the reader."""

import functools
import struct
from collections import defaultdict


def number(content, at):
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def walk(content):
    """Return the fields of a message: number -> values in order."""
    fields, at = defaultdict(list), 0
    while at < len(content):
        key, at = number(content, at)
        if key & 7 == 0:
            value, at = number(content, at)
            value -= (value >> 63) << 64
        elif key & 7 == 2:
            length, at = number(content, at)
            value, at = content[at : at + length], at + length
        else:
            size = {1: 8, 5: 4}[key & 7]
            value, at = content[at : at + size], at + size
        fields[key >> 3].append(value)
    return fields


def first(values, default=0):
    return values[0] if values else default


def names_of(entries):
    found = {}
    for entry in map(walk, entries):
        found[first(entry[1])] = walk(first(entry[2], b""))
    return found


def stats_of(stats, names):
    found = {}
    for stat in map(walk, stats):
        name = first(names[first(stat[1])][2]).decode()
        if stat[2]:
            found[name] = struct.unpack("<d", stat[2][0])[0]
        elif stat[7]:
            found[name] = first(names[stat[7][0]][2]).decode()
        elif stat[5]:
            found[name] = stat[5][0].decode()
        else:
            found[name] = first(stat[3] or stat[4])
    return found


@functools.cache
def planes_of(path):
    """Return (plane's name, its statistics, [(line's name, line's number, [event])]); times in ns since the epoch."""
    planes = [walk(plane) for plane in walk(path.read_bytes())[1]]
    found = []
    for plane in planes:
        known, stat_names = names_of(plane[4]), names_of(plane[5])
        lines = []
        for line in map(walk, plane[3]):
            events = []
            for event in map(walk, line[4]):
                meta = known.get(first(event[1]), defaultdict(list))
                stats = {**stats_of(meta[5], stat_names), **stats_of(event[4], stat_names)}
                start = first(line[3]) + (first(event[2]) + 500) // 1000
                shown = first(meta[4], b"").decode() or None
                events.append((first(meta[2], b"").decode(), shown, start, (first(event[3]) + 500) // 1000, stats))
            lines.append((first(line[2], b"").decode(), first(line[1]), events))
        found.append((first(plane[2], b"").decode(), stats_of(plane[6], stat_names), lines))
    began = next(stats["profile_start_time"] for _, stats, _ in found if "profile_start_time" in stats)
    return began, found
