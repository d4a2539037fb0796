"""Short names of thrust's and cub's kernels, with the user's functor: thrust::launch_by_value (saxpy_functor, float)."""

from __future__ import annotations

import re

_LOOKED_AT = 4000  # characters of a name
_KERNEL = re.compile(r"(?:\w+::)*(?:thrust|cub)::")
_INSIDE = re.compile(r"^thrust::(?:\w+::)+(?=\w+$)")
# the rest of a name whose beginning was cut off, maybe after a note that replaced it: //slow <saxpy_functor>, void>, ...
_REST = re.compile(r"(?://[^<>(]*?\s)?<?(?P<functor>[A-Za-z_]\w*(?:::\w+)*)>")
_NOTE = re.compile(r"^//[^<>(]*?\bvoid (?=\w)")
_UNNAMED = re.compile(r"(?:\(anonymous namespace\)|<unnamed>)::")

_NAME = re.compile(r"(?<![\w:])[A-Za-z_]\w*(?:::\w+)*")
_WRAPPED = re.compile(r"(?:wrapped_function|_functor)<([A-Za-z_]\w*(?:::\w+)*)")
_LIBRARIES = {"thrust", "cub", "std", "cuda", "at_cuda_detail", "at", "c10"}
_NUMBERS = re.compile(
    r"bool|const|double|float|half|long|signed|unsigned|void|size_t|ptrdiff_t|u?(?:char|short|int|long|float|double)\d*(?:_t)?"
    r"|true|false|__\w+|T\d+|lambda|instance"
)
# functions that the libraries themselves run: fill_functor, __uninitialized_fill::functor, reduce_partitions
_THEIRS = (r"\b(\w+_functor)<[^<>]*>", r"\b(\w+)::functor<", r"\b(?:closure|_kernel_agent)<[\w:]*?(\w+)[<,]")
_ELEMENT = re.compile(r"<((?:unsigned |signed )?(?:char|short|int|long long|long|float|double|bool|__half|__nv_bfloat16))[,>]")


def without_note(name: str) -> str:
    """Return a name without a note that precedes it: //first void thrust::..."""
    return _NOTE.sub("", name)


def short(name: str, plain: str) -> str | None:
    """Return the short name of a kernel of thrust or cub; None for others. plain: its name without template arguments."""
    text = _UNNAMED.sub("", name[:_LOOKED_AT])
    if "thrust::" not in text and "cub::" not in text:
        return None
    if rest := _REST.match(text):
        return str(rest["functor"])
    if not _KERNEL.match(plain):
        return None
    functor = _functor(text.partition("<")[2])
    return _INSIDE.sub("thrust::", plain) + (f" ({functor})" if functor else "")


def _functor(arguments: str) -> str | None:
    """Return the function that a kernel runs, and the type of its elements: saxpy_functor, float."""
    names: list[str] = [*_WRAPPED.findall(arguments), *_NAME.findall(arguments)]
    users = [name for name in names if name.partition("::")[0] not in _LIBRARIES and not _NUMBERS.fullmatch(name)]
    theirs = [str(found[1]) for found in (re.search(pattern, arguments) for pattern in _THEIRS) if found]
    if not users + theirs:
        return None
    element = _ELEMENT.search(arguments)
    return (users + theirs)[0] + (f", {element[1]}" if element else "")
