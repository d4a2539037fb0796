"""Check that all frameworks did the same work, before any of their times are compared.

It checks parameter counts and output shapes, layer by layer, against the canonical network; the outputs for the same weights and
images; and the losses of the first training steps. Values that a run did not record are "not available", which is not a pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError

PASS, FAIL, MISSING = "pass", "fail", "not available"
OUTPUT_LIMIT = 1e-4  # largest difference of two logits, relative to the reference's largest absolute logit
LOSS_LIMIT = 1e-3  # largest relative difference of one step's loss
# the factor on both limits for types that round more: f16 and TF32 hold 10 bits behind the leading one and bf16 holds 7, so
# rounding is off by 4.9e-4 and 3.9e-3. On an H200 (docs/gpu), PyTorch and JAX differ by 4.1e-3 for ResNet-50 in bf16
ROUNDING = {"float32": 1.0, "tf32": 50.0, "float16": 50.0, "bfloat16": 300.0}
# the loss limit after the first step for networks that normalise over the batch: rounding grows from step to step (PyTorch's own
# third loss of ResNet-50 in single precision differs from that in double precision by 1.2e-2 with a batch of 8, 5e-3 with 32)
NORMALISED_LIMIT = 3e-2
_MOST_OF_LOSSES = 10.0  # times LOSS_LIMIT, whatever the rounding: a loss is a mean over many outputs
LOSS_STEPS = 3
COLUMNS = ("check", "framework", "status", "value", "limit", "detail")
_VERSION = "version of "
# the frameworks' names of the same setting, and of the same value
_SAME = {
    "memory_format": "layout",
    "default_dtype": "precision",
    "precision_policy": "precision",
    "omp_num_threads": "threads",
    "cudnn_benchmark": "autotune",
    "cudnn_autotune": "autotune",
    "tf32_matmul": "tf32",
}
_SAME_VALUES = {
    "NCHW": "channels first",
    "NHWC": "channels last",
    "channels_first": "channels first",
    "channels_last": "channels last",
}


@dataclass(frozen=True)
class Row:
    """One check of one framework: the value found, the limit that it must keep, and details for the reader."""

    check: str
    framework: str
    status: str
    value: float | int | str | None
    limit: float | int | str | None
    detail: str


@dataclass
class FairnessReport:
    """The result: `rows` of checks and `differences` of settings and versions, which fail no check but explain much.

    rows: columns check, framework, status (pass, fail, not available), value, limit, detail.
    differences: columns setting, then one per framework; null if the framework did not say. Versions are "version of NAME".
    reference: the framework whose outputs and losses the others are compared with; None if no two can be compared.
    """

    rows: pd.DataFrame
    differences: pd.DataFrame
    reference: str | None = None
    failed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.failed = bool((self.rows["status"] == FAIL).any())

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: failed, reference, rows, and differences as {"setting", "values": {framework: value}}."""
        frameworks = [name for name in self.differences.columns if name != "setting"]
        return {
            "failed": self.failed,
            "reference": self.reference,
            "rows": [
                {name: _plain(value) for name, value in zip(COLUMNS, row, strict=True)}
                for row in self.rows[list(COLUMNS)].itertuples(index=False)
            ],
            "differences": [
                {"setting": row["setting"], "values": {name: _plain(row[name]) for name in frameworks}}
                for row in self.differences.to_dict("records")
            ],
        }


def check(checks: Mapping[str, Mapping[str, Any] | None], network: Mapping[str, Any]) -> FairnessReport:
    """Compare the recordings of each framework's check pass.

    checks: for each framework the content of check.json (parameters, layer_shapes, outputs, losses), with `settings` and
    `versions` from child.json; None or missing parts are reported as not available. network: as workloads.networks.as_dict wrote
    it. Raises EvidenceError if they hold values of other types than were written.
    """
    try:
        return _checked(checks, network)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise EvidenceError(
            f"check.json of {', '.join(checks)}: not as it was written ({error}); record the run again"
        ) from error


def _checked(checks: Mapping[str, Mapping[str, Any] | None], network: Mapping[str, Any]) -> FairnessReport:
    result = {name: dict(values or {}) for name, values in checks.items()}
    rounding = max((ROUNDING[arithmetic(values)] for values in result.values()), default=1.0)
    reference = next((name for name, values in result.items() if values.get("outputs")), None)
    rows = [_parameters(name, values.get("parameters"), network) for name, values in result.items()]
    rows += [_shapes(name, values.get("layer_shapes"), network) for name, values in result.items()]
    rows += _outputs({name: values.get("outputs") for name, values in result.items()}, reference, rounding * OUTPUT_LIMIT)
    normalised = any(layer["type"] == "batch_norm" for layer in network["layers"])
    losses = {name: values.get("losses") for name, values in result.items()}
    first = min(rounding, _MOST_OF_LOSSES) * LOSS_LIMIT
    rows += _losses(losses, first, max(NORMALISED_LIMIT if normalised else LOSS_LIMIT, first))
    table = pd.DataFrame([[getattr(row, name) for name in COLUMNS] for row in rows], columns=list(COLUMNS), dtype=object)
    comparable = sum(1 for values in result.values() if values.get("outputs"))
    return FairnessReport(table, differences(result), reference if comparable > 1 else None)


def arithmetic(values: Mapping[str, Any]) -> str:
    """Return the precision of a framework's products, one of ROUNDING: the requested one, or TF32 if a GPU may use it.

    values: as `check` takes them, with `options` (precision, device).
    """
    options, settings = values.get("options") or {}, values.get("settings") or {}
    precision = str(options.get("precision") or "float32")
    if precision != "float32" or options.get("device") in (None, "cpu"):
        return precision if precision in ROUNDING else "float32"
    exact = settings.get("tf32_cudnn") is False or (
        "tf32_cudnn" not in settings and settings.get("matmul_precision") == "highest"
    )
    return "float32" if exact else "tf32"


def differences(checks: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return the settings and versions on which the frameworks do not agree (columns: setting, one per framework).

    Different names of the same setting are merged. First come settings that several frameworks state, then versions, then
    settings that only one framework states.
    """
    stated: dict[str, dict[str, Any]] = {}
    for framework, values in checks.items():
        settings = values.get("settings") or {}
        versions = {f"{_VERSION}{name}": value for name, value in (values.get("versions") or {}).items()}
        for name, value in {**settings, **versions}.items():
            shared = name if _SAME.get(name) in settings else _SAME.get(name, name)
            if value is not None:
                stated.setdefault(shared, {})[framework] = _SAME_VALUES.get(value, value) if isinstance(value, str) else value
    frameworks = list(checks)
    differing = [
        name for name, values in stated.items() if len(values) == 1 or len({repr(value) for value in values.values()}) > 1
    ]
    if len(frameworks) < 2:
        differing = []
    differing.sort(key=lambda name: (not name.startswith(_VERSION) and len(stated[name]) == 1, name.startswith(_VERSION), name))
    rows = [{"setting": name, **{framework: stated[name].get(framework) for framework in frameworks}} for name in differing]
    return pd.DataFrame(rows, columns=["setting", *frameworks], dtype=object)


def _parameters(framework: str, result: Sequence[Mapping[str, Any]] | None, network: Mapping[str, Any]) -> Row:
    """Compare the number of trainable parameters, layer by layer."""
    title, expected = "parameter count", int(network["parameters"])
    if not result:
        return Row(title, framework, MISSING, None, expected, "the check pass recorded no parameters")
    counts: dict[str, int] = {}
    for parameter in result:
        layer = str(parameter["layer"])
        counts[layer] = counts.get(layer, 0) + int(parameter["count"])
    notes, wrong = [], []
    for layer in network["layers"]:
        count, extra = counts.pop(layer["name"], 0), 0
        if layer["type"] == "lstm":
            extra = _second_bias(layer, result)
        if extra:
            notes.append(f"{layer['name']} has two bias vectors, this framework's convention: {extra} more parameters")
        if count != int(layer["parameters"]) + extra:
            wrong.append(f"{layer['name']} has {count} instead of {layer['parameters']}")
    wrong += [f"{name} has {count} and is not a layer of the network" for name, count in counts.items() if count]
    total = sum(int(parameter["count"]) for parameter in result)
    return Row(title, framework, FAIL if wrong else PASS, total, expected, "; ".join(wrong + notes))


def _second_bias(layer: Mapping[str, Any], result: Sequence[Mapping[str, Any]]) -> int:
    """Return the size of a recurrent layer's second bias: some frameworks add a bias per product, others share one."""
    size = 4 * int(layer["settings"]["units"])
    biases = [
        parameter
        for parameter in result
        if parameter["layer"] == layer["name"] and "bias" in str(parameter["name"]).lower() and len(parameter["shape"]) == 1
    ]
    both = len(biases) == 2 and all(int(parameter["count"]) == size for parameter in biases)
    fused = len(biases) == 1 and int(biases[0]["count"]) == 2 * size
    return size if both or fused else 0


def _shapes(framework: str, result: Mapping[str, Sequence[int]] | None, network: Mapping[str, Any]) -> Row:
    """Compare the output shape of every layer but the loss, whose result is a number."""
    title = "layer output shapes"
    expected = {layer["name"]: list(layer["output_shape"]) for layer in network["layers"] if layer["type"] != "loss"}
    limit = f"{len(expected)} layers"
    if not result:
        return Row(title, framework, MISSING, None, limit, "the check pass recorded no shapes")
    wrong = [
        f"{name} is {_shape(result[name])} instead of {_shape(shape)}"
        for name, shape in expected.items()
        if name in result and list(result[name]) != shape
    ]
    absent = [name for name in expected if name not in result]
    equal = len(expected) - len(wrong) - len(absent)
    if absent:
        wrong.append(f"not seen: {', '.join(absent)}")
    status = FAIL if len(wrong) > bool(absent) else MISSING if absent else PASS
    return Row(title, framework, status, f"{equal} equal", limit, "; ".join(wrong))


def _shape(sizes: Sequence[int]) -> str:
    return "x".join(str(size) for size in sizes) or "one number"


def _outputs(outputs: Mapping[str, Any], reference: str | None, limit: float) -> list[Row]:
    """Compare the logits of every framework with the reference's."""
    title = "outputs for the same weights"
    if reference is None:
        return [Row(title, name, MISSING, None, limit, "the check pass recorded no outputs") for name in outputs]
    return [_output(title, name, values, reference, outputs, limit) for name, values in outputs.items()]


def _output(title: str, framework: str, values: Any, reference: str, outputs: Mapping[str, Any], limit: float) -> Row:
    if not values:
        return Row(title, framework, MISSING, None, limit, "the check pass recorded no outputs")
    ours, theirs = np.asarray(values, dtype=np.float64), np.asarray(outputs[reference], dtype=np.float64)
    problem = _unusable(ours)
    if problem is None and ours.shape != theirs.shape:
        problem = f"outputs are {_shape(ours.shape)}, those of {reference} are {_shape(theirs.shape)}"
    if problem is None and (framework != reference) and (broken := _unusable(theirs)):
        return Row(title, framework, MISSING, None, limit, f"cannot be compared: {reference}: {broken}")
    if problem is not None:
        return Row(title, framework, FAIL, None, limit, problem)
    if framework == reference:
        if sum(1 for other in outputs.values() if other) < 2:
            return Row(title, framework, MISSING, None, limit, "no other framework to compare with")
        return Row(title, framework, PASS, 0.0, limit, "the reference of the others")
    difference = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    detail = f"largest difference from {reference}, relative to its largest absolute logit"
    return Row(title, framework, PASS if difference <= limit else FAIL, difference, limit, detail)


def _unusable(values: npt.NDArray[np.float64]) -> str | None:
    """Return why an array of logits cannot be compared, or None."""
    if not np.isfinite(values).all():
        return "outputs hold values that are not finite"
    if not np.abs(values).max(initial=0.0) > 0:
        return "all outputs are zero, so there is nothing to compare"
    return None


def _losses(losses: Mapping[str, Sequence[float] | None], first: float, limit: float) -> list[Row]:
    """Compare the losses of the first training steps with those of the first framework that has them.

    first: the limit for the first step; limit: for the steps after it.
    """
    title = f"losses of the first {LOSS_STEPS} steps"
    usable = {name: list(values)[:LOSS_STEPS] for name, values in losses.items() if values and len(values) >= LOSS_STEPS}
    reference = next(iter(usable), None)
    rows = []
    for name, values in losses.items():
        if name not in usable:
            detail = f"only {len(values)} were recorded" if values else "no training losses were recorded"
            rows.append(Row(title, name, MISSING, None, limit, detail))
            continue
        shown = ", ".join(f"{loss:.6g}" for loss in usable[name])
        if not all(math.isfinite(loss) for loss in usable[name]):
            rows.append(Row(title, name, FAIL, None, limit, f"{shown}: not all are finite"))
        elif name == reference:
            alone = len(usable) < 2
            detail = "no other framework to compare with" if alone else f"{shown}: the reference of the others"
            rows.append(Row(title, name, MISSING if alone else PASS, None if alone else 0.0, limit, detail))
        else:
            rows.append(_loss(title, name, usable[name], str(reference), usable[str(reference)], (first, limit)))
    return rows


def _loss(title: str, name: str, ours: list[float], reference: str, theirs: list[float], limits: tuple[float, float]) -> Row:
    first, limit = limits
    shown = ", ".join(f"{loss:.6g}" for loss in ours)
    if not all(math.isfinite(loss) and loss != 0 for loss in theirs):
        return Row(title, name, MISSING, None, limit, f"{shown}: {reference} has no losses to compare with")
    differences = [abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True)]
    detail = f"{shown}; relative to those of {reference}"
    if differences[0] > first:
        return Row(title, name, FAIL, differences[0], first, detail + ", the first step")
    return Row(title, name, PASS if max(differences) <= limit else FAIL, max(differences), limit, detail)


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: null for missing and non-finite values."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
