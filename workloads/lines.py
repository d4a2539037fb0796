"""Counts the lines of code of a workload: those of its own source that the running mode needs, as a reader would count them.

Blank lines, comments and docstrings do not count. Of the workload's modules, only code that the loop reaches by name counts.
Not counted are functions for the checks alone, the loading of equal weights, the other mode's loop and other networks. Other
networks are modules named after them, unless they contain a function for the running network, and the entries of a table MODELS
under other names, with the modules that are imported for these. A module that stands in for a library's header (BINDINGS =
True) does not count either, because users of the library already have it.

Runs under Python 3.6 with the standard library only.
"""

import ast
import io
import sys
import tokenize
from collections import OrderedDict
from typing import Any, Container, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

_Line = Tuple[int, int]  # a module's number, and a line in it
_PACKAGE = "kernelscope.workloads"
_OURS = ("networks", "data", "files", "lines", "program")  # shared by all frameworks
_ROOTS = ("Program", "prepare", "stream")
_LOADING = "load"  # counts if it creates the layers; otherwise it only gives all frameworks the same weights
_RECORDS = "records"  # modules that write and read data sets are no part of a network and its loop, like the other loaders
_TABLE = "MODELS"  # the name of a program's table from network to builder
_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def count(program: Any, mode: str, network: str, others: Container[str]) -> int:
    """Return the number of lines of a program's modules. others: the names of networks that do not count."""
    sources: Dict[str, str] = OrderedDict()
    for module in _modules(program):
        with io.open(module.__file__, encoding="utf8") as file:
            sources[module.__name__] = file.read()
    left_out = {name for source in sources.values() for name in _only_for_others(source, network)}
    kept = []
    for name, source in sources.items():
        short = name.rpartition(".")[2]
        if short != _RECORDS and name not in left_out and (short not in others or short == network or _defines(source, network)):
            kept.append(source)
    roots = _ROOTS + ((_LOADING,) if getattr(program, "MADE_BY_LOADING", False) else ())
    return count_sources(kept, roots + (mode, network), network)


def count_sources(sources: Iterable[str], roots: Iterable[str], network: Optional[str] = None) -> int:
    """Return the number of lines of code that `roots` reach by name. sources: the modules' texts; network: the running one."""
    pieces = [piece for number, source in enumerate(sources) for piece in _pieces(number, source, network)]
    wanted = set(roots)
    counted: Set[_Piece] = set()
    while True:
        found = [piece for piece in pieces if piece not in counted and piece.reached(wanted, counted)]
        if not found:
            break
        counted.update(found)
        for piece in found:
            wanted |= piece.uses
    return sum(len(piece.lines) for piece in counted)


def code_lines(source: str) -> Set[int]:
    """Return the numbers of the lines that contain code, which excludes blank lines, comments and docstrings."""
    found: Set[int] = set()
    statement: List[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token[0] not in _NO_CODE:
            statement.append(token)
        if token[0] == tokenize.NEWLINE:
            if any(part[0] != tokenize.STRING for part in statement):
                for part in statement:
                    found.update(range(part[2][0], part[3][0] + 1))
            statement = []
    return found


class _Piece(object):
    """A definition: the names that it defines and uses, and its lines. The owner of a method is its class."""

    def __init__(
        self, names: Iterable[str], uses: Iterable[str], lines: Iterable[_Line], owner: Optional["_Piece"] = None
    ) -> None:
        self.names = frozenset(names)
        self.uses = frozenset(uses)
        self.lines = frozenset(lines)
        self.owner = owner

    def reached(self, wanted: Container[str], counted: Container["_Piece"]) -> bool:
        """Return whether it counts: its class, if any, must count, and one of its names must be wanted or special."""
        if self.owner is not None and self.owner not in counted:
            return False
        return any(name in wanted or (self.owner is not None and _special(name)) for name in self.names)


def _special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _modules(program: Any) -> List[Any]:
    """Return the program's own modules: those of its classes and other loaded ones of workloads, except shared and BINDINGS."""
    found: Dict[str, Any] = OrderedDict()
    for owner in type(program).__mro__[:-1]:
        if not _shared(owner.__module__):
            found[owner.__module__] = sys.modules[owner.__module__]
    for name, module in sorted(sys.modules.items()):
        if name.startswith(_PACKAGE + ".") and getattr(module, "__file__", None) and not _shared(name):
            found[name] = module
    return [module for module in found.values() if not getattr(module, "BINDINGS", False)]


def _shared(module: str) -> bool:
    """Return whether a module is one of those that all frameworks share."""
    return any(module == one or module.startswith(one + ".") for one in (_PACKAGE + "." + name for name in _OURS))


def _defines(source: str, network: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == network for node in ast.parse(source).body)


def _entries(node: ast.AST) -> Dict[str, ast.expr]:
    """Return {network: the expression that builds it} if the statement defines the table of networks, else {}."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not isinstance(node.value, ast.Dict) or _made(node) != [_TABLE]:
        return {}
    return {ast.literal_eval(key): value for key, value in zip(node.value.keys, node.value.values) if key is not None}


def _only_for_others(source: str, network: str) -> Set[str]:
    """Return the names of the modules that a module imports only for other networks' entries in its table."""
    body = ast.parse(source).body
    entries = {name: value for node in body for name, value in _entries(node).items()}
    own = _used(entries[network]) if network in entries else set()
    other = {used for value in entries.values() for used in _used(value)} - own
    left_out: Set[str] = set()
    kept: Set[str] = set()
    for node in body:
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names if isinstance(node, ast.ImportFrom) and module else []:
            names = {module, module + "." + alias.name}  # an object of that module, or a module itself
            (left_out if (alias.asname or alias.name) in other else kept).update(names)
    return left_out - kept


def _pieces(number: int, source: str, network: Optional[str]) -> List[_Piece]:
    """Return the definitions of a module; number: the module's, which distinguishes its lines from those of others."""
    code = code_lines(source)
    found = []
    for node, first, last in _spans(ast.parse(source).body, len(source.splitlines()) + 1):
        lines = {(number, line) for line in code if first <= line < last}
        entry = _entries(node).get(network or "")
        if isinstance(node, ast.ClassDef):
            found.extend(_class_pieces(node, lines, last))
        elif entry is not None:
            at = [part.lineno for part in ast.walk(entry) if hasattr(part, "lineno")]
            found.append(_Piece([_TABLE], _used(entry), {line for line in lines if min(at) <= line[1] <= max(at)}))
        else:
            found.append(_Piece(_made(node), _used(node), lines))
    return found


def _class_pieces(node: ast.ClassDef, lines: Set[_Line], last: int) -> List[_Piece]:
    """Return a class and its methods as definitions. lines: all its (module, line); last: the line after its last one."""
    inner = list(_spans(node.body, last))
    methods = [(part, start, end) for part, start, end in inner if isinstance(part, ast.FunctionDef)]
    own = {line for line in lines if not any(start <= line[1] < end for _, start, end in methods)}
    bases = {name for base in node.bases for name in _used(base)}
    plain = {name for part, _, _ in inner if not isinstance(part, ast.FunctionDef) for name in _used(part)}
    owner = _Piece([node.name], bases | plain, own)
    found = [owner]
    for method, start, end in methods:
        found.append(_Piece([method.name], _used(method), {line for line in lines if start <= line[1] < end}, owner))
    return found


def _spans(body: Sequence[ast.stmt], end: int) -> Iterator[Tuple[ast.stmt, int, int]]:
    """Yield (statement, first line, line after the last one) of a body that ends before line `end`."""
    starts = [min([node.lineno] + [one.lineno for one in getattr(node, "decorator_list", [])]) for node in body]
    for node, first, last in zip(body, starts, starts[1:] + [end]):
        yield node, first, last


def _made(node: ast.AST) -> List[str]:
    """Return the names that a module's statement defines; imports of our own modules or of types count as none."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    if isinstance(node, ast.ImportFrom):
        left_out = node.module == "typing" or (node.module or "").startswith(_PACKAGE)
        return [] if left_out else [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    return []


def _used(node: ast.AST) -> Set[str]:
    """Return the names that a piece of code uses, except in annotations."""
    names = set()
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Name):
            names.add(part.id)
        elif isinstance(part, ast.Attribute):
            names.add(part.attr)
        for field, value in ast.iter_fields(part):
            if field not in ("annotation", "returns"):
                pending.extend(one for one in (value if isinstance(value, list) else [value]) if isinstance(one, ast.AST))
    return names
