"""Short names of kernels: without return type, implementation namespaces, template arguments and parameters.

The template arguments of a general kernel say what it computes: PyTorch's elementwise_kernel (MulFunctor), and thrust's and
cub's kernels (`functors`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

from kernelscope.analysis.kernels import functors, mangled_names
from kernelscope.analysis.kernels.lookup import ANONYMOUS

_LONGEST = 60
_READ = 2000  # characters of a mangled name
_SPLIT = re.compile(r"split_?k", re.IGNORECASE)
_GENERAL = re.compile(r"elementwise_kernel|reduce_kernel|multi_tensor_apply_kernel|foreach|cutlass::Kernel\d?$")
_FUNCTOR = re.compile(
    r"\b(\w*(?:Functor\w*|_kernel_cuda|_cuda_kernel|_kernel_impl|KernelImpl|copy_device_to_device|Ops|cutlass_\w{6,60}))\b"
)
_WRAPPERS = {"BinaryFunctor", "UnaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "func_wrapper_t", "ReduceOp"}
_TENSILE = re.compile(r"(?:Custom_)?Cijk_\w+?_MT\d+x\d+x\d+")
# kernels of cuDNN's generator: template arguments hold the direction and the instruction
_XMMA = re.compile(
    r"xmma_cudnn::\S*?implicit_gemm::(?P<way>(?:strided_)?[dw]?f?(?:prop|grad)\w*?)::.*?_(?P<type>\w+?)_traits", re.DOTALL
)
_TILE = re.compile(r"Cta_tile<[\w:]+, \(int\)(\d+), \(int\)(\d+), \(int\)(\d+)")
# cuBLAS's and cuDNN's kernels of the same generator: what, (types, skipped), which operands are transposed, tile
_TILED = re.compile(
    r"(?P<what>sm\d+_xmma_[a-z]+(?:_[a-z]+)*)_\w*?(?:_(?P<operands>[nt]{2}_[nt]))?_tilesize(?P<tile>\d+x\d+x\d+)_\w*"
)
_HELD = re.compile(r"(ck_tile::kentry\w*)<[^A-Za-z]*(?:\w+::)*(\w+)")  # AMD's: its first type argument is what it runs
# TensorRT's layers: names that are joined, its copies, and parentheses that hold no parameters
_COPY_OF = re.compile(r" (?:in|out)put reformatter \d+$")
_LAYER = re.compile(
    rf"^(?:PWN\(|\{{|\(Unnamed Layer|Reformatting CopyNode )|[^<>] (?:\+|\|\|) |{_COPY_OF.pattern}"
    r"|^(?!void |Mem(?:cpy|set))[\w/.:-]+ \((?!(?:bool|char|const|double|float|int|long|short|unsigned|void)\b)\w+\)$"
)
# Python's functions, as "file: function": angle brackets hold no template arguments there (<lambda>, <module>, <string>)
_PYTHON = re.compile(r"(?:\.py[xw]?|>): \S|: <\w+>(?: at line \d+)?$")
_RETURN = re.compile(r"^(?:void|std::enable_if<.{0,300}?>::type) (?=\S)")
_WORD = re.compile(r"\w+")
_PART = re.compile(r"[^\W_]+")
_TYPES = {"bool", "char", "const", "double", "float", "int", "long", "short", "unsigned", "void"}  # they say little
_TOLD = 60  # characters of the words that tell kernels apart
_WORDS = 6  # most of these words
_TEMPLATE = re.compile(r"<[^<>]*>")


def short(name: object) -> str:
    """Return a kernel's short name: without its return type, template arguments and parameters.

    For a general kernel, such as PyTorch's elementwise ones, include what it computes: elementwise_kernel (MulFunctor).
    """
    if _PYTHON.search(str(name)[:_READ]):
        return _of_python(str(name))
    text = functors.without_note(str(name))
    text = _unmangled(text) if mangled_names.is_mangled(text) else text
    plain = _plain(text)
    if held := _HELD.search(text[:2000]):
        return f"{held[1]} ({held[2]})"
    if told := functors.short(text, plain):
        return told
    result = [one for one in _FUNCTOR.findall(text[:2000]) if one not in _WRAPPERS and one != plain]
    return f"{plain} ({result[-1]})" if result and _GENERAL.search(plain) else plain


def apart(names: Iterable[str]) -> dict[str, str]:
    """Return, for each kernel that shares its short name, the words of its full name that tell it apart from the others.

    Kernels with a short name of their own are left out. Kernels that no words tell apart are numbered.
    """
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault(short(name), []).append(name)
    result: dict[str, str] = {}
    for same in alike.values():
        if len(same) > 1:
            told = _own_words(same, _WORD)
            if max(map(len, told)) > _TOLD:  # a generated name is a single word
                told = _own_words(same, _PART)
            numbered = Counter(told)
            for place, (name, words) in enumerate(zip(same, told, strict=True), start=1):
                result[name] = words if words and numbered[words] == 1 else f"{words} (variant {place})".strip()
    return result


def _unmangled(name: str) -> str:
    """Return a mangled name as text, without its parameters' types, which follow after a comma."""
    text = mangled_names.readable(name)[:_READ]
    depths = accumulate((char == "<") - (char == ">") for char in text)
    end = next(
        (place for place, (char, depth) in enumerate(zip(text, depths, strict=True)) if char == "," and depth <= 0), len(text)
    )
    return text[:end]


def _own_words(names: list[str], word: re.Pattern[str]) -> list[str]:
    """Return, for each name, the words that not all names have as often: as few as tell most of the names apart."""
    words = [word.findall(name) for name in names]
    common = Counter(words[0])
    for one in words[1:]:
        common &= Counter(one)
    own = []
    for one in words:
        left, mine = common.copy(), []
        for text in one:
            if left[text]:
                left[text] -= 1
            else:
                mine.append(text)
        own.append(mine)
    speaking = [[text for text in one if text not in _TYPES] for one in own]
    said = [[" ".join(one[:most]) for one in kept] for kept in (speaking, own) for most in range(1, _WORDS + 1)]
    return max(said, key=lambda texts: len(set(texts)))  # the shortest that tells most of them apart


def _of_python(name: str) -> str:
    """Return a function's name with its file; of a long one, without the first folders."""
    while len(name) > _LONGEST and "/" in name:
        name = name.partition("/")[2]
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"


def _of_layer(name: str) -> str:
    """Return a layer's name, cut if it is long; what says that it is a copy for another layer is kept."""
    end = copy[0] if (copy := _COPY_OF.search(name[:_READ])) else ""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - len(end)]}…{end}"


def _plain(name: object) -> str:
    if generated := _XMMA.search(str(name)[:2000]):
        tile = _TILE.search(str(name)[:2000])
        size = f" {'x'.join(tile.groups())}" if tile else ""
        return f"xmma {generated['way'].replace('_indexed', '')}{size} ({generated['type']})"
    if tiled := _TILED.match(str(name)[:2000]):
        operands = f"_{tiled['operands']}" if tiled["operands"] else ""
        return f"{tiled['what']}{operands} {tiled['tile']}" + (" split-k" if _SPLIT.search(str(name)) else "")
    if tensile := _TENSILE.match(str(name)):
        return tensile[0]
    if _LAYER.search(str(name)[:2000]):
        return _of_layer(str(name))
    plain = _RETURN.sub("", ANONYMOUS.sub("", str(name)))
    text = plain.split("(", 1)[0] or plain
    for _ in range(6):
        shorter = _TEMPLATE.sub("", text)
        if shorter == text:
            break
        text = shorter
    text = text.split("<", 1)[0].removeprefix("at::native::").strip() or str(name)[:_LONGEST]
    if len(text) <= _LONGEST:
        return text
    return text[:_LONGEST] + ("… split-k" if _SPLIT.search(text[_LONGEST:]) else "…")  # others of that name may not be
