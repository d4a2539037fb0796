"""`open` and `os` for our code inside a program, as they were when the interpreter started.

A program may replace them, for example with a mock while it trains. That is meant for its own calls and would make ours fail.
Functions of modules that are loaded later are in `originals`.
"""

MYPY = False  # typing is not imported by every process that starts
if MYPY:
    import os as os
    from io import open as open
    from typing import Any, List

spare: "List[Any]" = []  # functions that close a descriptor of ours and return whether they did (see profiling.reserve)

if not MYPY:
    import errno
    import genericpath
    import io
    import os as _shared

    _Function = type(lambda: None)

    def _kept(module):
        """Return a private copy of a module, which nobody else changes; its functions call each other."""
        copy = type(module)(module.__name__)
        vars(copy).update(vars(module))
        for name, function in vars(module).items():
            if isinstance(function, _Function) and function.__globals__ is vars(module):
                made = _Function(function.__code__, vars(copy), name, function.__defaults__, function.__closure__)
                made.__kwdefaults__ = function.__kwdefaults__
                setattr(copy, name, made)
        return copy

    os = _kept(_shared)
    os.path = path = _kept(_shared.path)
    path.os = os
    _generic = _kept(genericpath)  # os.path has exists, isfile and others from it
    _generic.os = os
    for _name, _function in vars(genericpath).items():
        if getattr(path, _name, None) is _function and isinstance(_function, _Function):
            setattr(path, _name, getattr(_generic, _name))
    _open = io.open

    def open(*arguments, **keywords):
        """Open a file; if the program has used up its descriptors, one that is reserved for this makes room."""
        while True:
            try:
                return _open(*arguments, **keywords)
            except OSError as error:
                if error.errno != errno.EMFILE or not any(one() for one in spare):
                    raise
