"""Which functions are watched line by line: those that were asked for, else those that hold the script's step loop.

By default these are: the script's own functions on the stack when a step ends; the function whose call lasts from one end to
the next, even if it is a library's (a trainer's loop); the script's own functions that these call, through whatever libraries
(a model's forward, a batch's collate function); and the layers' functions that those call. The time of functions further down
counts for the lines that call them.
"""

import sys
from types import CodeType, FrameType
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from kernelscope.tracer.inside.own import os

MOST_FUNCTIONS = 40  # watched by default: nobody reads a longer table, and each function costs time
_LAYERS = ("forward", "call", "__call__", "hybrid_forward")  # the frameworks' names for a layer's computation
_REMEMBERED = 100000  # code objects: a script that compiles new ones all the time must not fill the memory


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return os.sep


_STARTED_IN = _working_folder()  # base of relative file names, even if the script changes its folder


class Focus(object):
    """The functions to watch.

    wanted: texts FILE:FUNCTION, or []. frameworks: folders of frameworks, whose functions are never watched. quotes: whether
    source lines are stored. whole: the program has no step loop, so all of its own functions are watched.

    `watched` holds the code objects in the order in which they were found; `loop` is that of the step loop, once known.
    """

    def __init__(self, wanted: Sequence[Any], frameworks: Sequence[str], quotes: bool = True, whole: bool = False) -> None:
        self.quotes = quotes
        self.whole = whole
        self.wanted = [text.rpartition(":")[::2] for text in wanted]
        self.watched: List[CodeType] = []
        self.loop: Optional[CodeType] = None
        self._frameworks = tuple(os.path.join(folder, "") for folder in frameworks)
        self._standard = os.path.join(os.path.dirname(os.__file__), "")
        self._main = getattr(sys.modules.get("__main__"), "__file__", None)
        # id of a code object -> (whether it is watched, the code object, so that its id is not reused)
        self._decided: Dict[int, Tuple[bool, CodeType]] = {}
        self._numbers: Dict[int, int] = {}  # id of a code object -> its number in `watched`
        self._holding: Set[int] = set()  # ids of the code objects that hold the loop
        self._own: Dict[str, bool] = {}  # file -> whether it is the script's own

    def decided(self, frame: FrameType) -> bool:
        """Return whether this function's lines are watched; its first call decides."""
        code = frame.f_code
        known = self._decided.get(id(code))
        if known is None:
            known = self._keep(code, self._named(code) if self.wanted else self._called_by_the_loop(frame))
        return known[0]

    def holds(self, frames: Sequence[FrameType], called: Optional[Set[int]] = None) -> bool:
        """Learn from the frames on the stack at a step's end, innermost first; return whether more functions are watched than
        before.

        called: ids of the code objects that were called during a whole step. A function on the stack that was not called lasts
        longer than a step.
        """
        before = len(self.watched)
        for frame in frames[::-1] if self.whole else frames:  # in a whole program, the outermost function holds everything
            code = frame.f_code
            if self.wanted:
                self.decided(frame)
            elif self.is_own(code.co_filename) and not _nameless(code):
                self._holding.add(id(code))
                if not self._decided.get(id(code), (False,))[0]:
                    self._keep(code, True)
        if called is not None and self.loop is None:
            self._find_loop(frames, called)
        return len(self.watched) > before

    def missed(self) -> List[str]:
        """Return the functions that were asked for and not found."""
        found = [(code.co_filename, qualified(code)) for code in self.watched]
        return [
            "%s:%s" % (file, name)
            for file, name in self.wanted
            if not any(_same_file(path, file) and _same_name(full, name) for path, full in found)
        ]

    def _find_loop(self, frames: Sequence[FrameType], called: Set[int]) -> None:
        lasting = [frame.f_code for frame in frames if id(frame.f_code) not in called]
        lasting = [code for code in lasting if not self._is_standard(code.co_filename) and not _nameless(code)]
        if not lasting:
            return
        self.loop = lasting[0]
        if not self.wanted:
            self._holding.add(id(self.loop))
            if not self._decided.get(id(self.loop), (False,))[0]:
                self._keep(self.loop, True)

    def _keep(self, code: CodeType, watched: bool) -> Tuple[bool, CodeType]:
        if len(self._decided) > _REMEMBERED:
            self._decided = {id(one): (True, one) for one in self.watched}
        known = self._decided[id(code)] = (watched, code)
        if watched:
            self._numbers[id(code)] = len(self.watched)
            self.watched.append(code)
        return known

    def number(self, code: CodeType) -> int:
        """Return the number of a watched function."""
        return self._numbers[id(code)]

    def _named(self, code: CodeType) -> bool:
        return any(
            _same_file(code.co_filename, file) and code.co_name == name.rpartition(".")[2] and _same_name(qualified(code), name)
            for file, name in self.wanted
        )

    def _called_by_the_loop(self, frame: FrameType) -> bool:
        """Return whether the script's own function that called this one, through whatever libraries, holds the loop."""
        if len(self.watched) >= MOST_FUNCTIONS or _nameless(frame.f_code) or not self.is_own(frame.f_code.co_filename):
            return False
        if self.whole:
            return True
        caller = frame.f_back
        while caller is not None:
            if id(caller.f_code) in self._holding:
                return True
            if self.is_own(caller.f_code.co_filename) and not _nameless(caller.f_code):
                return frame.f_code.co_name in _LAYERS and self._decided.get(id(caller.f_code), (False,))[0]
            caller = caller.f_back
        return False

    def _is_standard(self, file: str) -> bool:
        """Return whether a file belongs to the interpreter, a framework or us."""
        if file.startswith(("<",) + self._frameworks):
            return True
        return file.startswith(self._standard) and not _installed(file)

    def is_own(self, file: str) -> bool:
        """Return whether a file is the script's own."""
        own = self._own.get(file)
        if own is None:
            own = self._own[file] = file == self._main or not (self._is_standard(file) or _installed(file))
        return own


def folders_of(modules: Iterable[str]) -> List[str]:
    """Return the folders of those packages that have been imported, and ours."""
    files = [getattr(sys.modules.get(name), "__file__", None) for name in modules]
    ours = __file__
    for _ in range(3):  # tracer/inside/profiling/focus.py
        ours = os.path.dirname(ours)
    return [os.path.dirname(file) for file in files if file] + [ours]


def path_of(code: CodeType) -> str:
    """Return the path of a function's file, even if its name is relative and the script has changed its folder."""
    file = code.co_filename
    for folder in ("", _STARTED_IN, sys.path[0] if sys.path else ""):
        path = os.path.join(folder, file)
        if os.path.isfile(path):
            return os.path.abspath(path)
    return file


def qualified(code: CodeType) -> str:
    """Return a function's name with its class and enclosing functions; before Python 3.11, only methods have their class's
    name.
    """
    known = getattr(code, "co_qualname", None)
    if known is not None:
        return known
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) != code.co_filename:
            continue
        for owner in list(vars(module).values()):
            if isinstance(owner, type):
                found = vars(owner).get(code.co_name)
                if getattr(getattr(found, "__func__", found), "__code__", None) is code:
                    return "%s.%s" % (owner.__name__, code.co_name)
    return code.co_name


def _same_name(full: str, name: str) -> bool:
    full = full.replace("<locals>.", "")
    return full == name or full.endswith("." + name)


def _same_file(path: str, file: str) -> bool:
    """Return whether a path ends with the requested file or is the module of that name."""
    if not file:
        return True
    if not file.endswith(".py"):
        file = file.replace(".", os.sep)
        path = path[: -len("/__init__.py")] if path.endswith("/__init__.py") else os.path.splitext(path)[0]
    path, file = os.path.normpath(path), os.path.normpath(file)
    return path == file or path.endswith(os.sep + file)


def _nameless(code: CodeType) -> bool:
    """Return whether a code object is a comprehension or lambda, whose time counts for the enclosing line."""
    return code.co_name.startswith("<") and code.co_name != "<module>"


def _installed(file: str) -> bool:
    return os.sep + "site-packages" + os.sep in file or os.sep + "dist-packages" + os.sep in file
