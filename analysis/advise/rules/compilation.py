"""Compilation within steps."""

from __future__ import annotations

from typing import Any

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_MOST_NAMED = 2  # recompiled functions that are named
_REMEDIES = {
    "pytorch": "keep shapes constant (pad, or torch.compile(dynamic=True)); TORCH_LOGS=recompiles shows what changes",
    "tensorflow": "give tf.function tensors instead of Python numbers, and an input_signature; pad to few shapes",
    "tensorflow 1": "feed few shapes (pad), and add no operators to the graph in the loop: graph.finalize() finds code that does",
    "jax": "define the jitted function once, outside the loop, and keep shapes and static arguments constant; "
    "jax_log_compiles shows what changes",
    "": "compile before the measured steps, and keep shapes constant",
}
_OFTEN = 0.3  # compilations a step: fewer are the end of warm-up


def anew(subject: Subject) -> list[Advice]:
    """A function is recompiled while the program steps, as its framework reported."""
    noted, steps = subject.facts.get("compiled"), subject.facts.get("clean_steps")
    if not isinstance(noted, dict) or not steps or noted["count"] < _OFTEN * steps:
        return []
    functions = noted.get("functions") or []
    named = functions[0]["name"] if functions else "a function"
    rows = subject.idle((idle_causes.OPERATOR, idle_causes.COMPILING))
    return [
        Advice(
            "compilation",
            f"{named} is recompiled {_often(noted['count'] / steps)}",
            min(noted["ns"] / steps, subject.step_ns),  # the step is a median: a few steps may have compiled most of that time
            "the time spent on compilation in the clean steps",
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
            "all of it, if nothing is compiled in the steps",
            [f"It takes {words.share(subject, ns)} {subject.per}{f', in {named}' if named else ''}."],
            words.text(subject, _REMEDIES),
            "",
            words.ids(rows),
        )
    ]


RULES: tuple[Rule, ...] = (anew, in_steps)
