"""The level of abstraction at which a framework is programmed: library calls, a framework, or an interface on top of one."""

from __future__ import annotations

LEVELS = ("library", "framework", "interface")
MEANING = {
    "library": "calls of a library of primitives (cuDNN, oneDNN)",
    "framework": "a framework's own interface",
    "interface": "an interface on top of a framework (Keras, Lasagne)",
}
_LIBRARIES = ("cudnn", "onednn")
_ON_TOP = ("keras", "lasagne")


def level(framework: str) -> str:
    """Return the level, one of LEVELS, of a framework named as in `run -f`; unknown ones count as frameworks."""
    name = framework.partition("-")[0]
    return "library" if name in _LIBRARIES else "interface" if name in _ON_TOP else "framework"
