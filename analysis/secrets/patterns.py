"""What looks like a secret in bytes: tokens recognised by their shape, and values of variables whose name says so.

Shapes are those that the services document or that their tokens begin with (GitHub, Hugging Face, AWS, ...). Names are those of
environment variables, options and keys: HF_TOKEN=..., "password": "...", --api-key ... A value counts only if it is not
overwritten already, no path, no placeholder and, where the name alone says little (token=, cache_key), only if it looks random.
Everything here is a heuristic: it can miss secrets, and it can find what is none.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope.tracer.inside.secret_shapes import SHAPES

CHUNK = 1 << 13
LONGEST = 1 << 14  # no secret that is looked for is longer: private keys
_LONGEST_VALUE = 4096
_FEW = 1 << 20  # bytes of values that are searched before the library with RE2 is imported


class Span(NamedTuple):
    """Bytes start to end (exclusive) of a text look like a secret."""

    start: int
    end: int
    what: str


_PRIVATE_KEY = r"-----BEGIN [A-Z ]{0,24}PRIVATE KEY(?: BLOCK)?-----"

# The end of a name that says its value is secret. Weak words say so only where the value looks random.
_LOGIN = r"PASSW(?:OR)?D|PASSPHRASE|[_-]PWD|[_-]PASS|SSHPASS"  # of a password
_STRONG = rf"TOKEN|SECRET|{_LOGIN}|CREDENTIALS?|(?:API|ACCESS|SECRET|PRIVATE|AUTH|ACCOUNT)[_-]?KEY"
_WEAK = r"TOKENS|SECRETS|API[_-]?KEYS|[_-]KEY|COOKIE|SNAP_CONTEXT|[_-]AUTH"
_WORD = rf"(?i:{_STRONG}|{_WEAK})(?:_[0-9]{{1,2}}|_(?i:B64|BASE64))?"
_QUOTE = r"(?:\"\"|\\?[\"'])"  # a pair of quotes in a CSV's cell stands for one
_PAIR = rf"(?:\s{{0,3}},\s{{0,40}}{_QUOTE}(?i:value){_QUOTE})?"  # {"name": "HF_TOKEN", "value": "..."}
_ASSIGNED = rf"{_QUOTE}?{_PAIR}(?:=|[ \t]{{1,8}}=>?[ \t]{{0,8}}|[ \t]{{0,8}}:[ \t]{{0,8}})"  # A= B=1: A has no value
_OPTION = rf"(?:[ \t]{{1,8}}|\x00|{_QUOTE}?,\s{{0,40}})"  # --token abc, and lists of arguments
_PLAIN = r"[^\s\"'\\,;&<>(){}\[\]\x00-\x20\x7f]"

# What the patterns of shapes alone find: most of what looks suspicious does by a name, and need not be searched for each shape
_SHAPED = "|".join((*(shape.replace("?P<v>", "") for _, shape in SHAPES), _PRIVATE_KEY))

# RE2 runs over everything; what it points at is looked at again, with the exact patterns below. It runs over everything twice:
# of both patterns as one its automaton outgrows its memory, and it is 70 times as slow.
_NAMED = rf"{_WORD}{_ASSIGNED}{_QUOTE}?{_PLAIN}"
_GIVEN = rf"--[A-Za-z0-9_-]{{0,40}}{_WORD}{_OPTION}{_QUOTE}?{_PLAIN}"
_SCREEN = (_SHAPED, f"{_NAMED}|{_GIVEN}")

_SHAPES = [(what, shape.startswith("[?&]"), re.compile(shape.encode())) for what, shape in SHAPES]
# right before a token stands no letter, unless it ends an escape in JSON (\n, \u0000) or a terminal's colour (ESC[31m); behind a
# letter (k_ghp_...) only what begins unlike any word and is random counts
_GLUED = re.compile(rb"[A-Za-z0-9_]\Z")
_ESCAPE = re.compile(rb"\\(?:[bfnrt]|u[0-9a-fA-F]{4})\Z|(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)\[[0-9;]{0,16}m\Z")
_UNLIKE_WORDS = re.compile(
    rb"(?:gh[pousr]|github_pat|hf|api_org|npm|dckr_pat|r8|gsk|glsa|glc|sntry[su]|[sr]k_(?:live|test)|do[por]_v1|fo1|pscale_tkn|sbp|"
    rb"lsv2_pt|pcsk|tgp_v1|lin_api|figd|bkua|rubygems|sgp|whsec)_|(?:glpat|nvapi|pypi|xox[abeoprs]|xapp|shp(?:at|ca|pa|ss))[-_]|"
    rb"AIza|GOCSPX-|CCIPAT_|PMAK-|HRKU-|eyJ"
)
_PRIVATE_KEY_BEGINS = re.compile(_PRIVATE_KEY.encode())
_KEY_BLOCK = re.compile(_PRIVATE_KEY.encode() + rb"[^\"'<>\x00]{0,%d}?(?:-----END [A-Z ]{0,32}-----|\Z)" % (LONGEST - 200))
_OPENING = rb"(?:\"\"(?![\s,;:)}\]\"])|\\?[\"'])"  # a pair of quotes with nothing in it is a value that is empty
_QUOTED = rb"(?P<q>%s)(?P<quoted>(?:(?!(?P=q))(?:\\.|[^\r\n\x00])){1,4096})" % _OPENING
_VALUE = rb"(?:%s|(?P<plain>%s{1,4096}))" % (_QUOTED, _PLAIN.encode())
# in a text in lower case: looking for letters of either case takes twice as long
_WORD_IN_LOWER_CASE = _WORD.lower().replace("(?i:", "(?:")
_ASSIGNMENT = re.compile(rb"(?P<word>%s)%s%s" % (_WORD_IN_LOWER_CASE.encode(), _ASSIGNED.encode(), _VALUE))
_NAMED_IN_LOWER_CASE, _GIVEN_IN_BYTES = (
    re.compile(_NAMED.replace(_WORD, _WORD_IN_LOWER_CASE).encode()),
    re.compile(_GIVEN.encode()),
)
_ARGUMENT = re.compile(rb"--(?P<word>[A-Za-z0-9_-]{0,40}?%s)%s%s" % (_WORD.encode(), _OPTION.encode(), _VALUE))
_VARIABLE = re.compile(rb"(?:^|(?<=[\x00;]))([A-Za-z_][A-Za-z0-9_]{0,63})=")
_OPTION_BEGINS = re.compile(rb"(?:^|[\s\x00\"'])--?[A-Za-z0-9_-]{0,40}\Z")
_REST_OF_WORD = re.compile(rb"[^\s\x00\"'\\]{1,64}(?=[\r\n]|\Z)")
_LINE_BEGINS = re.compile(rb"(?:^|\n|\r|\\n|\x00|\")[ \t]{0,16}[A-Za-z0-9_.-]{0,40}\Z")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_BEFORE = re.compile(rb"[A-Za-z0-9_.-]{0,64}\Z")
_NAME = re.compile(rb"[A-Za-z0-9_.-]{0,64}?%s\Z" % _WORD.encode())
_STRONG_NAME = re.compile(rb"(?i:%s)(?:_[0-9]{1,2}|_B64|_BASE64)?\Z" % _STRONG.encode())
_PASSWORD_NAME = re.compile(rb"(?i:%s)(?:_[0-9]{1,2})?\Z" % _LOGIN.encode())
# tokens of language models and keys of tables and caches are no secrets
_OTHER_NAME = re.compile(
    rb"(?i:(?:^|[_.-])(?:eos|bos|pad|unk|mask|sep|cls|image|video|audio|vision|special|next|prev|max|min|num|per|new|stop|start|end|begin|"
    rb"input|output|prompt|total|n|current|last|first|boi|eoi|fim|draft)[_-]?tokens?"
    rb"|(?:public|cache|hash|kernel|graph|compile|code|sort|dispatch|autotune|primary|foreign|partition|hot|host|dict|group)[_-]?key)\Z"
)
_PATH = re.compile(rb"(?:/|\./|\.\./|~|[A-Za-z]:[\\/]|file:|%|\$|<|\{\{|\.\.\.|-)")
_PLACEHOLDERS = frozenset(
    b"none null nil true false yes no on off undefined dummy redacted hidden secret password changeme change_me token test "
    b"example your_token your_api_key your-token unknown empty default n/a na str string bytes required optional".split()
)


def kinds() -> int:
    """Return how many kinds of secrets are looked for: shapes, private keys, named values and named arguments."""
    return len(SHAPES) + 3


def suspicious(data: bytes | memoryview, patterns: Sequence[str] = _SCREEN) -> list[tuple[int, int]]:
    """Return the stretches of data, CHUNK bytes and what follows, in which `spans` may find something; merged, in order.

    patterns: what to look for instead, in RE2's syntax; what they match may have up to 256 bytes.
    """
    count = -(-len(data) // CHUNK)
    offsets = np.minimum(np.arange(count + 1, dtype=np.int64) * CHUNK, len(data))
    edges = b"".join(data[edge - 256 : edge + 256] for edge in range(CHUNK, len(data), CHUNK))
    result = set(_matching(data, offsets, patterns))
    lengths = [min(512, len(data) - edge + 256) for edge in range(CHUNK, len(data), CHUNK)]
    result.update(_matching(edges, np.cumsum([0, *lengths], dtype=np.int64), patterns))
    stretches: list[tuple[int, int]] = []
    for chunk in sorted(result):
        start, after = max(0, chunk * CHUNK - 512), (chunk + 1) * CHUNK
        end = min(len(data), after + (LONGEST if b"PRIVATE KEY" in bytes(data[start:after]) else _LONGEST_VALUE + 512))
        if stretches and start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], end)
        else:
            stretches.append((start, end))
    return stretches


def _matching(data: bytes | memoryview, offsets: npt.NDArray[np.int64], patterns: Sequence[str]) -> list[int]:
    """Return which pieces of the data, between offsets, hold what any of the patterns matches."""
    if len(offsets) < 2:
        return []
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)]
    pieces = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    matched = np.zeros(len(pieces), dtype=bool)
    for pattern in patterns:
        matched |= pc.match_substring_regex(pieces, pattern).to_numpy(zero_copy_only=False)
    return np.flatnonzero(matched).tolist()


def suspicious_values(values: list[bytes], patterns: Sequence[str] = _SCREEN) -> list[int]:
    """Return the places of the values in which `spans` may find something, or which hold what the patterns match."""
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
    return _matching(b"".join(values), offsets, patterns)


def spans_of(values: list[bytes], thorough: bool = False) -> dict[int, list[Span]]:
    """Return what `spans` finds in each of the values in which it may find something, by their places."""
    if sum(map(len, values)) <= _FEW:
        suspicious, shaped = _suspicious_of_few(values)
    else:
        suspicious = suspicious_values(values)
        shaped = {suspicious[place] for place in suspicious_values([values[place] for place in suspicious], [_SHAPED])}
    return {place: _spans(values[place], thorough, place in shaped) for place in suspicious}


def _suspicious_of_few(values: list[bytes]) -> tuple[list[int], set[int]]:
    """Return the places of values in which `spans` may find something, and of those among them that _SHAPED matches."""
    joined = b"\n".join(values)  # what matches in none of them, most often, is asked once
    patterns = [pattern for pattern in (_PRIVATE_KEY_BEGINS, *(shape for _, _, shape in _SHAPES)) if pattern.search(joined)]
    shaped = {place for place, value in enumerate(values) if any(pattern.search(value) for pattern in patterns)}
    given = _GIVEN_IN_BYTES if _GIVEN_IN_BYTES.search(joined) else None
    named = {
        place
        for place, value in enumerate(values)
        if _NAMED_IN_LOWER_CASE.search(value.lower()) or (given and given.search(value))
    }
    return sorted(shaped | named), shaped


def spans(text: bytes, thorough: bool = False) -> list[Span]:
    """Return what looks like a secret, in order, without overlaps.

    thorough: also values that look harmless, short or like placeholders where an environment variable's name (in capitals) says
    that they are secret: what is overwritten may be too much, never too little.
    """
    return _spans(text, thorough, True)


def _spans(text: bytes, thorough: bool, shaped: bool) -> list[Span]:
    """Return as `spans` does. shaped: whether _SHAPED matches somewhere."""
    result = [*(_shapes(text) if shaped else ()), *_assignments(text, thorough), *_environment(text, thorough)]
    merged: list[Span] = []
    for span in sorted(result, key=lambda span: (span.start, -span.end)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            what = span.what if last.what.startswith("value of") else last.what  # a shape says more than a name
            merged[-1] = Span(last.start, max(last.end, span.end), what)
        else:
            merged.append(span)
    return merged


def _shapes(text: bytes) -> Iterator[Span]:
    for match in _KEY_BLOCK.finditer(text):
        if len(set(match[0])) > 40:
            yield Span(match.start(), match.end(), "private key")
    for what, anywhere, pattern in _SHAPES:
        for match in pattern.finditer(text):
            start, end = match.span("v" if "v" in pattern.groupindex else 0)
            if (anywhere or _may_begin(text, match.start(), match[0])) and _shape_counts(what, text[start:end]):
                yield Span(start, end, what)


def _may_begin(text: bytes, start: int, token: bytes) -> bool:
    """Return whether a token may begin there: what only goes on from a word before is part of the word."""
    before = text[max(0, start - 24) : start]
    if not _GLUED.search(before) or _ESCAPE.search(before):
        return True
    of_aws = token.startswith((b"AKIA", b"ASIA")) and re.search(rb"[2-7]", token) is not None and entropy(token) > 3
    return of_aws or (_UNLIKE_WORDS.match(token) is not None and _random(token))


def _shape_counts(what: str, value: bytes) -> bool:
    if what == "password in a URL":
        return not _harmless(value)
    if max(Counter(value).values()) > len(value) // 2 or _harmless(value):
        return False  # overwritten behind its beginning
    # words joined by hyphens are no key: sk-learn-contrib-estimators
    return not what.startswith("OpenAI") or (len(re.findall(rb"[0-9]", value)) >= 3 and entropy(value) > 3.2)


def _assignments(text: bytes, thorough: bool) -> Iterator[Span]:
    for pattern, searched in ((_ASSIGNMENT, text.lower()), (_ARGUMENT, text)):
        for match in pattern.finditer(searched):
            name = _whole_name(text, match)
            group = "quoted" if match["quoted"] is not None else "plain"
            start, end = match.span(group)
            if group == "plain":
                end = _end_of_line(text, match.start("word"), end)
            loose = group == "quoted" or pattern is _ARGUMENT or _stands_alone(text, match.start("word"), end)
            if value_counts(name, text[start:end], loose, thorough):
                yield Span(start, end, f"value of {name.decode('ascii')}")


def _stands_alone(text: bytes, start: int, end: int) -> bool:
    """Return whether it is clear where an unquoted value ends: of an option (--password=...), of a pair among others that
    semicolons part (Password=...;), or of a line of its own (password: ...)."""
    before, after = text[max(0, start - 66) : start], text[end : end + 1]
    own_line = _LINE_BEGINS.search(before) is not None and after in (b"", b"\n", b"\r", b"\\", b'"')
    return _OPTION_BEGINS.search(before) is not None or after == b";" or own_line


def _end_of_line(text: bytes, start: int, end: int) -> int:
    """Return where an unquoted value ends: at the end of a line that holds nothing else, else where its plain characters do."""
    rest = _REST_OF_WORD.match(text, end)
    alone = _LINE_BEGINS.search(text[max(0, start - 66) : start]) is not None
    return rest.end() if alone and rest is not None else end


def _whole_name(text: bytes, match: re.Match[bytes]) -> bytes:
    """Return the whole name of which the end matched, without a JSON escape (\\n, \\u0000) that stands before it."""
    before = _BEFORE.search(text, max(0, match.start("word") - 64), match.start("word"))
    start = before.start() if before else match.start("word")
    name = text[start : match.end("word")]
    if start and text[start - 1 : start] == b"\\":
        name = name[5:] if re.match(rb"u[0-9a-fA-F]{4}", name) else name[1:]
    return name.lstrip(b"-.")


def _environment(text: bytes, thorough: bool) -> Iterator[Span]:
    """Find variables of an environment as profilers keep it, joined by zero bytes or semicolons: values hold anything else."""
    variables = list(_VARIABLE.finditer(text))
    if len(variables) < 3:
        return
    for variable, following in zip(variables, [*variables[1:], None], strict=True):
        if not secret_name(variable[1]):
            continue
        end = following.start() - 1 if following else len(text)
        control = _CONTROL.search(text, variable.end(), end)  # what is joined ends with a zero byte, or something binary follows
        end = control.start() if control else end
        if end - variable.end() <= LONGEST and value_counts(variable[1], text[variable.end() : end], True, thorough):
            yield Span(variable.end(), end, f"value of {variable[1].decode('ascii')}")


@lru_cache(maxsize=4096)  # environments are recorded for each process, with the same variables
def secret_name(name: bytes) -> bool:
    """Return whether a name says that its value is secret."""
    return _NAME.match(name) is not None


def secret_option(argument: bytes) -> bool:
    """Return whether a command line's argument says that the next one is secret: --token."""
    return argument.startswith(b"-") and secret_name(argument.lstrip(b"-"))


def value_counts(name: bytes, value: bytes, loose: bool, thorough: bool = False) -> bool:
    """Return whether the value of such a name looks secret. loose: it is clear where it begins and ends (quotes, an option)."""
    value = value.strip(b"\"'")
    in_capitals = name.upper() == name and name.lower() != name
    if _OTHER_NAME.search(name):
        return len(value) >= 20 and not _OTHER_NAME.search(name)[0].lower().endswith(b"key") and _random(value)  # type: ignore[index]
    if _overwritten(value) or _PATH.match(value):
        return False
    if thorough and in_capitals:
        return value.lower() not in (b"true", b"false", b"none", b"null", b"0", b"1")
    if _harmless(value):
        return False
    if not _STRONG_NAME.search(name):
        return len(value) >= 16 and _random(value)
    if _PASSWORD_NAME.search(name) and (in_capitals or loose):
        return len(value) >= 4
    if in_capitals and len(value) >= 8 and b" " not in value:
        return not value.isdigit() or len(value) >= 12
    return len(value) >= (8 if thorough and loose else 16) and _random(value)


def _overwritten(value: bytes) -> bool:
    return len(set(value.lower())) <= 1 or set(value) <= set(b"*xX.#-") or b"redacted" in value.lower()


def _harmless(value: bytes) -> bool:
    return _overwritten(value) or value.lower() in _PLACEHOLDERS or _PATH.match(value) is not None


def entropy(value: bytes) -> float:
    """Return the bits that a byte carries, by the value's own frequencies of bytes."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())


def _random(value: bytes) -> bool:
    """Return whether a value looks drawn at random: letters and digits mixed, without the repetitions of words and numbers."""
    if not re.fullmatch(rb"[A-Za-z0-9+/=_.~!@#$%^*-]{8,}", value):
        return False
    digits, letters = len(re.findall(rb"[0-9]", value)), len(re.findall(rb"[A-Za-z]", value))
    changes = len(re.findall(rb"[0-9][A-Za-z]|[A-Za-z][0-9]", value))
    return digits >= 2 and letters >= 2 and changes >= 3 and entropy(value) >= (3.0 if len(value) >= 16 else 2.5)


def telling(value: bytes) -> bool:
    """Return whether a secret is so unlike anything else that it is the same secret wherever it occurs."""
    return len(value) >= 12 and len(set(value)) >= 6 and _random(value)


def shown(name: str, most: int = 60) -> str:
    """Return a name out of a capture as it may stand in a message: printable and not long."""
    text = name if name.isprintable() else name.encode("unicode_escape").decode("ascii")
    return text if len(text) <= most else text[: most - 1] + "…"
