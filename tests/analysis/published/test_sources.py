import csv

import pytest

from kernelscope.analysis import published
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.published import sources

VALUES = published.values()


def found(**keys):
    return [value for value in VALUES if all(getattr(value, key) == wanted for key, wanted in keys.items())]


def test_every_row_of_the_files_is_a_value_and_empty_ones_are_null():
    thesis, eleven = found(source="thesis"), found(source="eleven")
    assert (len(thesis), len(eleven)) == (675, 56)
    assert sum(value.value is None for value in thesis) == 90
    assert {value.note for value in thesis if value.value is None} == {"not run"}
    assert {(value.framework, value.hardware) for value in eleven if value.value is None} == {("Julia – Knet", "1xP100")}  # noqa: RUF001


def test_a_sum_over_the_file_itself_agrees():
    with (sources.DATA / "thesis.csv").open(encoding="utf8", newline="") as lines:
        column = [float(row["value"]) for row in csv.DictReader(lines) if row["value"]]
    assert sum(value.value for value in found(source="thesis") if value.value is not None) == sum(column)


def test_units_hardware_and_names_are_kept_and_mapped():
    (value,) = found(source="thesis", network="LeNet", framework="Caffe", hardware="1xP100", metric="throughput")
    assert (value.value, value.unit, value.dataset, value.our_framework) == (42588.0, "images/s", "MNIST", None)
    assert (value.our_network, value.our_mode, value.device, value.devices) == ("lenet", "train", "cuda", 1)
    assert {value.our_network for value in found(dataset="CIFAR10", network="ResNet50")} == {"resnet50_cifar10"}
    assert {value.our_framework for value in found(source="eleven", framework="Pytorch")} == {"pytorch"}
    assert {value.devices for value in found(hardware="2xK20m")} == {2}


def test_what_is_odd_is_said_and_kept_from_comparisons():
    memory = found(source="thesis", hardware="cpu", metric="gpu_memory")
    assert {value.value for value in memory} == {0.0, None}
    assert not any(value.comparable for value in memory)
    idle = [value for value in found(source="thesis", hardware="cpu", metric="gpu_power") if value.value is not None]
    assert {value.note for value in idle} == {"the power of the GPU, which was idle"}
    slower = [value for value in VALUES if "slower than one GPU" in value.note]
    assert len(slower) == 10
    assert ("CIFAR10", "GoogLeNet", "Caffe", "2xP100") in {(v.dataset, v.network, v.framework, v.hardware) for v in slower}


def test_statements_are_joined_where_calls_span_lines():
    fit = {run: next(s for s in published.statements(run) if s.source.startswith("model.fit(")) for run in published.line_runs()}
    assert fit["keras_tensorflow_cpu"].time_us == 2 + 1 + 1326038
    assert fit["keras_mxnet_mkl_cpu"].time_us == 2 + 0 + 643038
    assert fit["keras_mxnet_gpu"].time_us is None, "the table lacks the line that has the time"
    assert fit["keras_tensorflow_cpu"].source.endswith("callbacks=[time_callback])")
    times = {value.hardware: value.value for value in found(source="keras_backends", framework="Keras(TF)")}
    assert times == {"cpu": pytest.approx(1.326041), "1xGPU": pytest.approx(0.972182)}


def test_sources_are_named_for_every_value():
    assert {value.source for value in VALUES} == set(published.SOURCES)
    readme = (sources.DATA / "README.md").read_text(encoding="utf8")
    assert all(file.name in readme for file in sources.DATA.glob("*.csv"))


def test_a_damaged_file_is_named(tmp_path, monkeypatch):
    (tmp_path / "thesis.csv").write_text(
        "dataset,network,framework,hardware,metric,value,unit,note\nMNIST,LeNet,CNTK,cpu,throughput,1.2.3,images/s,\n"
    )
    monkeypatch.setattr(sources, "DATA", tmp_path)
    with pytest.raises(EvidenceError, match=r"thesis\.csv:2: '1\.2\.3' is not a number; install kernelscope again"):
        sources.values.__wrapped__()
