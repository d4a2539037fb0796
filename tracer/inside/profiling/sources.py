"""The profiled program's own source files, kept in the run folder: comparisons of two runs can then show what changed in
between.

These are the files of modules that belong to no installed package, the interpreter, a framework or us. `index.json` names them:
{"main": path, "files": [{"path": as users know it, "file": its name here}], "left_out": how many did not fit}.
"""

import sys
from typing import Any, Callable, Dict, List, Optional

from kernelscope.tracer.inside import disclosure
from kernelscope.tracer.inside.originals import dump, load
from kernelscope.tracer.inside.own import open, os
from kernelscope.tracer.inside.profiling.focus import Focus

FOLDER, INDEX = "sources", "index.json"
MOST_FILES = 200
MOST_BYTES = 1 << 20  # per file; a larger one is data written as code


def keep(folder: str, focus: Focus, shown: Callable[[str], str]) -> None:
    """Write the files of all modules loaded now; files kept before stay.

    focus: knows which files are the program's own. shown: returns a path as users know it. Raises OSError.
    """
    place = os.path.join(folder, FOLDER)
    index = _read(os.path.join(place, INDEX))
    index["left_out"] = 0
    known = {entry["path"] for entry in index["files"]}
    for path in _own(focus):
        name = shown(path)
        if name in known:
            continue
        text = _text(path) if len(index["files"]) < MOST_FILES else None
        if text is None:
            index["left_out"] += 1
            continue
        if not os.path.isdir(place):
            os.mkdir(place)
        file = "%d.py" % len(index["files"])
        with open(os.path.join(place, file), "wb") as out:
            out.write(disclosure.source(text.decode("utf8", "surrogateescape")).encode("utf8", "surrogateescape"))
        index["files"].append({"path": name, "file": file})
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if index["files"]:
        index["main"] = shown(os.path.abspath(main)) if main else None
        with open(os.path.join(place, INDEX), "w") as out:
            dump(index, out, indent=1)


def _own(focus: Focus) -> List[str]:
    """Return the program's own files, sorted."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    texts = [path for path in files if isinstance(path, str) and path.endswith(".py") and focus.is_own(path)]
    return sorted({os.path.abspath(path) for path in texts if not os.path.basename(path).startswith("__autograph")})


def _text(path: str) -> Optional[bytes]:
    """Return a file's bytes; None if it cannot be read or is too large."""
    try:
        if os.path.getsize(path) > MOST_BYTES:
            return None
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _read(path: str) -> Dict[str, Any]:
    try:
        with open(path) as file:
            return load(file)
    except (OSError, ValueError):
        return {"main": None, "files": [], "left_out": 0}
