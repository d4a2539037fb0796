"""Ceilings: measured for real with numpy of this interpreter, kept, measured again when the machine was busy, never fatal."""

import json
import sys
from pathlib import Path

import pytest

from kernelscope.tracer.inside import ceilings as inside
from kernelscope.tracer.outside import ceilings, environments
from kernelscope.tracer.outside.environments import Environment

HERE = Environment("cntk", Path(sys.executable), "2.7")  # measured with this interpreter's numpy


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELSCOPE_HOME", str(tmp_path / "home"))


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(inside, "ITEM_SECONDS", 0.004)
    monkeypatch.setattr(inside, "COPY_BYTES", (1 << 17, 1 << 20))
    monkeypatch.setattr(inside, "PRODUCT_SIZES", (64, 128))


def test_measures_copies_and_products(quick):
    found = inside.measure("cntk", "cpu", 2)
    assert [entry["bytes"] for entry in found["copies"]] == [1 << 18, 1 << 21], "read and written"
    assert all(entry["bytes_per_s"] > 1e6 and entry["by"] for entry in found["copies"])
    (product,) = found["products"]
    assert product["dtype"] == "f32"
    assert product["m"] == product["n"] == product["k"]
    assert product["flops_per_s"] > 1e6
    assert set(found["unavailable"]) == {"f16", "bf16"}


def test_memmove_copies_all_of_it_in_every_thread():
    copy, by = inside.memmove(1000, 3)
    source, target = copy()
    assert target.raw == source.raw == b"\x01" * 1000
    assert by == "memmove in 3 threads"


def test_a_sample_lasts_long_enough():
    calls = []
    best = inside.best_seconds(lambda: calls.append(1), lambda: None)
    assert 0 < best < inside.SAMPLE_SECONDS
    assert len(calls) * best > inside.SAMPLE_SECONDS


@pytest.mark.parametrize(
    ("name", "device", "reason"), [("cntk", "cuda", "numpy runs on"), ("caffe", "cpu", "no function of caffe")]
)
def test_what_cannot_be_measured_says_why(name, device, reason):
    with pytest.raises(RuntimeError, match=reason):
        inside.measure(name, device, 1)


def entry(rate, waited):
    copies = [{"bytes": 8, "bytes_per_s": rate, "by": "x"}]
    return {"copies": copies, "products": [{"dtype": "f32", "flops_per_s": rate}], "unavailable": {}, "waited": waited}


def measured(monkeypatch, *results):
    """Let measurements give these results, one after another; return the list that counts them."""
    asked = []

    def measure(*_):
        asked.append(1)
        return dict(results[min(len(asked), len(results)) - 1])

    monkeypatch.setattr(ceilings, "_measured", measure)
    return asked


def test_is_measured_once(monkeypatch):
    asked = measured(monkeypatch, entry(1.0, 0.0))
    first = ceilings.of(HERE, "cpu", 2)
    assert ceilings.of(HERE, "cpu", 2) == first
    assert len(asked) == 1
    assert first["schema"] == "kernelscope/ceilings/1"
    ceilings.of(HERE, "cpu", 1)
    assert len(asked) == 2, "another number of threads is something else"
    assert (environments.home() / "ceilings").is_dir()


def test_the_best_of_several_counts(monkeypatch):
    asked = measured(monkeypatch, entry(5.0, 0.6), entry(3.0, 0.0), entry(9.0, 0.3))
    ceilings.of(HERE, "cpu", 2)
    second = ceilings.of(HERE, "cpu", 2, again=True)
    assert (second["copies"][0]["bytes_per_s"], second["waited"]) == (5.0, 0.0)
    assert not ceilings.disturbed(second)
    third = ceilings.of(HERE, "cpu", 2, again=True)
    assert third["products"][0]["flops_per_s"] == 9.0
    assert len(asked) == 3


def test_a_busy_machine_is_asked_again_later(monkeypatch):
    asked = measured(monkeypatch, entry(1.0, 0.6), entry(2.0, 0.0))
    assert ceilings.disturbed(ceilings.of(HERE, "cpu", 2))
    ceilings.of(HERE, "cpu", 2)
    assert len(asked) == 1
    monkeypatch.setattr(ceilings, "AGAIN_S", -1.0)
    assert ceilings.of(HERE, "cpu", 2)["copies"][0]["bytes_per_s"] == 2.0


def test_faults_are_reasons(monkeypatch, tmp_path):
    gone = ceilings.of(Environment("cntk", tmp_path / "no-python", "1"), "cpu", 1)
    assert gone["copies"] == gone["products"] == []
    assert "no-python" in gone["unavailable"]["all"]
    missing = ceilings.of(Environment("caffe", Path(sys.executable), "1"), "cpu", 1)
    assert missing["unavailable"]["all"] == "RuntimeError: no function of caffe is known that copies or multiplies"
    blocked = tmp_path / "home2"
    blocked.write_text("a file")
    monkeypatch.setenv("KERNELSCOPE_HOME", str(blocked))
    assert ceilings.of(HERE, "cpu", 1)["unavailable"]["all"].startswith(("NotADirectoryError", "FileExistsError"))


def test_a_damaged_cache_is_replaced(monkeypatch):
    asked = measured(monkeypatch, entry(1.0, 0.0))
    ceilings.of(HERE, "cpu", 2)
    (file,) = (environments.home() / "ceilings").glob("*.json")
    for content in ("{", "[]", json.dumps({"schema": "other"})):
        file.write_text(content)
        assert ceilings.of(HERE, "cpu", 2)["copies"]
    assert len(asked) == 4


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "mxnet", "cntk"])
def test_frameworks(framework, monkeypatch):
    monkeypatch.delenv("KERNELSCOPE_HOME")
    environment = environments.find(framework)
    if environment is None:
        pytest.skip(f"{framework} is not set up")
    found = ceilings._measured(environment, "cpu", 2)
    assert len(found["copies"]) == len(inside.COPY_BYTES)
    assert "f32" in {entry["dtype"] for entry in found["products"]}
