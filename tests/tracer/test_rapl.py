"""RAPL as the kernel shows it: counters that begin again, domains that are there twice, permissions that are missing."""

import pytest

from kernelscope.tracer.outside import counters
from kernelscope.tracer.outside.samplers.rapl import RaplSource

RANGE = 262_143_328_850


@pytest.fixture
def domain(tmp_path):
    def make(folder, name, energy):
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        (path / "name").write_text(name + "\n")
        (path / "max_energy_range_uj").write_text(f"{RANGE}\n")
        (path / "energy_uj").write_text(f"{energy}\n")
        return path

    return make


def _values(source):
    return {(sample.metric, sample.core): sample.value for sample in source.sample(None)}


def test_packages_and_memory_are_counted_from_the_start(domain, tmp_path):
    domain("intel-rapl:0", "package-0", 5_000_000)
    domain("intel-rapl:0:0", "core", 1)
    domain("intel-rapl:0:1", "dram", 7_000_000)
    domain("intel-rapl:1", "package-1", RANGE - 1_000_000)
    domain("intel-rapl-mmio:0", "package-0", 5_000_000)
    domain("intel-rapl:2", "psys", 9)
    source = RaplSource(str(tmp_path))
    assert _values(source) == {("cpu_energy_j", 0): 0.0, ("cpu_energy_j", 1): 0.0, ("dram_energy_j", 0): 0.0}
    domain("intel-rapl:0", "package-0", 8_500_000)
    domain("intel-rapl:1", "package-1", 2_000_000)  # it began again: 1 J to the end and 2 J since
    domain("intel-rapl:0:1", "dram", 7_250_000)
    assert _values(source) == {("cpu_energy_j", 0): 3.5, ("cpu_energy_j", 1): 3.0, ("dram_energy_j", 0): 0.25}
    domain("intel-rapl:1", "package-1", 2_500_000)
    assert _values(source)[("cpu_energy_j", 1)] == 3.5
    about = source.describe()
    assert about["domains"] == [
        {"name": "package-0", "package": 0}, {"name": "dram", "package": 0}, {"name": "package-1", "package": 1},
    ]  # fmt: skip
    assert about["notes"] == []


def test_readings_have_their_time(domain, tmp_path):
    domain("intel-rapl:0", "package-0", 1)
    (sample,) = RaplSource(str(tmp_path)).sample(None)
    assert sample.time_ns > 0
    assert sample.spread_ns > 0


def test_without_rapl_the_reason_is_told(tmp_path):
    source = RaplSource(str(tmp_path))
    assert source.unavailable == "the kernel offers no RAPL here (as in most virtual machines)"
    assert source.sample(None) == []
    assert source.describe() == {"source": "rapl", "unavailable": source.unavailable}


def test_what_may_not_be_read_is_told(domain, tmp_path):
    # for root every file is readable: a folder in the file's place fails alike
    (domain("intel-rapl:0", "package-0", 1) / "energy_uj").unlink()
    (tmp_path / "intel-rapl:0" / "energy_uj").mkdir()
    assert RaplSource(str(tmp_path)).unavailable == (
        f"1 energy_uj files in {tmp_path} can be read only by root (sudo chmod a+r them)"
    )
    domain("intel-rapl:1", "package-1", 1)
    source = RaplSource(str(tmp_path))
    assert source.unavailable is None
    assert [d["name"] for d in source.describe()["domains"]] == ["package-1"]
    assert "only by root" in source.describe()["not_offered"]


def test_a_counter_that_goes_away_is_noted(domain, tmp_path):
    path = domain("intel-rapl:0", "package-0", 1)
    source = RaplSource(str(tmp_path))
    assert len(source.sample(None)) == 1
    (path / "energy_uj").unlink()
    assert source.sample(None) == []
    assert source.sample(None) == []
    assert source.describe()["notes"] == ["package-0: can no longer be read: No such file or directory"]


def test_doctor_names_the_same_domains(domain, tmp_path):
    domain("intel-rapl:0", "package-0", 1)
    domain("intel-rapl:0:0", "core", 1)
    assert counters.energy_counters(str(tmp_path)) == (["package-0", "core"], None)
