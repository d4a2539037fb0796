"""Layer paths and phases from the full names of TensorFlow's and JAX's operators, without the network at hand.

TensorFlow writes conv1/Conv2D, gradients/conv1/Conv2D_grad/Conv2DBackpropFilter, Adam/update_conv1/kernel/ApplyAdam; JAX writes
jit(step)/jit(main)/transpose(jvp(Net))/Dense_0/dot_general. The last part is the operator's own; wrappers of transformations,
control flow and gradients are not layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from kernelscope.analysis.kernels import classify

# TensorFlow's control operators: they compute nothing, whatever their time contains.
STEERING = (
    r"^(NoOp|_?Arg|_?Retval|_?(Host)?(Send|Recv)|RecvTensor|Identity(N)?|StopGradient|Const|_HostConst|Placeholder\w*"
    r"|(Stateless|Stateful)?PartitionedCall|(Stateless)?(While|If|Case)|(Ref)?(Switch|Merge|Enter|Exit|NextIteration)|LoopCond"
    r"|SymbolicGradient|RemoteCall|VariableV?2?|VarHandleOp|Unknown|unknown)$"
)

_OPTIMIZER = re.compile(
    r"^(sgd|rms_?prop|adam\w{0,8}|adagrad\w{0,4}|adadelta|nadam|ftrl|momentum|gradientdescent|lion|lamb|optimizer)(_\d+)?$", re.I
)
_UPDATE = re.compile(r"^(Resource)?(Sparse)?Apply[A-Z]")
_BACKWARD = re.compile(r"(^|/)(gradient_tape|gradients)(_\d+)?/|_grad(_\d+)?(/|$)|transpose\(")
_GRADIENTS = re.compile(r"^(gradient_tape|gradients)(_\d+)?$|_grad(_\d+)?$")
_WRAPPED = re.compile(r"^(?:transpose\()?jvp\((?P<name>\w*)\)\)?$")
_NO_LAYER = re.compile(
    r"^(while|body|cond|scan|closed_call|core_call|checkpoint|remat\d*|rematted_computation|shard_map|custom_[jv][vj]p_call|pjit"
    r"|branch_\d+_fun|XlaModule:?|cluster_\d+)$"
)


@dataclass(frozen=True)
class ScopeParts:
    """A layer's path and the phase; None where the name does not give them."""

    layer: str | None
    phase: str | None


def describe(scope: str, type_name: str = "") -> ScopeParts:
    """Return the layer and phase given by an operator's full name and type."""
    parts = scope.rstrip(":").split("/")
    is_jax = "(" in scope
    if _UPDATE.match(type_name) or any(_OPTIMIZER.match(part) for part in parts[:-1]):
        return ScopeParts(None, "optimizer")
    phase = "backward" if _BACKWARD.search(scope) else "forward" if "jvp(" in scope else None
    layer = "/".join(_jax_parts(parts[:-1]) if is_jax else _tensorflow_parts(parts[:-1]))
    return ScopeParts(layer or None, phase)


def columns(scopes: pd.Series, types: pd.Series) -> dict[str, pd.Series]:
    """Return layer, phase and attribution of many operators, aligned with `scopes`; each distinct one is parsed once.

    scopes and types may hold nulls.
    """
    pairs = pd.MultiIndex.from_arrays([scopes.astype("string").fillna(""), types.astype("string").fillna("")])
    codes, distinct = pd.factorize(pairs)
    texts = described((str(scope), str(name)) for scope, name in distinct)
    return {name: values.take(codes).set_axis(scopes.index) for name, values in texts.items()}


def described(operators: Iterable[tuple[str, str]]) -> dict[str, pd.Series]:
    """Return layer, phase and attribution of operators given by their scope and type."""
    result = [describe(scope, name) for scope, name in operators]
    columns = {
        "layer": [one.layer for one in result],
        "phase": [one.phase for one in result],
        "attribution": ["operator name" if one.layer else "none" for one in result],
    }
    return {name: pd.Series(values, dtype="string") for name, values in columns.items()}


def kinds(types: pd.Series, phases: pd.Series) -> pd.Series:
    """Return the kinds of operators that stand for their kernels, null if the type does not say; aligned with `types`."""
    result = classify.kinds(types.astype("string"), phases.astype("string"))
    return result.mask(result == classify.UNKNOWN)


def _tensorflow_parts(parts: list[str]) -> list[str]:
    """Return the scopes before the first operator: TensorFlow's operators begin with a capital or an underscore."""
    kept: list[str] = []
    for part in parts:
        if _GRADIENTS.search(part) or _NO_LAYER.match(part):
            continue
        if part[:1].isupper() or part[:1] in ("_", "", "^"):
            break
        kept.append(part)
    return kept


def _jax_parts(parts: list[str]) -> list[str]:
    """Return the scopes without transformations; a differentiated scope keeps its name."""
    kept = []
    for part in parts:
        wrapped = _WRAPPED.match(part)
        name = wrapped["name"] if wrapped else "" if "(" in part or _NO_LAYER.match(part) else part
        if name:
            kept.append(name)
    return kept
