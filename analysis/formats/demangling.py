"""C++ names of kernels as source has them."""

from __future__ import annotations

import demangle

_LONGEST = 20_000  # characters of a mangled name


def demangled(name: str) -> str:
    """Return a C++ name as written in source (in the way of c++filt), or the name itself where it is none."""
    if not name.startswith("_Z") or len(name) > _LONGEST:
        return name
    return demangle.demangle(name, language="itanium", style="gnu")
