"""C++ names of kernels as in the source."""

from __future__ import annotations

import demangle

_LONGEST = 20_000  # characters of a mangled name


def demangled(name: str) -> str:
    """Return a mangled C++ name as in the source, as c++filt prints it; return any other name unchanged."""
    if not name.startswith("_Z") or len(name) > _LONGEST:
        return name
    return demangle.demangle(name, language="itanium", style="gnu")
