"""What may be written down of paths, command lines and environments, since run folders are shared.

Of the environment only plan.RECORDED_VARIABLES; no home folder or user name (~ replaces both); no value that looks secret, by
its name or by itself.
"""

import os
import pwd
import re
from functools import lru_cache
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Match, Optional, Sequence, Tuple

from kernelscope.tracer.inside.plan import RECORDED_VARIABLES

_SECRET_NAME = re.compile(
    r"[\w-]*(?:TOKEN|SECRET|PASS|PWD|CREDENTIAL|KEY|AUTH|COOKIE|BEARER|SIGNATURE|(?<![A-Za-z])PAT(?![A-Za-z]))[\w-]*",
    re.IGNORECASE,
)
_SECRET_OPTION = re.compile(_SECRET_NAME.pattern + "=", re.IGNORECASE)  # NAME=VALUE, LABEL:NAME=VALUE, --name=value
_WORD = (
    r"(?:TOKEN|SECRET|PASS|PASSWD|PASSWORD|PASSPHRASE|PWD|CREDENTIALS?|(?:API|ACCESS|PRIVATE|ACCOUNT)?KEY|AUTH|AUTHORIZATION"
    r"|BEARER|COOKIE|PAT)"
)
# For an option followed by its value, the last word must say so: --tokens 512 and --passes rerun are not secret.
_SECRET_WORD = re.compile(r"--?(?:[\w.-]*[-_.])?" + _WORD, re.IGNORECASE)
_SECRET_VARIABLE = re.compile(r"(?:\w*_)?" + _WORD + "(?:_[0-9]+)?", re.IGNORECASE)
# NAME=VALUE anywhere in an argument, by the name's last word: wandb.api_key=abc, sh -c 'HF_TOKEN=abc python train.py'
_ASSIGNED = re.compile(r"(?<![A-Za-z0-9])(?:[\w.-]*[-_.])?%s=(\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)" % _WORD, re.IGNORECASE)
HIDDEN = "(not recorded)"

# No letter may precede a path; the n of \\n, JSON's end of a line, does not count. The test follows the literal text, here {0}:
# the search for a pattern that begins with literal text is ten times as fast.
_NO_LETTER = r"(?:(?<![A-Za-z0-9_.~)-]{0})|(?<=\\[bfnrt]{0}))"
_ENDS = r"(?!\.?[A-Za-z0-9_-])"
_SPELLINGS = ("/", "\\/", "%2F")  # of a path's separator: plain, in JSON, in URLs
_NAME = r"[^/\s\"'\\:;,<>|*?()]+"
_HOST = '"host_name": "'  # as torch.profiler writes it
# literal text, pattern, replacement
_OTHERS = (
    ("/home/", "/home/" + _NO_LETTER.format("/home/") + _NAME, "~"),
    ("/Users/", "/Users/" + _NO_LETTER.format("/Users/") + _NAME, "~"),
    (":\\", r"\b[A-Za-z]:\\{1,2}Users\\{1,2}" + _NAME, "~"),
    (_HOST, _HOST + '[^"]+', _HOST + "~"),
)
_OF_PEOPLE = ("home", "homes", "Users", "users")  # folders that contain people's home folders
_SHORTEST = 8  # characters of a secret to search for in files: shorter ones occur by chance


def recorded(
    variables: Mapping[str, str], chosen: Optional[Mapping[str, str]] = None, full_paths: bool = False
) -> Dict[str, str]:
    """Return the variables that are set and may be written down, and those that the user chose for this run.

    If a chosen variable has a name that looks secret, only the name is written down.
    """
    hiding = Hiding(full_paths)
    found = {name: hiding.text(variables[name]) for name in RECORDED_VARIABLES if name in variables}
    for name, value in (chosen or {}).items():
        found[name] = HIDDEN if _SECRET_NAME.search(name) else hiding.text(value)
    return found


def command(parts: Sequence[str], full_paths: bool = False) -> List[str]:
    """Return a command line as it may be written down: without home folders and secret values."""
    hiding = Hiding(full_paths)
    return [hiding.text(_without_secret(part, before)) for before, part in zip([""] + list(parts), parts)]


def _without_secret(part: str, before: str) -> str:
    """Return an argument without its value if it is --SECRET=VALUE, SECRET=VALUE after --env, or VALUE after --SECRET."""
    if _SECRET_WORD.fullmatch(before) and not part.startswith("-"):
        return HIDDEN
    match = _SECRET_OPTION.search(part) if part.startswith("--") or before.startswith("--e") else None
    if match:
        return part[: match.end()] + HIDDEN
    return _ASSIGNED.sub(lambda found: found[0][: found.start(1) - found.start()] + HIDDEN, part)


def secrets(variables: Mapping[str, str], parts: Sequence[str] = ()) -> List[str]:
    """Return the secret values of an environment and a command line, those that are unlike anything else.

    A run's files are searched for them, and ordinary words there must not be overwritten.
    """
    values = [value for name, value in variables.items() if _SECRET_VARIABLE.fullmatch(name)]
    for before, part in zip([""] + list(parts), parts):
        if _without_secret(part, before) == HIDDEN:
            values.append(part)
        values += [part.partition("=")[2]] if part.startswith("--") and _SECRET_OPTION.search(part) else []
        values += [found[1].strip("\"'") for found in _ASSIGNED.finditer(part)]
        values += [part[start:end] for start, end in _looking_like_one(part)]
    return sorted({value for value in values if _unlike(value)}, key=lambda value: (-len(value), value))


def _unlike(value: str) -> bool:
    """Return whether a secret is long enough and not a path, number or word."""
    digits = sum(letter.isdigit() for letter in value)
    return len(value) >= _SHORTEST and value[0] not in "/~.:" and 0 < digits < len(value)


def homes() -> List[str]:
    """Return the paths of the user's home folder, under all its names, longest first."""
    found = {os.path.expanduser("~")}
    try:
        found.add(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        pass  # containers run users without a passwd entry
    found |= {os.path.realpath(home) for home in found}
    usable = [home.rstrip(os.sep) for home in found if os.path.isabs(home) and home.count(os.sep)]
    return sorted({home for home in usable if home and os.path.basename(home)}, key=len, reverse=True)


def users() -> List[str]:
    """Return the user's names of at least three letters, without those that name no person, such as root."""
    found = {os.environ.get(name, "") for name in ("USER", "LOGNAME")}
    # /tmp, the home folder in some containers, names nobody
    found |= {os.path.basename(home) for home in homes() if os.path.basename(os.path.dirname(home)) in _OF_PEOPLE}
    try:
        found.add(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        pass
    return sorted(name for name in found - {"root", "user", *_OF_PEOPLE} if len(name) > 2)


class Hiding(object):
    """Removes what must not be written down. full_paths: keep home folders and user names. known: secrets to search for.
    shapes: whether to search also for whatever looks like a secret, which takes longer than all the rest.

    A user's name alone cannot be told from any other word: it is hidden as part of a path (/data/NAME/), at the end of a part
    (/tmp/cache_NAME/) and before an @.
    """

    def __init__(self, full_paths: bool = False, known: Iterable[str] = (), shapes: bool = True) -> None:
        spelled = {form for value in known for form in (value, value.replace("\\", "\\\\").replace('"', '\\"'))}
        self._known = sorted(spelled, key=lambda value: (-len(value), value))
        names: List[str] = [] if full_paths else users()
        folders: List[str] = [] if full_paths else homes()
        nobodys = [home for home in folders if os.path.basename(home) not in names]
        self._own = [rule for home in folders for rule in _of_home(home, home in nobodys)] + [_of_user(name) for name in names]
        self._nobodys = [home.encode("utf8", "surrogateescape") + b"/" for home in nobodys]
        self._rules = [] if full_paths else self._own + list(_OTHERS)
        self.shapes = shapes

    def text(self, text: str) -> str:
        """Return a text as it may be written down."""
        for value in self._known:
            text = text.replace(value, HIDDEN)
        for needle, pattern, instead in self._rules:
            if needle in text:
                text = re.sub(pattern, instead, text)
        return _without_secrets(text) if self.shapes and len(text) >= _SHORTEST else text

    def of(self, value: Any) -> Any:
        """Return plain data, as in JSON, with every text as it may be written down."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.of(key): self.of(content) for key, content in value.items()}
        return [self.of(content) for content in value] if isinstance(value, (list, tuple)) else value

    def needed(self, content: Any) -> bool:
        """Return whether bytes may contain anything to remove, apart from what only looks like a secret."""
        needles = [needle for needle, _, _ in self._rules] + self._known
        return any(content.find(needle.encode("utf8", "surrogateescape")) >= 0 for needle in needles)

    def same_length(self, content: bytes) -> bytes:
        """Return binary content as it may be written down, with no byte moved: ~/////x.py is the same path as ~/x.py."""
        for value in self._known:
            found = value.encode("utf8", "surrogateescape")  # as os.environ represents what is not UTF-8
            content = content.replace(found, b"x" * len(found))
        for needle, pattern, _ in self._own:
            if needle.encode("utf8", "surrogateescape") in content:
                content = re.sub(pattern.encode("utf8", "surrogateescape"), _slashes, content)
        for home in self._nobodys:
            content = _at_beginnings(content, home)
        return content


def _of_home(home: str, nobodys: bool) -> Iterator[Any]:
    """Yield the rules for a home folder, one for each spelling; see _OTHERS.

    nobodys: its name is not a person's (/root, /tmp). Then no letter may precede it, as one does in /var/tmp and in XLA's
    names.
    """
    for separator in _SPELLINGS:
        spelled = home.replace("/", separator)
        yield spelled, re.escape(spelled) + (_NO_LETTER.format(re.escape(spelled)) if nobodys else "") + _ENDS, "~"


def _slashes(found: Match[bytes]) -> bytes:
    """Return ~ with slashes, the same path, as long as the match."""
    return b"~" + b"/" * (len(found[0]) - 1)


def _at_beginnings(content: bytes, home: bytes) -> bytes:
    """Return bytes without a home folder that names nobody, at the beginnings of protobuf's strings.

    A string follows its length, which may be a letter.
    """

    def hidden(found: Any) -> Any:
        text = content[found.start() : found.start() + content[found.start() - 1]]
        return _slashes(found) if len(text) == content[found.start() - 1] and min(text) >= 0x20 else found[0]

    return re.sub(rb"(?<=[A-Za-z0-9_.~-])" + re.escape(home), hidden, content)


def _of_user(name: str) -> Tuple[Any, str, str]:
    """Return the rule for a user's name: as a part of a path, at the end of one, and in NAME@HOST."""
    literal = re.escape(name)
    part, end = r"(?<=/{0})(?=[/\"'\s:;,)\]\\]|\Z)", r"(?<=[_-]{0})(?=/)"
    places = (part, end, _NO_LETTER + r"(?=@[A-Za-z0-9])")
    return name, literal + "(?:%s)" % "|".join(place.format(literal) for place in places), "~"


@lru_cache(maxsize=32)
def source(text: str) -> str:
    """Return a program's text without what looks like a secret. Use it before anything writes the text."""
    return _without_secrets(text)


def _without_secrets(text: str) -> str:
    """Return a text without what looks like a secret; the number of lines stays the same."""
    for start, end in reversed(_looking_like_one(text)):
        text = text[:start] + HIDDEN + "\n" * text.count("\n", start, end) + text[end:]
    return text


def _looking_like_one(text: str) -> List[Tuple[int, int]]:
    """Return where a text contains what looks like a secret: first and past-the-end character, in order."""
    from kernelscope.tracer.inside import secret_values  # slow to import: it compiles its patterns

    content = text.encode("utf8", "surrogateescape")
    found = [(span.start, span.end) for span in secret_values.spans(content)]
    if len(content) != len(text):
        found = [(_characters(content, start), _characters(content, end)) for start, end in found]
    return found


def _characters(content: bytes, place: int) -> int:
    """Return the number of characters in these bytes before a place."""
    return len(content[:place].decode("utf8", "surrogateescape"))


def without_home(text: str) -> str:
    """Return a text that may be shared: home folders and the user's name become ~, and what looks like a secret is hidden."""
    return Hiding().text(text)
