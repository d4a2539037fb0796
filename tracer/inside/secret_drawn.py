"""Which values look random, as secrets do, and which are words, paths, placeholders or already overwritten."""

import math
import re
from collections import Counter

_PATH = re.compile(rb"(?:/|\./|\.\./|~|[A-Za-z]:[\\/]|file:|%(?![0-9A-Fa-f]{2})|\$|<|\{\{|\.\.\.|-)")
_TURNS = 0.45  # changes of case, or between letters and digits, per character: 0.6 for random values
_SCATTERED = 0.65  # changes per character plus rare letter pairs per pair: 1.15 for random values, 0.25 for names
_CAMEL = re.compile(rb"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
# the letters that follow each letter in nine of ten letter pairs, in names of programs
_FOLLOWING = dict(  # noqa: C408
    a="bcdgilmnprstuvxy", b="aeilosu", c="aehiklorstu", d="adeiostu", e="acdefgilmnpqrstvwx", f="aefilortu", g="aehilnrs",
    h="aeiot", i="abcdefglmnoprstvxz", k="ei", l="adefilostuy", m="abeimopsu", n="acdefginopstuv", o="abcdfglmnoprstuw",
    p="aehiloprstuy", q="u", r="acdegikmnorstuy", s="acehikopstuy", t="acefhioprstuy", u="abceilmnprst", v="aei", w="aeir",
    x="ept", y="mpst", z="e",
)  # fmt: skip
_COMMON = frozenset((first + second).encode() for first, others in _FOLLOWING.items() for second in others)
_BASE64, _FOLDER = re.compile(rb"/[A-Za-z0-9+/]{20,}={0,2}"), re.compile(rb"[a-z]{3,}")
_DONE = (b"redacted", b"not recorded")
_PLACEHOLDERS = frozenset(
    b"none null nil true false yes no on off undefined dummy redacted hidden secret password changeme change_me token test "
    b"example your_token your_api_key your-token unknown empty default n/a na str string bytes required optional"
    b" aws4-hmac-sha256".split()
)


def overwritten(value: bytes) -> bool:
    """Return whether a value is already overwritten."""
    return len(set(value.lower())) <= 1 or set(value) <= set(b"*xX.#-") or any(word in value.lower() for word in _DONE)


def harmless(value: bytes) -> bool:
    """Return whether a value is no secret, whatever its name: overwritten, a placeholder or a path."""
    return overwritten(value) or value.lower() in _PLACEHOLDERS or is_path(value)


def is_path(value: bytes) -> bool:
    """Return whether a value begins like a path, and is neither base64 nor random text that does so by chance."""
    if not _PATH.match(value) or not _BASE64.fullmatch(value):
        drawn = value[:1] in (b"-", b"~") and b"/" not in value and is_scattered(value[1:]) and not is_worded(value)
        return _PATH.match(value) is not None and not drawn
    parts = value.split(b"/")
    return not any(len(part) >= 12 and is_random(part) for part in parts) or any(_FOLDER.fullmatch(part) for part in parts)


def _named_as_kernels(value: bytes) -> bool:
    """Return whether a value has as many parts as a kernel's name, or is mangled like one."""
    return value.startswith(b"_Z") or value.count(b"_") > 2 + len(value) // 20


def entropy(value: bytes) -> float:
    """Return the bits of information per byte, by the value's own byte frequencies."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())


def is_random(value: bytes) -> bool:
    """Return whether a value looks random: letters and digits mixed, without the repetitions of words and numbers."""
    if not re.fullmatch(rb"[A-Za-z0-9+/=_.~!@#$%^*-]{8,}", value):
        return False
    digits, letters = len(re.findall(rb"[0-9]", value)), len(re.findall(rb"[A-Za-z]", value))
    changes = len(re.findall(rb"[0-9][A-Za-z]|[A-Za-z][0-9]", value))
    return digits >= 2 and letters >= 2 and changes >= 3 and entropy(value) >= (3.0 if len(value) >= 16 else 2.5)


def is_mixed(value: bytes) -> bool:
    """Return whether upper case, lower case and digits alternate as in random values, and as in no name."""
    if len(value) < 12 or not re.fullmatch(rb"[A-Za-z0-9+/=_~-]+", value):
        return False
    both = re.search(rb"[a-z]", value) and re.search(rb"[A-Z]", value)
    return both is not None and _turns(value) >= _TURNS * len(value)


def is_drawn(value: bytes) -> bool:
    """Return whether a value looks random by any test, and is neither joined words nor a kernel's name."""
    if is_worded(value) or _named_as_kernels(value):
        return False
    return is_random(value) or (is_scattered if len(value) >= 16 else is_mixed)(value)


def is_scattered(value: bytes) -> bool:
    """Return whether case, digits and letters follow each other unlike in words, and unlike in names that join words."""
    if len(value) < 16 or not re.fullmatch(rb"[A-Za-z0-9+/=_.~!@#$%^*-]+", value):
        return False
    pairs = [pair.lower() for pair in re.findall(rb"(?=([A-Za-z]{2}))", value)]
    rare = sum(pair not in _COMMON for pair in pairs)
    if len(pairs) < 4 or _turns(value) / len(value) + rare / len(pairs) < _SCATTERED:
        return False
    words = [word.lower() for word in _CAMEL.findall(value)]
    read = [word for word in words if all(word[place : place + 2] in _COMMON for place in range(len(word) - 1))]
    return 3 * sum(map(len, read)) < len(value)


def _turns(value: bytes) -> int:
    """Return how often the kind of character changes: lower case, upper case, anything else."""
    pattern = re.sub(rb"[^aA]", b"0", re.sub(rb"[A-Z]", b"A", re.sub(rb"[a-z]", b"a", value)))
    return sum(before != after for before, after in zip(pattern, pattern[1:]))


def is_worded(value: bytes) -> bool:
    """Return whether a value joins words and numbers, as names of kernels and models do."""
    words = re.findall(rb"(?:(?<=[_./-])|^)[a-z]{3,}(?=[_./-]|\Z)", value)
    return len(words) > 1 or any(len(word) > 5 for word in words)
