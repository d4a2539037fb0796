"""Find what looks like a secret in bytes: tokens by their shape, and values by their names.

Shapes are those that services document, or the beginnings of their tokens (GitHub, Hugging Face, AWS, ...). Names are those of
environment variables, options and keys: HF_TOKEN=..., "password": "...", --api-key ... A value counts only if it is not already
overwritten, a path or a placeholder and, if the name alone says little (token=, cache_key), only if it looks random. Everything
here is a heuristic: it can miss secrets, and it can report what is none.
"""

import re
from collections import Counter
from functools import lru_cache
from typing import Iterable, Iterator, List, Match, NamedTuple, Optional, Set, Tuple

from kernelscope.tracer.inside.secret_drawn import (
    entropy,
    harmless,
    is_drawn,
    is_mixed,
    is_path,
    is_random,
    is_scattered,
    is_worded,
    overwritten,
)
from kernelscope.tracer.inside.secret_names import (
    HASH_NAME,
    NAME,
    NUMBER,
    OTHER_NAME,
    PASSWORD_NAME,
    STRONG_NAME,
    SURE_NAME,
    SURE_WORD,
    UNSURE,
    UNSURE_NAME,
    WORD,
    maybe_a_pass,
)
from kernelscope.tracer.inside.secret_shapes import SHAPES

LONGEST = 1 << 14  # bytes of the longest secrets to find, private keys


class Span(NamedTuple):
    """Bytes start to end (exclusive) of a text look like a secret."""

    start: int
    end: int
    what: str


_IN_URL = "password in a URL"  # whatever precedes the URL
_MUST_BE_RANDOM = ("token of crates.io or Modal", "bearer token")  # words also begin like these
_OF_DJANGO = "key of Django"
_OTHER_LANGUAGE = "password in another language"  # its value must have a letter and a digit
_HASHED, _BRACED, _OF_AWS, _OF_POSTGRES = "hash of a password", "password of ODBC", "AWS access key", "password of PostgreSQL"
KEY_BLOCK = "private key"  # the name of a whole block
PRIVATE_KEY = r"-----BEGIN [A-Z ]{0,24}PRIVATE KEY(?: BLOCK)?-----"

_ENTITY = "&(?:quot|apos|#34|#39|#x22|#x27);"  # a quote in XML and HTML
QUOTE = rf"(?:\\{{0,7}}\"{{2,3}}|\\?[\"']|{_ENTITY})"  # a doubled quote in a CSV's cell stands for one, also in JSON in JSON
_PAIR = rf"(?:\s{{0,3}},\s{{0,40}}{QUOTE}(?i:value){QUOTE})?"  # {"name": "HF_TOKEN", "value": "..."}
_BLOCK = r"(?:[|>][0-9+-]{0,2}[ \t]{0,8}\r?\n[ \t]{1,16}|[!&][A-Za-z!]{1,20} )?"  # of YAML: the value is on the next line; !vault
_TYPE = (  # password: str = "..."
    r"[ \t]{0,2}:[ \t]{0,2}(?i:(?:&(?:'static )?)?str(?:ing)?|bytes|Optional\[str\]|str[ \t]?\|[ \t]?None)[ \t]{0,2}=[ \t]{0,8}"
)
_ASSIGNED = (  # A= B=1: A has no value; <add key="A" value="...">; <A>...</A>
    rf"(?:{QUOTE}?\]?{_PAIR}"
    rf"(?:=|%3[Dd]|[ \t]{{1,8}}=>?[ \t]{{0,8}}|[ \t]{{0,8}}[:?]=[ \t]{{0,8}}|{_TYPE}|[ \t]{{0,8}}:[ \t]{{0,8}}{_BLOCK})"
    rf"|{QUOTE}?(?:>|&gt;|\r?\n {{0,20}}value: {{1,4}})|{QUOTE}\s{{1,8}}(?i:value)=)"
)
_SET = r"(?:--|(?:#define|(?i:setenv|setx?|env|arg))[ \t]{1,8})"  # what precedes a name whose value follows a space
_OPTION = rf"(?:[ \t]{{1,8}}|\x00|{QUOTE}?,\s{{0,40}})"  # --token abc, and lists of arguments
# What may stand between a name and a value that counts only if it is long and random: ("api_key", "..."), == "...",
# += "...", = ("..."), = SecretStr("..."), os.getenv("API_KEY") or "...", API key is ..., API_KEY "..." of C and CMake,
# columns of tables, the line below NAME=
_CALLED = r"(?:[A-Za-z_][A-Za-z0-9_.]{0,40}(?:\(|[ \t](?:or|\|\||\?\?)[ \t])|[(\[])\s{0,20}"
_LOOSELY = (
    rf"(?:{QUOTE}?[\])]{{0,2}}[ \t]{{0,4}}(?:(?:[,;]|[=!]==?|\+=|or[ \t]|\|\|=?|\?\?=?)\s{{0,20}}[bruf]{{0,2}}"
    rf"|(?:=>?|:=?)[ \t]{{0,4}}{_CALLED}[bruf]{{0,2}}){QUOTE}|[ \t]is:?[ \t]{QUOTE}?"
    rf"|(?:[ \t]{{1,8}}|[{{(]){QUOTE}|->|[,;|]|(?:\t|\\t){{1,4}}| {{2,20}}| {{0,20}}[|] {{1,20}}|= ?(?:\r?\n|\\n) {{0,8}})"
)
_LOOSE_VALUE, _LEAST_LOOSE = "[A-Za-z0-9+/_.~!@#$%^*-]", 20
_PLAIN = r"[^\s\"'\\,;&<>(){}\[\]\x00-\x20\x7f]"
_LEAST = 12  # characters of a value whose name says little
# beginnings of a value after a name, and after an option; for re and RE2
NAMED = (
    rf"{SURE_WORD}(?:{_ASSIGNED}{QUOTE}?{_PLAIN}|{_LOOSELY}{_LOOSE_VALUE}{{{_LEAST}}})"
    rf"|(?i:{UNSURE}){NUMBER}{_ASSIGNED}(?:[bruf]{{0,2}}{QUOTE})?[A-Za-z0-9+/=_.~!@#$%^*-]{{{_LEAST}}}"
)
GIVEN = rf"{_SET}[A-Za-z0-9_-]{{0,40}}{WORD}{_OPTION}{QUOTE}?{_PLAIN}"

# A word may begin right after a control character in JSON, \n or \t
_BEGINS = r"(?:\b|(?<=\\[bfnrt]))"
_SHAPES = [(what, shape.startswith("[?&]"), re.compile(shape.replace(r"\b", _BEGINS).encode())) for what, shape in SHAPES]
# No letter may directly precede a token, unless it ends such a character. After a letter (k_ghp_...), a token counts only if it
# begins unlike any word and is random.
_GLUED = re.compile(rb"[A-Za-z0-9_]\Z")
_ESCAPE = re.compile(rb"(?:\\[bfnrt]|%[0-9A-Fa-f]{2})\Z")  # characters as JSON and URLs escape them
# read as spaces: a terminal's colours (ESC[31m), and characters that JSON writes as numbers
_UNREAD = re.compile(rb"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)\[[0-9;]{0,16}m|\\u[0-9a-fA-F]{4}")
_UNLIKE_WORDS = re.compile(
    rb"(?:gh[pousr]|github_pat|hf|api_org|npm|dckr_pat|r8|gsk|glsa|glc|sntry[su]|[sr]k_(?:live|test)|do[por]_v1|fo1|pscale_tkn|sbp|"
    rb"lsv2_pt|pcsk|tgp_v1|wandb_v1|sb_secret|rpa|vcp|fm2|lin_api|figd|bkua|rubygems|sgp|whsec)_|(?:glpat|nvapi|pypi|xox[abeoprs]|xapp|shp(?:at|ca|pa|ss))[-_]|"
    rb"AIza|GOCSPX-|CCIPAT_|PMAK-|HRKU-|eyJ"
)
# without these bytes in a text, each beginning of the shape would start a long search in vain
_NEEDED = {
    "JSON web token": b".eyJ",
    "password of Oracle": b"jdbc:oracle:",
    "token of kubeadm": b"kubeadm",
    "key of one-time passwords": b"otpauth://",
    _HASHED: b"$",
    _BRACED: b"={",
}
_PRIVATE_KEY_BEGINS = re.compile(PRIVATE_KEY.encode())
_KEY_BLOCK = re.compile(
    PRIVATE_KEY.encode() + rb"[^\"'<>\x00]{0,%d}?(?:-----END [A-Z ]{0,32}-----|\Z|(?=[\"'<>\x00]|-----BEGIN ))" % (LONGEST - 200)
)
# How a key goes on if its lines are separate strings: a list of lines in JSON, strings that Python joins
_NEXT_TEXT = rb"(?:\\{1,7}[nr]|\\{0,7}[\"']|[,\s]|b(?=\\{0,7}[\"'])){2,80}"
_KEY_GOES_ON = re.compile(
    rb"%s(?P<v>[A-Za-z0-9+/=]{16,}|[A-Za-z-]{3,20}: [^\"'\\]{1,100}|-----END [A-Z ]{0,32}-----"
    rb"|[A-Za-z0-9+/=]{1,15}(?=%s-----END ))" % (_NEXT_TEXT, _NEXT_TEXT)
)
# A pair of quotes with nothing between them is an empty value. What begins with an escaped or a single quote ends where a
# string of JSON does, at a double one.
_OPENING = rb"(?:\"{2,3}(?![\s,;:)}\]\"])|\"|(?P<inner>\\{1,7}\"\"(?![\s,;:)}\]\"\\])|\\[\"']|'|%s))" % _ENTITY.encode()
_QUOTED = rb"(?P<q>%s)(?P<quoted>(?:(?!(?P=q))(?:\\.|(?(inner)[^\"\r\n\x00]|[^\r\n\x00]))){1,4096})" % _OPENING
_PREFIX = rb"(?:(?P<filled>r?fr?)(?=\\?[\"'])|[bru]{1,2}(?=\\?[\"']))?"  # b"...", f"...": a string of Python
_VALUE = rb"%s(?:%s|(?P<plain>%s{1,4096}))" % (_PREFIX, _QUOTED, _PLAIN.encode())


def _in_lower_case(pattern: str, *words: str) -> str:
    """Return a pattern for texts in lower case: ignoring a word's case takes twice as long."""
    for word in words:
        pattern = pattern.replace(word, word.lower().replace("(?i:", "(?:"))
    return pattern


_ASSIGNMENT = re.compile(  # a loosely assigned value may contain names and values of its own
    rb"(?P<word>%s)(?:%s(?=(?P<loose>%s{%d,4096}={0,2}))|%s%s)"
    % (
        _in_lower_case(WORD, WORD).encode(),
        _LOOSELY.encode(),
        _LOOSE_VALUE.encode(),
        _LEAST_LOOSE,
        _ASSIGNED.encode(),
        _VALUE,
    )
)
_NAMED_IN_LOWER_CASE, _GIVEN_IN_BYTES = (
    re.compile(_in_lower_case(NAMED, SURE_WORD, f"(?i:{UNSURE}){NUMBER}").encode()),
    re.compile(GIVEN.encode()),
)
_ARGUMENT = re.compile(
    rb"(?P<set>%s)(?P<word>[A-Za-z0-9_-]{0,40}?%s)%s%s" % (_SET.encode(), WORD.encode(), _OPTION.encode(), _VALUE)
)
_VARIABLE = re.compile(rb"(?:^|(?<=[\x00;]))([A-Za-z_][A-Za-z0-9_]{0,63})=")
_OPTION_BEGINS = re.compile(rb"(?:^|[\s\x00\"'])--?[A-Za-z0-9_-]{0,40}\Z")
_PART_ENDS = re.compile(rb"[&;,|:<>#\s]")  # in a value: what follows may be something else
_REST_OF_WORD = re.compile(rb"[^\s\x00\"'\\]{1,64}(?=[\r\n]|\Z)")
_ELEMENT_ENDS = re.compile(rb"(?:<|&lt;)\\?/")
_LINE_BEGINS = re.compile(rb"(?:^|\n|\r|\\n|\x00|\")[ \t]{0,16}[A-Za-z0-9_.-]{0,40}\Z")
_LINE_ENDS = re.compile(rb"[ \t]{0,16}(?:[\r\n\\\"]|\Z)")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_BEFORE = re.compile(rb"[A-Za-z0-9_.-]{0,64}\Z")
_HEX = re.compile(rb"[0-9A-Fa-f-]+")
_LETTER_AND_DIGIT = re.compile(rb"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[^()\s]+\Z")
_PUNCTUATION = tuple(bytes([letter]) for letter in b",;:)]}")  # what follows a string, as in input("Password: ")
_OBJECT = rb"(?:self|cls|args|config|cfg|opts?|options|settings|params|os|env|kwargs)(?:\.\w+)+"
_CODE = re.compile(rb"(?:%s|[A-Za-z_]+(?:\.[A-Za-z_]+)+)(?:\[.*)?" % _OBJECT)  # args.password


def kinds() -> int:
    """Return how many kinds of secrets are searched for: shapes, private keys, named values and named arguments."""
    return len(SHAPES) + 3


def spans(text: bytes, thorough: bool = False, shaped: bool = True) -> List[Span]:
    """Return what looks like a secret, in order, without overlaps.

    thorough: also return values that look harmless, are short or resemble placeholders, if an environment variable's name (in
    capitals) says that they are secret: better to overwrite too much than too little.
    shaped: whether anything may match one of the shapes.
    """
    text = _read(text)
    result = [*(_shapes(text) if shaped else ()), *_assignments(text, thorough), *_environment(text, thorough)]
    return merged(result)


def merged(found: Iterable[Span]) -> List[Span]:
    """Return spans in order, with overlapping ones merged."""
    result: List[Span] = []
    for span in sorted(found, key=lambda span: (span.start, -span.end)):
        if result and span.start < result[-1].end:
            last = result[-1]
            what = span.what if last.what.startswith("value of") else last.what  # a shape says more than a name
            result[-1] = Span(last.start, max(last.end, span.end), what)
        else:
            result.append(span)
    return result


def _read(text: bytes) -> bytes:
    """Return a text of the same length with spaces for what _UNREAD names."""
    return _UNREAD.sub(lambda found: b" " * len(found[0]), text) if b"\x1b" in text or b"\\" in text else text


def begins_like_one(values: List[bytes]) -> Tuple[Set[int], Set[int]]:
    """Return the indices of values that may contain a secret, and of those in which a shape may match."""
    values = [_read(value) for value in values]
    joined = b"\n".join(values)  # most patterns match nowhere: one search rules them out
    shapes = [shape for what, _, shape in _SHAPES if _NEEDED.get(what, b"") in joined]
    patterns = [pattern for pattern in [_PRIVATE_KEY_BEGINS] + shapes if pattern.search(joined)]
    shaped = {place for place, value in enumerate(values) if any(pattern.search(value) for pattern in patterns)}
    given = _GIVEN_IN_BYTES if _GIVEN_IN_BYTES.search(joined) else None
    named = {
        place
        for place, value in enumerate(values)
        if _NAMED_IN_LOWER_CASE.search(value.lower()) or (given and given.search(value))
    }
    return shaped | named, shaped


def _shapes(text: bytes) -> Iterator[Span]:
    for match in _KEY_BLOCK.finditer(text):
        end = match.start() + len(match[0].rstrip(b"\\"))  # the backslashes escape the quote that follows
        lines = [(match.start(), end), *_following_lines(text, end)]
        if len(set(b"".join(text[start:end] for start, end in lines))) > 40:
            for start, end in lines:
                yield Span(start, end, KEY_BLOCK)
    for what, anywhere, pattern in _SHAPES:
        if _NEEDED.get(what, b"") not in text:
            continue
        for match in pattern.finditer(text):
            start, end = match.span("v" if "v" in pattern.groupindex else 0)
            if (anywhere or what in (_IN_URL, _OF_POSTGRES) or _may_begin(text, match.start(), match[0])) and _shape_counts(
                what, text[start:end]
            ):
                yield Span(start, end, what)


def _following_lines(text: bytes, end: int) -> Iterator[Tuple[int, int]]:
    """Yield the places of a key's lines that follow this place as separate strings."""
    while True:
        match = _KEY_GOES_ON.match(text, end)
        if match is None:
            return
        yield match.span("v")
        end = match.end()


def _may_begin(text: bytes, start: int, token: bytes) -> bool:
    """Return whether a token may begin there, rather than continue the word before it."""
    before = text[max(0, start - 3) : start]
    if not _GLUED.search(before) or _ESCAPE.search(before):
        return True
    of_aws = token.startswith((b"AKIA", b"ASIA")) and re.search(rb"[2-7]", token) is not None and entropy(token) > 3
    return of_aws or (_UNLIKE_WORDS.match(token) is not None and (is_random(token) or is_mixed(token)))


def _shape_counts(what: str, value: bytes) -> bool:
    if what == _IN_URL:  # a port is no password
        return not harmless(value) and not (value.isdigit() and len(value) < 6)
    if what == _OF_DJANGO:
        return len(re.findall(rb"[0-9!@#$%^&*()=+]", value)) >= len(value) // 4 and len(set(value)) >= 18
    if max(Counter(value).values()) > len(value) // 2 or (harmless(value) and what != _HASHED):
        return False  # overwritten after its beginning
    if what == _OF_AWS:  # words in capitals have no digits
        return re.search(rb"[0-9]", value) is not None or is_scattered(value)
    if what == _BRACED:  # {password} is a placeholder to be filled in
        return _LETTER_AND_DIGIT.match(value) is not None and (is_drawn(value) or re.search(rb"[@#$%^&*+=~]", value) is not None)
    if what in _MUST_BE_RANDOM:
        return is_drawn(value)
    if what in (_OTHER_LANGUAGE, _OF_POSTGRES):
        return _LETTER_AND_DIGIT.match(value) is not None
    # words joined by hyphens are not a key: sk-learn-contrib-estimators
    if not what.startswith("OpenAI"):
        return True
    words = re.findall(rb"(?<=-)[a-z]{4,}(?=-|\Z)", value)
    return len(words) < 3 and len(re.findall(rb"[0-9]", value)) >= 3 and entropy(value) > 3.2


def _assignments(text: bytes, thorough: bool) -> Iterator[Span]:
    for pattern, searched in ((_ASSIGNMENT, text.lower()), (_ARGUMENT, text)):
        for match in pattern.finditer(searched):
            name = _whole_name(text, match)
            if pattern is _ASSIGNMENT and match["loose"] is not None:
                start, end = match.span("loose")
                end = start + len(text[start:end].rstrip(b"."))
                if text[end : end + 1] != b"(" and _loose_value_counts(name, text[start:end]):
                    yield Span(start, end, f"value of {name.decode('ascii')}")
                continue
            if pattern is _ARGUMENT and match["set"] != b"--" and not _is_set(match, name):
                continue
            value = _value(text, match, name, pattern is _ARGUMENT, thorough)
            if value:
                yield Span(*value, f"value of {name.decode('ascii')}")


def _is_set(match: "Match[bytes]", name: bytes) -> bool:
    """Return whether this sets a variable (#define NAME "x", ENV NAME x), unlike a sentence: set password policy."""
    variable = match["set"][:1] == b"#" or (name.isupper() and b"_" in name)
    return variable and (match["quoted"] is not None or is_drawn(match["plain"]))


def _value(text: bytes, match: "Match[bytes]", name: bytes, argument: bool, thorough: bool) -> Optional[Tuple[int, int]]:
    """Return where a name's value begins and ends, or None if it is no secret. Only this function decides where it ends.

    A quoted value ends with its quotes. Any other is the rest of its line or ends with its plain characters: the longest that
    counts. One that counts only up to a separator (client_secret=...|x, "...&x") is taken whole.
    """
    quoted = match["quoted"] is not None
    start, end = match.span("quoted" if quoted else "plain")
    if not quoted and text[end : end + 1] == b"(":
        return None  # a call is no value
    element = text[start - 1 : start] == b">" or text[start - 4 : start] == b"&gt;"
    element = element and text[start - 2 : start - 1] not in (b"=", b"-", b":")
    if element and not _ELEMENT_ENDS.match(text, end):
        return None  # C++ writes vector<Token>x
    if match["filled"] and b"{" in text[start:end]:
        return None
    longest = end if quoted or element else _end_of_line(text, match.start("word"), end)
    for last in sorted({longest, end}, reverse=True):
        loose = quoted or argument or element or _stands_alone(text, match.start("word"), last)
        if value_counts(name, text[start:last], loose, thorough):
            return start, last
    return (start, end) if _part_counts(name, text[start:end]) else None


def _part_counts(name: bytes, value: bytes) -> bool:
    """Return whether a value looks secret up to a separator in it."""
    found = _PART_ENDS.search(value)
    return found is not None and found.start() >= 16 and value_counts(name, value[: found.start()], False)


def _stands_alone(text: bytes, start: int, end: int) -> bool:
    """Return whether the end of an unquoted value is clear: that of an option (--password=...), of a pair in a list with
    semicolons (Password=...;), or of a line of its own (password: ...)."""
    before, after = text[max(0, start - 66) : start], text[end : end + 1]
    own_line = _LINE_BEGINS.search(before) is not None and _LINE_ENDS.match(text, end) is not None
    return _OPTION_BEGINS.search(before) is not None or after == b";" or own_line


def _end_of_line(text: bytes, start: int, end: int) -> int:
    """Return where an unquoted value ends: at the end of a line with nothing else, or where its plain characters end."""
    rest = _REST_OF_WORD.match(text, end)
    alone = _LINE_BEGINS.search(text[max(0, start - 66) : start]) is not None
    return rest.end() if alone and rest is not None else end


def _whole_name(text: bytes, match: "Match[bytes]") -> bytes:
    """Return the whole name whose end matched, without the letter of a JSON escape (\\n) before it."""
    before = _BEFORE.search(text, max(0, match.start("word") - 64), match.start("word"))
    start = before.start() if before else match.start("word")
    name = text[start : match.end("word")]
    if start and text[start - 1 : start] == b"\\":
        name = name[1:]
    return name.lstrip(b"-.")


def _environment(text: bytes, thorough: bool) -> Iterator[Span]:
    """Find variables of an environment as profilers keep it, joined by zero bytes or semicolons: values have neither."""
    variables = list(_VARIABLE.finditer(text))
    if len(variables) < 3:
        return
    for variable, following in zip(variables, [*variables[1:], None]):
        if not secret_name(variable[1]):
            continue
        end = following.start() - 1 if following else len(text)
        control = _CONTROL.search(text, variable.end(), end)  # the list ends with a zero byte, or something binary follows
        end = control.start() if control else end
        if end - variable.end() <= LONGEST and value_counts(variable[1], text[variable.end() : end], True, thorough):
            yield Span(variable.end(), end, f"value of {variable[1].decode('ascii')}")


@lru_cache(maxsize=4096)  # every process's environment is recorded, with the same variables
def secret_name(name: bytes) -> bool:
    """Return whether a name says that its value is secret."""
    return NAME.match(name) is not None


def secret_option(argument: bytes) -> bool:
    """Return whether a command line's argument says that the next one is secret: --token."""
    name = argument.lstrip(b"-")
    return argument.startswith(b"-") and secret_name(name) and SURE_NAME.search(name) is not None


def value_counts(name: bytes, value: bytes, loose: bool, thorough: bool = False) -> bool:
    """Return whether the value of such a name looks secret. loose: its beginning and end are clear (quotes, an option)."""
    value = value.strip(b"\"'")
    in_capitals = name.upper() == name and name.lower() != name and b" " not in name
    if OTHER_NAME.search(name):
        of_a_model = re.search(rb"(?i)key|pass", OTHER_NAME.search(name)[0]) is None  # type: ignore[index]
        return len(value) >= 20 and of_a_model and is_random(value) and not is_worded(value)
    if overwritten(value) or is_path(value) or _CODE.fullmatch(value) or value.lstrip()[:1] in _PUNCTUATION:
        return False
    if thorough and in_capitals and SURE_NAME.search(name) and not maybe_a_pass(name):
        return value.lower() not in (b"true", b"false", b"none", b"null", b"0", b"1")
    if harmless(value):
        return False
    if not STRONG_NAME.search(name) or maybe_a_pass(name):
        return _weak_value_counts(name, value, loose)
    if PASSWORD_NAME.search(name):
        least = 4 if in_capitals or loose else 6 if b"passw" in name.lower() else 8  # "pass" is a word of its own, too
        return len(value) >= least and (in_capitals or loose or _LETTER_AND_DIGIT.match(value) is not None or is_scattered(value))
    if in_capitals and len(value) >= 8 and b" " not in value:
        return not value.isdigit() or len(value) >= 12
    return len(value) >= (8 if loose else 16) and is_drawn(value)


def _loose_value_counts(name: bytes, value: bytes) -> bool:
    """Return whether a value looks secret that a name is compared or paired with, or that follows it in parentheses."""
    if not SURE_NAME.search(name) or OTHER_NAME.search(name):
        return False
    return len(value) >= _LEAST_LOOSE and is_drawn(value) and value_counts(name, value, False)


def _weak_value_counts(name: bytes, value: bytes, loose: bool) -> bool:
    """Return whether the value of a name that says little looks secret."""
    least = 16
    if maybe_a_pass(name):
        return len(value) >= least and is_drawn(value) and not _HEX.fullmatch(value)
    if not SURE_NAME.search(name):
        if not UNSURE_NAME.search(name) or (HASH_NAME.search(name) and _HEX.fullmatch(value)):
            return False
        least = _LEAST if loose else 16
    return len(value) >= least and is_drawn(value)


def telling(value: bytes) -> bool:
    """Return whether a secret is so distinctive that it is the same secret wherever it occurs."""
    return len(value) >= 12 and len(set(value)) >= 6 and is_random(value)


def shown(name: str, most: int = 60) -> str:
    """Return a capture's name for use in a message: printable and not long."""
    text = name if name.isprintable() else name.encode("unicode_escape").decode("ascii")
    return text if len(text) <= most else text[: most - 1] + "…"
