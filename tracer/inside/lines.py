"""line_profiler on chosen functions, written as JSON rather than as its pickle."""

import inspect
import json
from typing import Any, Callable, Iterable, List, Optional, Sequence

from kernelscope.tracer.inside import disclosure
from kernelscope.tracer.inside.own import open, os


def profiler(functions: Iterable[Callable[..., Any]]) -> Any:
    """Return a LineProfiler over these functions; raise ImportError if line_profiler is not installed."""
    from line_profiler import LineProfiler

    line_profiler = LineProfiler()
    for function in functions:
        line_profiler.add_function(inspect.unwrap(function))
    return line_profiler


def save(line_profiler: Any, folder: str, roots: Sequence[str]) -> None:
    """Write lines.json: per function its file, name, first line, source lines and (line, hits, time) as counted.

    Times are in the profiler's own unit; its length in seconds is written beside them. Paths are relative to `roots`, so a
    staged copy of a file has the same name as in the project.
    """
    stats = line_profiler.get_stats()
    functions = []
    for (path, first_line, name), timings in sorted(stats.timings.items()):
        functions.append(
            {
                "file": shortened(path, roots),
                "function": name,
                "first_line": first_line,
                "source": source(path, first_line),
                "timings": [[int(line), int(hits), int(time)] for line, hits, time in timings],
            }
        )
    with open(os.path.join(folder, "lines.json"), "w") as out:
        json.dump({"unit_s": stats.unit, "functions": functions}, out)


def shortened(path: str, roots: Sequence[str]) -> str:
    """Return a path relative to the first of these folders that contains it; unchanged if none does."""
    for root in roots:
        if path.startswith(root + os.sep):
            return path[len(root) + 1 :]
    return path


def source(path: str, first_line: int, whole: bool = False) -> Optional[List[str]]:
    """Return the lines of the block that starts at `first_line`, without secrets; empty if it cannot be read.

    whole: return all lines from there on, for a module.
    """
    try:
        with open(path, encoding="utf8", errors="replace") as file:
            lines = disclosure.source(file.read()).split("\n")
        rest = [line + "\n" for line in lines[max(first_line, 1) - 1 :]]
        return rest if whole else inspect.getblock(rest)
    except (OSError, SyntaxError, IndexError):
        return []
