"""The fairness checks: what agrees passes, what differs fails, and what is missing is neither."""

import copy
import json

import pytest

from kernelscope.analysis.accounting import fairness
from kernelscope.workloads import networks

LENET = networks.as_dict(networks.get("lenet"))
LSTM = networks.as_dict(networks.get("lstm"))


def _check(network, scale=1.0):
    """Return what a framework's check pass records when all is well."""
    parameters = [
        {"layer": layer.name, "name": parameter.name, "shape": list(parameter.shape), "count": networks.elements(parameter.shape)}
        for layer in networks.get(network["name"]).layers
        for parameter in layer.parameters
    ]
    shapes = {layer["name"]: layer["output_shape"] for layer in network["layers"] if layer["type"] != "loss"}
    return {
        "parameters": parameters,
        "layer_shapes": shapes,
        "outputs": [[0.5 * scale, -2.0], [1.0, 0.25]],
        "losses": [2.3, 2.2, 2.1],
        "settings": {"threads": 2, "execution": "eager"},
        "versions": {"numpy": "1.23.5"},
    }


def _status(report, check, framework):
    rows = report.rows[(report.rows["check"].str.startswith(check)) & (report.rows["framework"] == framework)]
    assert len(rows) == 1
    return rows.iloc[0]


def test_equal_frameworks_pass_every_check():
    report = fairness.check({"a": _check(LENET), "b": _check(LENET)}, LENET)
    assert not report.failed
    assert report.reference == "a"
    assert set(report.rows["status"]) == {"pass"}
    assert len(report.rows) == 8
    assert report.differences.empty
    assert _status(report, "parameter", "a")["value"] == 61706


def test_a_missing_layer_parameter_fails_and_is_named():
    other = _check(LENET)
    other["parameters"] = [p for p in other["parameters"] if (p["layer"], p["name"]) != ("conv1", "bias")]
    report = fairness.check({"a": _check(LENET), "b": other}, LENET)
    row = _status(report, "parameter", "b")
    assert report.failed
    assert row["status"] == "fail"
    assert "conv1 has 150 instead of 156" in row["detail"]


def test_swapped_counts_fail_although_the_total_is_right():
    other = _check(LENET)
    for parameter in other["parameters"]:
        parameter["layer"] = {"fc1": "fc2", "fc2": "fc1"}.get(parameter["layer"], parameter["layer"])
    row = _status(fairness.check({"a": _check(LENET), "b": other}, LENET), "parameter", "b")
    assert (row["status"], row["value"]) == ("fail", 61706)


def test_parameters_of_an_unknown_layer_fail():
    other = _check(LENET)
    other["parameters"].append({"layer": "extra", "name": "scale", "shape": [3], "count": 3})
    assert "extra has 3" in _status(fairness.check({"a": other}, LENET), "parameter", "a")["detail"]


@pytest.mark.parametrize("biases", [[512, 512], [1024]])
def test_a_second_bias_of_a_recurrent_layer_is_a_convention_and_said_to_be(biases):
    other = _check(LSTM)
    other["parameters"] = [p for p in other["parameters"] if (p["layer"], p["name"]) != ("lstm1", "bias")]
    other["parameters"] += [{"layer": "lstm1", "name": f"bias_{i}", "shape": [n], "count": n} for i, n in enumerate(biases)]
    row = _status(fairness.check({"a": _check(LSTM), "b": other}, LSTM), "parameter", "b")
    assert row["status"] == "pass"
    assert "two bias vectors" in row["detail"]
    assert "512" in row["detail"]


def test_shapes_that_differ_fail_and_unseen_layers_are_not_available():
    other = _check(LENET)
    other["layer_shapes"] = {**other["layer_shapes"], "pool1": [6, 13, 13]}
    partial = _check(LENET)
    partial["layer_shapes"] = {name: shape for name, shape in partial["layer_shapes"].items() if name != "flatten"}
    report = fairness.check({"a": _check(LENET), "b": other, "c": partial}, LENET)
    assert _status(report, "layer", "b")["status"] == "fail"
    assert "pool1 is 6x13x13 instead of 6x14x14" in _status(report, "layer", "b")["detail"]
    assert _status(report, "layer", "c")["status"] == "not available"
    assert "flatten" in _status(report, "layer", "c")["detail"]


@pytest.mark.parametrize(("change", "status"), [(1.9e-4, "pass"), (2.1e-4, "fail")])
def test_outputs_are_compared_relative_to_the_largest_logit(change, status):
    other = _check(LENET)
    other["outputs"][1][1] += change  # the largest logit is 2
    row = _status(fairness.check({"a": _check(LENET), "b": other}, LENET), "outputs", "b")
    assert row["status"] == status
    assert row["value"] == pytest.approx(change / 2)
    assert "relative to its largest absolute logit" in row["detail"]


@pytest.mark.parametrize(("change", "status"), [(0.9e-3, "pass"), (1.1e-3, "fail")])
def test_losses_are_compared_relative_to_the_reference(change, status):
    other = _check(LENET)
    other["losses"][2] *= 1 + change
    row = _status(fairness.check({"a": _check(LENET), "b": other}, LENET), "losses", "b")
    assert row["status"] == status
    assert row["value"] == pytest.approx(change)


@pytest.mark.parametrize(
    ("changes", "status", "limit"),
    [
        ((0, 0, 0.02), "pass", 0.03),
        ((0, 0, 0.04), "fail", 0.03),
        ((0.0009, 0, 0), "pass", 0.03),
        ((0.002, 0, 0), "fail", 0.001),  # nothing was trained yet
    ],
)
def test_losses_behind_the_first_may_differ_more_where_batches_are_normalised(changes, status, limit):
    network = networks.as_dict(networks.get("resnet50_cifar10"))
    other = _check(network)
    other["losses"] = [loss * (1 + change) for loss, change in zip(other["losses"], changes, strict=True)]
    row = _status(fairness.check({"a": _check(network), "b": other}, network), "losses", "b")
    assert (row["status"], row["limit"]) == (status, limit)


@pytest.mark.parametrize("outputs", [[[float("nan"), 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0]]])
def test_outputs_that_compare_nothing_fail(outputs):
    other = {**_check(LENET), "outputs": outputs}
    report = fairness.check({"a": _check(LENET), "b": other}, LENET)
    assert _status(report, "outputs", "b")["status"] == "fail"
    assert _status(report, "outputs", "a")["status"] == "pass"


def test_a_broken_reference_fails_itself_and_passes_nobody():
    report = fairness.check({"a": {**_check(LENET), "outputs": [[0.0]]}, "b": _check(LENET)}, LENET)
    assert _status(report, "outputs", "a")["status"] == "fail"
    assert _status(report, "outputs", "b")["status"] != "pass"


@pytest.mark.parametrize("missing", [None, {}])
def test_what_was_not_recorded_is_not_available_and_never_passes(missing):
    report = fairness.check({"a": missing, "b": _check(LENET), "c": _check(LENET)}, LENET)
    assert set(report.rows[report.rows["framework"] == "a"]["status"]) == {"not available"}
    assert report.reference == "b"
    assert not report.failed


def test_inference_has_no_losses_to_compare():
    checks = {"a": _check(LENET), "b": _check(LENET)}
    for values in checks.values():
        del values["losses"]
    report = fairness.check(checks, LENET)
    assert _status(report, "losses", "a")["status"] == "not available"
    assert not report.failed


def test_too_few_losses_are_not_compared():
    report = fairness.check({"a": _check(LENET), "b": {**_check(LENET), "losses": [2.3]}}, LENET)
    assert _status(report, "losses", "b")["status"] == "not available"
    assert "only 1" in _status(report, "losses", "b")["detail"]


def test_one_framework_alone_has_nothing_to_agree_with():
    report = fairness.check({"a": _check(LENET)}, LENET)
    assert report.reference is None
    assert _status(report, "outputs", "a")["status"] == "not available"
    assert _status(report, "losses", "a")["status"] == "not available"
    assert _status(report, "parameter", "a")["status"] == "pass"


def test_settings_and_versions_that_differ_are_listed_and_fail_nothing():
    other = copy.deepcopy(_check(LENET))
    other["settings"] = {"threads": 4, "execution": "eager", "layout": "NHWC"}
    other["versions"] = {"numpy": "1.23.5", "onednn": "3.7.3"}
    report = fairness.check({"a": _check(LENET), "b": other}, LENET)
    listed = {row["setting"]: row["values"] for row in report.as_dict()["differences"]}
    assert listed == {
        "threads": {"a": 2, "b": 4},
        "layout": {"a": None, "b": "channels last"},
        "version of onednn": {"a": None, "b": "3.7.3"},
    }
    assert not report.failed


def test_the_report_as_plain_data_is_json():
    other = {**_check(LENET), "losses": [2.3, float("nan"), 2.1]}
    report = fairness.check({"a": _check(LENET), "b": other, "c": None}, LENET)
    data = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert data["failed"] is True
    assert data["reference"] == "a"
    assert [row["check"] for row in data["rows"]] == report.rows["check"].tolist()
    assert set(data["rows"][0]) == set(fairness.COLUMNS)


def test_settings_that_frameworks_name_differently_are_compared():
    checks = {"a": _check(LENET), "b": _check(LENET), "c": _check(LENET)}
    checks["a"]["settings"] = {"memory_format": "channels first", "default_dtype": "float32", "cudnn_benchmark": False}
    checks["b"]["settings"] = {"layout": "NHWC", "precision_policy": "float32", "cudnn_autotune": None, "engine": "naive"}
    checks["c"]["settings"] = {"layout": "NCHW", "precision": "float32", "cudnn_benchmark": False}
    listed = [(row["setting"], row["values"]) for row in fairness.check(checks, LENET).as_dict()["differences"]]
    assert listed == [
        ("layout", {"a": "channels first", "b": "channels last", "c": "channels first"}),
        ("engine", {"a": None, "b": "naive", "c": None}),
    ]
