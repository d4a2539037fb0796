"""Compilation within steps."""

from __future__ import annotations

from typing import Any

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_MOST_NAMED = 2  # functions that are compiled anew
_REMEDIES = {
    "pytorch": "keep shapes the same (pad, or torch.compile(dynamic=True)); TORCH_LOGS=recompiles names what changes",
    "tensorflow": "give tf.function tensors instead of Python numbers, and an input_signature; pad to few shapes",
    "tensorflow 1": "feed few shapes (pad), and add no operators to the graph in the loop: graph.finalize() finds who does",
    "jax": "define the jitted function once, outside of the loop, and keep shapes and static arguments the same; "
    "jax_log_compiles names what changes",
    "": "compile ahead of the measured steps, and keep shapes the same",
}


_OFTEN = 0.3  # compilations a step: fewer are what settles


def anew(subject: Subject) -> list[Advice]:
    """A function is compiled again while the program steps, as its framework reported it."""
    noted, steps = subject.facts.get("compiled"), subject.facts.get("clean_steps")
    if not isinstance(noted, dict) or not steps or noted["count"] < _OFTEN * steps:
        return []
    functions = noted.get("functions") or []
    named = functions[0]["name"] if functions else "a function"
    rows = subject.idle((idle_causes.OPERATOR, idle_causes.COMPILING))
    return [
        Advice(
            "compilation",
            f"{named} is compiled again {_often(noted['count'] / steps)}",
            min(noted["ns"] / steps, subject.step_ns),  # which is a median: a few steps may have compiled for most of that time
            "the time that compiling took in the clean steps",
            [_reason(function) for function in functions[:_MOST_NAMED]],
            words.text(subject, _REMEDIES),
            "",
            words.ids(rows),
        )
    ]


def _often(count: float) -> str:
    return "in each step" if abs(count - 1) < 0.05 else f"{words.count(count)} times a step"


def _reason(function: dict[str, Any]) -> str:
    example = f" ({function['example']})" if function.get("example") else ""
    return f"{function['name']}, {function['count']} times in the clean steps: {function['why']}{example}."


def in_steps(subject: Subject) -> list[Advice]:
    """Nothing computes while code is compiled or loaded."""
    rows = subject.idle((idle_causes.COMPILING,))
    ns = words.time_of(rows)
    named = words.largest(rows[rows["detail"].notna()], "detail")
    return [
        Advice(
            "compilation",
            "code is compiled or loaded within the steps",
            ns,
            "all of it, once nothing is compiled any more",
            [f"It takes {words.share(subject, ns)} {subject.per}{f', in {named}' if named else ''}."],
            words.text(subject, _REMEDIES),
            "",
            words.ids(rows),
        )
    ]


RULES: tuple[Rule, ...] = (anew, in_steps)
