"""Wrapped functions are as before once they are unwrapped."""

from __future__ import annotations

from kernelscope.tracer.inside.profiling.patches import Patches


class _Base:
    def call(self) -> str:
        """Documented."""
        return "base"


class _Derived(_Base):
    pass


def test_wrappers_leave_nothing_behind() -> None:
    patches, before = Patches(), vars(_Base)["call"]
    for owner in (_Base, _Derived):
        patches.wrap(owner, "call", lambda original: lambda self: original(self) + "!")
    assert _Derived().call() == "base!!"
    assert _Derived.call.__doc__ == "Documented."
    patches.undo()
    assert vars(_Base)["call"] is before
    assert "call" not in vars(_Derived)


def test_a_wrapper_that_somebody_wrapped_stays() -> None:
    patches = Patches()
    patches.wrap(_Derived, "call", lambda original: lambda self: original(self) + "!")
    ours = _Derived.call
    theirs = lambda self: "<" + ours(self) + ">"  # noqa: E731
    _Derived.call = theirs  # type: ignore[method-assign]
    patches.undo()
    assert _Derived().call() == "<base!>"
    del _Derived.call
