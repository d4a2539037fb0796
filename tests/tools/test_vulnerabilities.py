"""Which packages are asked for, and what is made of the answers."""

import pytest

from tests.tools import vulnerabilities
from tests.tools.vulnerabilities import Pin, known, pins

OLD = Pin("made-up", "1.0")
FOUND = [{"id": "PYSEC-1", "withdrawn": None}, {"id": "PYSEC-2", "withdrawn": "2024-01-01"}]


def test_packages_are_those_of_environments_and_of_an_installation():
    where = pins()
    assert where[Pin("mxnet", "1.9.1")] == ["keras-mxnet-cpu", "mxnet-cpu"]
    assert [pin.name for pin, names in where.items() if "kernelscope" in names].count("pandas") == 1
    assert not [pin for pin in where if pin.version.startswith("-")]


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ({"made-up/1.0": ("1.0", FOUND)}, ["PYSEC-1"]),
        ({"made-up/1.0": ("1.0", [])}, []),
        ({"made-up": ("2.0", [])}, None),
        ({"made-up": ("1.0", FOUND)}, ["PYSEC-1"]),
        ({}, None),
    ],
    ids=["vulnerable", "clean", "the newest alone is known", "the newest", "unknown"],
)
def test_answers(monkeypatch, pages, said):
    """A mirror that knows the newest version alone says nothing of others: that is unknown, and not clean."""

    def answer(address):
        version, found = pages.get(address, (None, None))
        return None if version is None else {"info": {"version": version}, "vulnerabilities": found}

    monkeypatch.setattr(vulnerabilities, "asked", answer)
    assert known(OLD) == said
