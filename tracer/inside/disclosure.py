"""What of paths, command lines and environments may be written down: run folders are passed on.

No environment but what plan.RECORDED_VARIABLES lists, no home folder or user name (~ stands for both), no value that a name or
its own look says to be secret.
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
# Of an option that has its value behind it the last word must say it: --tokens 512 and --passes rerun are no secrets.
_SECRET_WORD = re.compile(r"--?(?:[\w.-]*[-_.])?" + _WORD, re.IGNORECASE)
_SECRET_VARIABLE = re.compile(r"(?:\w*_)?" + _WORD + "(?:_[0-9]+)?", re.IGNORECASE)
# NAME=VALUE anywhere in an argument, by the name's last word: wandb.api_key=abc, sh -c 'HF_TOKEN=abc python train.py'
_ASSIGNED = re.compile(r"(?<![A-Za-z0-9])(?:[\w.-]*[-_.])?%s=(\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)" % _WORD, re.IGNORECASE)
HIDDEN = "(not recorded)"

# A path begins where no letter stands before it; the n of \\n, which JSON writes for the end of a line, is none. It is looked for
# behind the literal text, here {0}: a pattern that begins with literal text is searched for ten times as fast.
_NO_LETTER = r"(?:(?<![A-Za-z0-9_.~)-]{0})|(?<=\\[bfnrt]{0}))"
_ENDS = r"(?!\.?[A-Za-z0-9_-])"
_SPELLINGS = ("/", "\\/", "%2F")  # of what separates a path's parts: as it is, in JSON, in URLs
_NAME = r"[^/\s\"'\\:;,<>|*?()]+"
_HOST = '"host_name": "'  # as torch.profiler writes it
# what is looked for, pattern, what takes its place
_OTHERS = (
    ("/home/", "/home/" + _NO_LETTER.format("/home/") + _NAME, "~"),
    ("/Users/", "/Users/" + _NO_LETTER.format("/Users/") + _NAME, "~"),
    (":\\", r"\b[A-Za-z]:\\{1,2}Users\\{1,2}" + _NAME, "~"),
    (_HOST, _HOST + '[^"]+', _HOST + "~"),
)
_OF_PEOPLE = ("home", "homes", "Users", "users")  # folders in which every folder is somebody's
_SHORTEST = 8  # characters of a secret that is looked for in files: shorter ones stand in them by chance


def recorded(
    variables: Mapping[str, str], chosen: Optional[Mapping[str, str]] = None, full_paths: bool = False
) -> Dict[str, str]:
    """Return the variables that may be written down and are set, and those that the user chose for this run.

    Of a chosen variable whose name looks like that of a secret only the name is written down.
    """
    hiding = Hiding(full_paths)
    found = {name: hiding.text(variables[name]) for name in RECORDED_VARIABLES if name in variables}
    for name, value in (chosen or {}).items():
        found[name] = HIDDEN if _SECRET_NAME.search(name) else hiding.text(value)
    return found


def command(parts: Sequence[str], full_paths: bool = False) -> List[str]:
    """Return a command line as it may be written down: without the home folder and the values of secrets."""
    hiding = Hiding(full_paths)
    return [hiding.text(_without_secret(part, before)) for before, part in zip([""] + list(parts), parts)]


def _without_secret(part: str, before: str) -> str:
    """Return an argument without its value if it is --SECRET=VALUE, SECRET=VALUE behind --env, or VALUE behind --SECRET."""
    if _SECRET_WORD.fullmatch(before) and not part.startswith("-"):
        return HIDDEN
    match = _SECRET_OPTION.search(part) if part.startswith("--") or before.startswith("--e") else None
    if match:
        return part[: match.end()] + HIDDEN
    return _ASSIGNED.sub(lambda found: found[0][: found.start(1) - found.start()] + HIDDEN, part)


def secrets(variables: Mapping[str, str], parts: Sequence[str] = ()) -> List[str]:
    """Return the values that an environment and a command line keep secret, as far as they are unlike anything else.

    Files of a run are searched for them, where an ordinary word must not be overwritten.
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
    """Return whether a secret is no path, number or word."""
    digits = sum(letter.isdigit() for letter in value)
    return len(value) >= _SHORTEST and value[0] not in "/~.:" and 0 < digits < len(value)


def homes() -> List[str]:
    """Return the folders that are the user's home, by any name, the longest first."""
    found = {os.path.expanduser("~")}
    try:
        found.add(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        pass  # containers run users that nobody has entered
    found |= {os.path.realpath(home) for home in found}
    usable = [home.rstrip(os.sep) for home in found if os.path.isabs(home) and home.count(os.sep)]
    return sorted({home for home in usable if home and os.path.basename(home)}, key=len, reverse=True)


def users() -> List[str]:
    """Return the user's names, without those that are nobody's: of three letters and more, and not root."""
    found = {os.environ.get(name, "") for name in ("USER", "LOGNAME")}
    # /tmp, which some containers have for a home, names nobody
    found |= {os.path.basename(home) for home in homes() if os.path.basename(os.path.dirname(home)) in _OF_PEOPLE}
    try:
        found.add(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        pass
    return sorted(name for name in found - {"root", "user", *_OF_PEOPLE} if len(name) > 2)


class Hiding(object):
    """Takes out what must not be written down. full_paths: home folders and user names stay. known: secrets that are looked for;
    shapes: whether also for whatever looks like one, which takes longer than all the rest.

    As a word of its own a user's name is not known from any other word: it is hidden as a part of a path (/data/NAME/, of its end
    /tmp/cache_NAME/) and before an @.
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
        """Return plain data, as of JSON, with every text in it as it may be written down."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.of(key): self.of(content) for key, content in value.items()}
        return [self.of(content) for content in value] if isinstance(value, (list, tuple)) else value

    def needed(self, content: Any) -> bool:
        """Return whether bytes may hold anything that is taken out but for the look of secrets."""
        needles = [needle for needle, _, _ in self._rules] + self._known
        return any(content.find(needle.encode("utf8", "surrogateescape")) >= 0 for needle in needles)

    def same_length(self, content: bytes) -> bytes:
        """Return bytes that are no text as they may be written down, none moved: ~/////x.py is the same path as ~/x.py."""
        for value in self._known:
            found = value.encode("utf8", "surrogateescape")  # as os.environ gives what is no UTF-8
            content = content.replace(found, b"x" * len(found))
        for needle, pattern, _ in self._own:
            if needle.encode("utf8", "surrogateescape") in content:
                content = re.sub(pattern.encode("utf8", "surrogateescape"), _slashes, content)
        for home in self._nobodys:
            content = _at_beginnings(content, home)
        return content


def _of_home(home: str, nobodys: bool) -> Iterator[Any]:
    """Yield the rules for a home folder, as it is spelled; see _OTHERS.

    nobodys: its name is no person's, as that of /root and /tmp: no letter may stand before it, as in /var/tmp and names of XLA.
    """
    for separator in _SPELLINGS:
        spelled = home.replace("/", separator)
        yield spelled, re.escape(spelled) + (_NO_LETTER.format(re.escape(spelled)) if nobodys else "") + _ENDS, "~"


def _slashes(found: Match[bytes]) -> bytes:
    """Return the same path as ~, as long as what was found."""
    return b"~" + b"/" * (len(found[0]) - 1)


def _at_beginnings(content: bytes, home: bytes) -> bytes:
    """Return bytes without a home folder that is nobody's where protobuf's texts begin.

    Before each stands its length, which may be a letter.
    """

    def hidden(found: Any) -> Any:
        text = content[found.start() : found.start() + content[found.start() - 1]]
        return _slashes(found) if len(text) == content[found.start() - 1] and min(text) >= 0x20 else found[0]

    return re.sub(rb"(?<=[A-Za-z0-9_.~-])" + re.escape(home), hidden, content)


def _of_user(name: str) -> Tuple[Any, str, str]:
    """Return the rule for a user's name: as a part of a path, as the end of one, and in NAME@HOST."""
    literal = re.escape(name)
    part, end = r"(?<=/{0})(?=[/\"'\s:;,)\]\\]|\Z)", r"(?<=[_-]{0})(?=/)"
    places = (part, end, _NO_LETTER + r"(?=@[A-Za-z0-9])")
    return name, literal + "(?:%s)" % "|".join(place.format(literal) for place in places), "~"


@lru_cache(maxsize=32)
def source(text: str) -> str:
    """Return a program's text without what looks like a secret: before anything writes it."""
    return _without_secrets(text)


def _without_secrets(text: str) -> str:
    """Return a text without what looks like a secret, its lines as many as they were."""
    for start, end in reversed(_looking_like_one(text)):
        text = text[:start] + HIDDEN + "\n" * text.count("\n", start, end) + text[end:]
    return text


def _looking_like_one(text: str) -> List[Tuple[int, int]]:
    """Return where a text holds what looks like a secret: from and to which character, in order."""
    from kernelscope.tracer.inside import secret_values  # it compiles its patterns, which takes a while

    content = text.encode("utf8", "surrogateescape")
    found = [(span.start, span.end) for span in secret_values.spans(content)]
    if len(content) != len(text):
        found = [(_characters(content, start), _characters(content, end)) for start, end in found]
    return found


def _characters(content: bytes, place: int) -> int:
    """Return how many characters these bytes are up to a place."""
    return len(content[:place].decode("utf8", "surrogateescape"))


def without_home(text: str) -> str:
    """Return the text with home folders and the user's name written as ~: run folders are passed on, user names are not."""
    return Hiding().text(text)
