"""Wrapped functions are as before once they are unwrapped, and those whose code is wrapped stay the same objects."""

from __future__ import annotations

import inspect
import pickle
import sys
import types

import pytest

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


# --- the code of functions ----------------------------------------------------------------------------------------------------


def scaled(value, factor=2, *, offset=0):
    """Return a value, scaled."""
    return value * factor + offset


def closure():
    kept = 3

    def inside(value):
        return value + kept

    return inside


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("made")
    function = types.FunctionType(scaled.__code__, {**globals(), "__name__": "made"}, "scaled", scaled.__defaults__)
    function.__kwdefaults__ = dict(scaled.__kwdefaults__)
    function.__module__ = "made"
    made.scaled, made.inside = function, closure()
    monkeypatch.setitem(sys.modules, "made", made)
    return made


def doubling(calls):
    def make(original):
        def called(*arguments, **keywords):
            calls.append(arguments)
            return 2 * original(*arguments, **keywords)

        return called

    return make


def test_a_function_whose_code_is_wrapped_stays_the_same_object(module):
    function, calls, patches = module.scaled, [], Patches()
    before = function.__code__, function.__kwdefaults__, dict(vars(function)), inspect.signature(function)
    patches.wrap_code(module, "scaled", doubling(calls))
    assert module.scaled is function
    assert function(3, offset=1) == module.scaled(3, 2, offset=1) == 14
    assert calls == [(3,), (3, 2)]
    assert pickle.loads(pickle.dumps(function)) is function
    assert inspect.signature(function) == before[3]
    patches.undo()
    assert (function.__code__, function.__kwdefaults__, vars(function), inspect.signature(function)) == before
    assert function(3, offset=1) == 7
    assert len(calls) == 2


def test_a_function_of_another_functions_variables_stays_the_same_object(module):
    """Such as one that a decorator made, whose own function is `__wrapped__`."""
    function, patches = module.inside, Patches()
    function.__wrapped__ = scaled
    patches.wrap_code(module, "inside", doubling([]))
    assert module.inside is function
    assert function(1) == 8
    assert inspect.unwrap(function) is scaled
    patches.undo()
    assert function(1) == 4
    assert function.__wrapped__ is scaled


def test_what_somebody_else_changed_since_stays(module):
    patches, theirs = Patches(), (lambda: 5).__code__
    patches.wrap_code(module, "scaled", doubling([]))
    module.scaled.__code__ = theirs
    patches.undo()
    assert module.scaled.__code__ is theirs


def test_code_is_wrapped_twice_and_restored(module):
    calls, first, second = [], Patches(), Patches()
    first.wrap_code(module, "scaled", doubling(calls))
    second.wrap_code(module, "scaled", doubling(calls))  # replaced, as ours is there already
    assert module.scaled(1) == 8
    second.undo()
    assert module.scaled(1) == 4
    first.undo()
    assert module.scaled(1) == 2
