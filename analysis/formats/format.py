"""The descriptor of a format. Each package in this folder lists its formats in FORMATS; no other registration is needed."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head, read_head
from kernelscope.analysis.files.packed import plain_file
from kernelscope.analysis.formats import foreign_texts
from kernelscope.analysis.trace import Trace

_SHORT = 4096  # bytes: a trace with at least one event shows its signs before that

_ARCHIVED = (
    "unpack it and name the files inside (`breakdown`, `report` and `explain` read archives of runs and imports as they are)"
)
# Signs of files that no format reads, and what the file is
_FOREIGN_SIGNS = (
    (b'"schema": "1.', "PyTorch's execution trace, which has no times; name the Kineto trace of the same run"),
    (b"ustar", f"a tar archive; {_ARCHIVED}"),
    (b"PK\x03\x04", f"a zip archive; {_ARCHIVED}"),
    (b"\x7fELF", "a program; record it with a profiler first"),
)
# The same for how such files begin
_PRINT_STATS = "import pstats, sys; pstats.Stats(sys.argv[1]).sort_stats('tottime').print_stats()"
_FOREIGN_STARTS = (
    (
        # a marshalled dictionary whose first key is a tuple of three, beginning with a text
        rb"[{\xfb](?:[(\xa8]\x03\0\0\0|[)\xa9]\x03)[stuzZaA\xf3\xf4\xf5\xfa\xda\xe1\xc1]",
        "a profile of cProfile in Python's binary form, which could be crafted to harm; print it where it was made: "
        f'python -c "{_PRINT_STATS}" FILE > profile.txt',
    ),
)
# The same for text, anywhere in a file's beginning or end; MULTILINE
_FOREIGN_TEXTS = (
    (
        r"^(?:\[[\d/:-]{10,20}\] )?\[[VIWE]\] (?:=== |\[TRT\])|^&&&& \w+ TensorRT",
        "output of TensorRT's trtexec without times of layers; run it with --dumpProfile --separateProfileRun, and name what it "
        "prints",
    ),
    (
        r'"startEnqMs" *:|^ *\{ *"Layers" *: *\[',
        "what TensorRT's trtexec exports of iterations or an engine, without times of layers; --exportProfile=FILE writes them",
    ),
    (
        r'^[ *#]*(?:"Device","Kernel",)?"?Invocations"?[ ,]+"?(?:Metric|Event) Name"?\b',
        "hardware metrics and events of nvprof, which have no times; record the program once more without --metrics and --events",
    ),
    (
        r"\bSelf \w+ time total:[\s*]*\d",
        "only the sums below a table of torch.profiler; needed are its titles and rows, too (Name, Self CPU or Self CUDA, # of "
        "Calls), with the unit of times in titles or cells",
    ),
    (
        r"^BACKEND_\w+ \| \d+ Hostnames? \||^Device profiling \| \d+ Hostnames? \|",
        "a table of THAPI's iprof; record PyTorch with torch.profiler, and name its chrome trace or its printed table",
    ),
)
# How JSON begins; lines of logs may begin with a date or a level in brackets
_JSON_START = re.compile(r"\s*(?:\{\s*(?:[\"}]|$)|\[\s*(?:[\[{\"\]]|-?\d[\d.eE+-]*\s*(?:[,\]]|$)|true|false|null|$))")
# Other names for formats: those of tools and frameworks, with the packages here that read what they write
_FAMILIES = {
    "rocprof": ("rocm",),
    "rocprofv3": ("rocm",),
    "torch": ("kineto", "torch_table"),
    "pytorch": ("kineto", "torch_table"),
    "tensorflow": ("xplane", "trace_viewer", "tensorflow"),
    "jax": ("xplane", "trace_viewer"),
    "nvidia-smi": ("smi",),
}
# Lines that Nsight Compute prints without --csv: its own messages, and the title of a launch
_NCU_TEXT = re.compile(r"^==PROF== \w|^ {2,}\S.*, Context \d+, Stream \d+(?:, Device \d+, CC [\d.]+)?\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Format:
    """A format of captures.

    name: for --format. title: a description for users. module: full name of the module that reads it. The module is imported
    only when needed and has two functions: matches(head: Head) -> bool recognises the format by a file's beginning, and
    read(path: Path) -> Trace returns the file's content with its tables not yet related. order: formats are tried in ascending
    order; those with unmistakable signs are below 100. container: the only container that it can have: "folder" or one of
    files.magic.CONTAINERS; "file" means any other file.
    """

    name: str
    title: str
    module: str
    order: int
    container: str = "file"

    def matches(self, head: Head) -> bool:
        """Return whether a file that begins like this has the format."""
        if self.container not in ("file", head.container):
            return False
        function: Callable[[Head], bool] = importlib.import_module(self.module).matches
        return function(head)

    def read(self, path: Path) -> Trace:
        """Return the Trace as the format's module reads it, its tables not yet related."""
        function: Callable[[Path], Trace] = importlib.import_module(self.module).read
        with plain_file(path) as plain:
            return function(plain)


@cache
def all_formats() -> tuple[Format, ...]:
    """Return the formats of all packages in this folder, in the order in which they are tried."""
    folder = importlib.import_module(__package__)
    packages = [info.name for info in pkgutil.iter_modules(folder.__path__) if info.ispkg]
    modules = [importlib.import_module(f"{__package__}.{name}") for name in packages]
    return tuple(sorted((form for module in modules for form in getattr(module, "FORMATS", ())), key=lambda form: form.order))


def format_named(name: str) -> Format:
    """Return the format with this name; if there is none, raise EvidenceError with all known names."""
    for form in all_formats():
        if form.name == name:
            return form
    raise EvidenceError(f"unknown format {name!r}; known: {', '.join(form.name for form in all_formats())}")


def formats_named(name: str) -> tuple[Format, ...]:
    """Return the format with this name, or all formats of the tool, framework or package with it; raise EvidenceError if none."""
    if any(form.name == name for form in all_formats()):
        return (format_named(name),)
    packages = _FAMILIES.get(name, (name,))
    return tuple(form for form in all_formats() if form.module.split(".")[-2] in packages) or (format_named(name),)


def families() -> list[str]:
    """Return the names of tools, frameworks and packages that stand for several formats."""
    return sorted({form.module.split(".")[-2] for form in all_formats()} | set(_FAMILIES))


def chosen(path: Path, name: str | None) -> Format:
    """Return the format of a file or folder: the one named, or that one of those named which its content has.

    name: of a format, or as in `formats_named`; None for any. Raises EvidenceError if there is none.
    """
    if name is None:
        return detect(path)
    forms = formats_named(name)
    if len(forms) == 1:
        return forms[0]
    head = read_head(path)
    found = next((form for form in forms if form.matches(head)), None)
    if found is None:
        members = ", ".join(form.name for form in forms)
        raise EvidenceError(f"{path}: by its content of none of {name}'s formats; --from one of {members} says what is wrong")
    return found


def detect(path: Path) -> Format:
    """Return the format of a file or folder, judged by its content; raise EvidenceError if no format reads it."""
    head = read_head(path)
    for form in all_formats():
        if form.matches(head):
            return form
    if (path / "trace").is_dir() and any((path / "trace").glob("*.parquet")):
        if (path / "import.json").exists():
            raise EvidenceError(f"{path}: already an import; use it directly, as in `kernelscope breakdown {path}`")
        raise EvidenceError(f"{path}: an import without its import.json; import the capture again")
    if path.is_dir():
        of_ranks = f", or run `kernelscope ranks {path}` if these are the ranks of one job"
        raise EvidenceError(f"{path}: a folder that is not a recording itself; name one of the files in it{of_ranks}")
    remedy = f"; if `kernelscope import --list` has it, `kernelscope import --from NAME {path} -o DIR` says what is wrong"
    raise EvidenceError(f"{path}: no capture of a known format{_likely(head) or remedy}")


def _likely(head: Head) -> str:
    """Return what a file seems to be, for the message; empty if nothing suggests it."""
    if "read_only_kernels" in head.tables or "kernel_iteration_node" in head.tables:
        return ": it is DLProf's database; name the Nsight Systems report that DLProf made it from"
    if head.tables:
        return f": it is a SQLite database with the tables {', '.join(sorted(head.tables)[:4])}, ..."
    result = next((what for sign, what in _FOREIGN_SIGNS if sign in head.content[:4096]), None)
    result = result or next((what for start, what in _FOREIGN_STARTS if re.match(start, head.content)), None)
    result = result or _ncu_text(head) or _foreign_text(head) or _cut_json(head) or _events(head)
    return f": it seems to be {result}" if result else ""


def _foreign_text(head: Head) -> str | None:
    """Return what a text of a tool is that no format reads; None for other files."""
    if not head.is_text:
        return None
    known = next((what for pattern, what in _FOREIGN_TEXTS if re.search(pattern, head.text, re.MULTILINE)), None)
    return known or foreign_texts.told(head.text)


def _events(head: Head) -> str | None:
    """Return what to do with a trace of events whose writer is unknown; None for other files."""
    if '"traceEvents"' not in head.text:
        return None
    if not head.is_utf16:
        return "a trace of events; `import --from kineto`, or another name from `import --list`, says what is wrong with it"
    return "a trace of events in UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"


def _ncu_text(head: Head) -> str | None:
    """Return what to do with metrics that Nsight Compute printed as text; None for other files."""
    if not head.is_text or not _NCU_TEXT.search(head.text):
        return None
    return "Nsight Compute's text; print it with ncu --csv --page raw (of a report: ncu --import FILE.ncu-rep --csv --page raw)"


def _cut_json(head: Head) -> str | None:
    """Return what is wrong with a short file that begins like JSON; None if nothing is known to be wrong."""
    if head.content[:1] not in (b"{", b"[") or len(head.content) > _SHORT or not _JSON_START.match(head.text):
        return None
    try:
        content = json.loads(head.content)
    except (ValueError, RecursionError):
        return "JSON that is cut short or damaged; export or copy it again"
    empty = isinstance(content, dict) and content.get("traceEvents") == []
    return "a trace without any event; record it again while the program runs" if empty else None
