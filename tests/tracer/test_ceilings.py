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
    ("name", "device", "reason"), [("cntk", "cuda", "numpy runs on"), ("caffe", "cpu", "no copy or product function of caffe")]
)
def test_what_cannot_be_measured_says_why(name, device, reason):
    with pytest.raises(RuntimeError, match=reason):
        inside.measure(name, device, 1)


def entry(rate, waited, others=0.0, measured="2026-01-01"):
    copies = [{"bytes": 8, "bytes_per_s": rate, "by": "x"}]
    products = [{"dtype": "f32", "flops_per_s": rate}]
    state = {"waited": waited, "others": others, "measured": measured}
    return {"copies": copies, "products": products, "unavailable": {}, **state}


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


def test_every_measurement_and_every_best_one_has_its_date(monkeypatch):
    results = [entry(5.0, 0.6, 0.2, "first"), entry(3.0, 0.0, 0.05, "second"), entry(4.0, 0.0, 0.3, "third")]
    measured(monkeypatch, *results)
    for _ in results:
        found = ceilings.of(HERE, "cpu", 2, again=True)
    assert found["history"] == [{"measured": r["measured"], "waited": r["waited"], "others": r["others"]} for r in results]
    assert (found["measured"], found["others"]) == ("second", 0.05), "the least disturbed one tells how far it can be trusted"
    assert (found["products"][0]["measured"], found["products"][0]["flops_per_s"]) == ("first", 5.0)
    assert ceilings.known(found) == found
    assert ceilings.known({**found, "threads": 3}) is None
    assert [entry["measured"] for entry in ceilings.merged(found, found)["history"]] == ["first", "second", "third"]


@pytest.mark.parametrize(("now", "asked_again"), [(0.02, True), (0.9, False)])
def test_what_was_disturbed_by_others_is_measured_again_when_the_machine_is_quiet(monkeypatch, now, asked_again):
    """The measuring thread itself need not have waited: others may use the second processor, or the memory."""
    asked = measured(monkeypatch, entry(1.0, 0.0, 0.4), entry(2.0, 0.0, 0.05))
    monkeypatch.setattr(ceilings, "_busy", lambda: now)
    ceilings.of(HERE, "cpu", 2)
    assert ceilings.of(HERE, "cpu", 2)["copies"][0]["bytes_per_s"] == (2.0 if asked_again else 1.0)
    ceilings.of(HERE, "cpu", 2)
    assert len(asked) == 1 + asked_again, "what was undisturbed stays"


def test_how_much_others_used():
    """Of 20 s of two processors 11 s were used, 4 s of them by this process."""
    assert inside.share_of_others((100.0, 7.0, 1000.0), (111.0, 11.0, 1020.0)) == 0.35
    assert inside.share_of_others(None, (1.0, 1.0, 1.0)) is None
    assert inside.share_of_others((1.0, 1.0, 1.0), (1.0, 1.0, 1.0)) is None
    everybody, own, whole = inside.used()
    assert 0 < own < everybody < whole


def test_a_busy_machine_is_asked_again_later(monkeypatch):
    asked = measured(monkeypatch, entry(1.0, 0.6), entry(2.0, 0.0))
    monkeypatch.setattr(ceilings, "_busy", lambda: 1.0)
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
    assert missing["unavailable"]["all"] == "RuntimeError: no copy or product function of caffe is known"
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
@pytest.mark.parametrize(
    "framework", ["pytorch", "cntk", *(pytest.param(one, marks=pytest.mark.long) for one in ("tensorflow", "mxnet"))]
)
def test_frameworks(framework, monkeypatch):
    monkeypatch.delenv("KERNELSCOPE_HOME")
    environment = environments.find(framework)
    if environment is None:
        pytest.skip(f"{framework} is not set up")
    found = ceilings._measured(environment, "cpu", 2)
    assert len(found["copies"]) == len(inside.COPY_BYTES)
    assert "f32" in {entry["dtype"] for entry in found["products"]}
