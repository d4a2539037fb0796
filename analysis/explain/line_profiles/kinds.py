"""What a line of a program does, as far as its text tells: waits for a loader, a server or a device, works on single elements.

A declared table: a pattern on the line's code, what that is, and what to do about it. Comments and contents of strings are no
code. A name that only resembles one of these is none: patterns are of whole names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

_STRING = re.compile(r"""\b[rbfu]{0,2}(?=["'])|\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\#.*|["'].*""", re.I)
_NO_WORK = re.compile(r"(?:async )?def\b|class\b|import\b|from\b|@")
_SHORT_NS, _OFTEN = 5_000, 10_000  # an execution so short, and so often: the interpreter's own cost counts
_LONGEST = 400  # characters of a statement that are looked at
_CYTHON = (".pyx", ".pxi", ".pxd")
_VERBS = r"(?:get|head|post|put|patch|delete|request)"
_CLOUD = (
    r"(?:get|put|head|delete|copy|list|upload|download)_(?:blobs?|containers?|buckets?)\(|create_(?:blob\w*|container|bucket)\("
    r"|(?:put|head|delete|list|upload|download)_objects?(?:_v2)?\(|get_object\(.*(?i:bucket)|(?:up|down)load_file(?:obj)?\("
)
_BASE = r"(?:cursor|curs?|conn(?:ection)?|con|db|database|session|engine|c)"
_LOG = r"(?:_?log|_?logger|logging)"
_MODEL = r"(?:\w+_)?(?:model|net|network|encoder|decoder|generator|discriminator|net[DG])"


@dataclass(frozen=True)
class Kind:
    """One thing that lines do. name: fixed. pattern: of a statement's code. what: in words, after "the program".

    limit: what bounds the saving. least, least_ns: how often it executes, and how long each takes, at least. own: whether the
    time is the line's own; else it is a framework's work, and no saving is known. repeats: whether only executions beyond the
    first can be saved.
    """

    name: str
    pattern: str
    what: str
    remedy: str
    limit: str = "the lines' whole time"
    least: int = 1
    least_ns: int = 0
    own: bool = True
    repeats: bool = False


ELEMENTS = Kind(
    "elements one by one",
    "",
    "runs short lines of Python for one element at a time",
    "work on whole arrays (NumPy: array expressions, slices, broadcasting, dot), or compile the function (Numba's @njit, Cython "
    "with declared types)",
    "compiled code in place of the lines; their time includes line_profiler's own cost, which is a large part of short lines",
    _OFTEN,
)
COMPILED = replace(
    ELEMENTS,
    what="runs short compiled lines for one element at a time",
    remedy="declare the types of what the loop uses (cdef int, memoryviews such as double[:, :]; `cython -a` shows what is still "
    "Python's), and time it without line_profiler, whose cost is a large part of short compiled lines",
)
KINDS = (
    Kind(
        "data loader",
        r"^(?:for\b.+\bin\b.*|.*\bnext\(.*)\b\w*(?:loader|_dl)\b",
        "waits for the next batch of its data loader",
        "prepare batches beside the training: DataLoader(num_workers=4 or more, pin_memory=True, persistent_workers=True), "
        "tf.data's prefetch; decode and augment less in each __getitem__, or keep what was decoded",
        "the whole wait, if workers prepare batches at least as fast as the loop uses them",
    ),
    Kind(
        "sleep",
        r"\b(?:time|asyncio|gevent|eventlet)\.sleep\(|(?<![\w.])sleep\(",
        "sleeps",
        "wait for what is waited for (an event, a queue, a condition, select) instead of a fixed time, or do other work "
        "meanwhile in threads or with asyncio",
    ),
    Kind(
        "network",
        rf"\b(?:requests|httpx)\.{_VERBS}\(|\burlopen\(|\burlretrieve\(|\.(?:{_CLOUD})",
        "waits for a server over the network",
        "send fewer requests (list or delete many at once, do not ask before acting), several at the same time (a thread pool, "
        "asyncio), over a connection that stays open (requests.Session), and keep answers that do not change",
        "requests that overlap or are saved; one request alone is only saved if its answer was kept",
        least_ns=200_000,  # no server answers sooner
    ),
    Kind(
        "database",
        rf"\b{_BASE}\.(?:execute(?:many)?|fetch(?:one|all|many)|query|commit|scalars?)\(|\.objects\.(?:get|filter|all|create)\(|"
        r"\bread_sql\w*\(",
        "asks a database",
        "fetch in one query what a loop needs (a join, IN, executemany, bulk_create, select_related), commit once, look at the "
        "query's plan for a missing index, and keep answers that do not change",
    ),
    Kind(
        "rows of a table",
        r"\.iterrows\(|\.itertuples\(|\.i?at\[|\.apply\(.*(?:\blambda\b|axis\s*=\s*1)",
        "works on a table row by row",
        "work on whole columns (arithmetic, comparisons, np.where, merge, groupby); where rows are needed, use zip of columns",
    ),
    Kind(
        "rows of a table",
        r"\.i?loc\[",
        "works on a table row by row",
        "work on whole columns (arithmetic, comparisons, np.where, merge, groupby); collect results in a list, and store them "
        "once",
        least=100,
    ),
    Kind(
        "growing a table",
        r"\bdf\w*\.append\(|\bpd\.concat\(|\bnp\.(?:append|concatenate|[vh]stack)\(",
        "copies a table or array to make it longer",
        "collect the pieces in a list, and join them once after the loop; or allocate the whole first",
        least=10,
        repeats=True,
    ),
    Kind(
        "files",
        r"(?<![\w.])open\(|\bpd\.read_\w+\(|\bcv2\.imread\(|\bImage\.open\(|\b(?:imageio|io|plt)(?:\.v\d)?\.imread\(|"
        r"\bnp\.(?:load|loadtxt|genfromtxt)\(|\b(?:json|pickle|torch|librosa|yaml)\.(?:safe_)?load\(|\bh5py\.File\(",
        "reads or decodes a file",
        "read each file once and keep it; read several at the same time (a thread pool; processes if decoding takes most); for "
        "large texts read only the columns that are used, or store them once in a binary format (Parquet, .npy)",
    ),
    Kind(
        "regular expressions",
        r"\bre\.compile\(",
        "compiles a regular expression again and again",
        "compile it once, outside of the loop and the function",
        least=10,
        repeats=True,
    ),
    Kind(
        "copies",
        r"\b(?:copy\.)?deepcopy\(",
        "copies objects with all that they hold",
        "copy only what is changed (copy.copy, list(...), dict(...), dataclasses.replace), or make a new object",
    ),
    Kind(
        "output",
        rf"(?i:(?<![\w.])print\(|\b{_LOG}\.(?:debug|info|warning|error|exception|critical)\()",
        "prints or logs",
        "print every so many iterations, or collect lines and write them once; write to a file instead of a terminal",
        least=10,
    ),
    Kind(
        "text",
        r"\w\s*\+=\s*(?:\"\"|str\()|^(\w+)\s*=\s*\1\s*\+\s*(?:\"\"|str\()",
        "joins a text piece by piece",
        "collect the pieces in a list, and join them once (\"\".join), or write to io.StringIO",
        least=1000,
    ),
    Kind(
        "waiting for the device",
        r"\.(?:item|cpu|numpy)\(\s*\)|\bcuda\.synchronize\(|\bblock_until_ready\(|\bwaitall\(\)",
        "waits until a device has finished: that is the time of what was launched before, not the line's own work",
        "read values seldom (every so many steps; keep sums on the device); `kernelscope profile` shows what the device does "
        "meanwhile",
        "at best the whole wait; where the device needs the time in any case, the wait only moves to another line",
        least=10,
    ),
    Kind(
        "framework",
        rf"(?:^|[=(,]\s*|\breturn\s+)(?:self\.)?{_MODEL}\(|\.backward\(|\b(?:opt|optim|optimi[sz]er\w*)\.step\(|"
        rf"\b{_MODEL}\.(?:fit|predict|evaluate|train_on_batch|generate)\(",
        "lets its framework compute",
        "`kernelscope profile` of the script shows which layers and kernels take this time",
        own=False,
    ),
)  # fmt: skip


def code(text: str) -> str:
    """Return a statement's code: without comments, and with each string empty."""
    return _STRING.sub(lambda found: '""' if found[0][:1] in ("'", '"') else "", text).strip()


def kind_of(text: str | None, hits: int, time_ns: int) -> Kind | None:
    """Return what a statement does that executes so often and takes so long in all; None if its text does not tell."""
    plain = code((text or "")[:_LONGEST])
    if not plain or _NO_WORK.match(plain):
        return None
    fitting = (one for one in KINDS if hits >= one.least and time_ns >= one.least_ns * hits)
    return next((one for one in fitting if re.search(one.pattern, plain)), None)


def short(hits: int, time_ns: int, file: str) -> Kind | None:
    """Return what a line does that executes so often and takes so short that its own cost counts; None for any other.

    file: where it is, as Cython's files hold compiled lines.
    """
    if hits < _OFTEN or time_ns > _SHORT_NS * hits:
        return None
    return COMPILED if is_compiled(file) else ELEMENTS


def is_compiled(file: str) -> bool:
    """Return whether a file holds functions that Cython compiles."""
    return file.endswith(_CYTHON)


def beginnings(lines: Iterable[tuple[int, str | None]]) -> list[int]:
    """Return for each line, by number and text, in order, the place of the line that begins its statement.

    A line that leaves a bracket open goes on in the next one, if that has the next number.
    """
    result: list[int] = []
    depth, before = 0, 0
    for place, (number, text) in enumerate(lines):
        goes_on = bool(result) and depth > 0 and number == before + 1
        result.append(result[-1] if goes_on else place)
        depth = max((depth if goes_on else 0) + _opens(text or ""), 0)
        before = number
    return result


def _opens(text: str) -> int:
    """Return how many brackets a text opens and does not close; below zero if it closes more."""
    plain = code(text)
    return sum(map(plain.count, "([{")) - sum(map(plain.count, ")]}"))
