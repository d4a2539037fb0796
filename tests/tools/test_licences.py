"""The page of licences names all that an installation brings, as the packages themselves say."""

import re

from tests.tools.licences import EMBEDDED, PAGE, UNKNOWN, embedded, licence, of_environments, packages, pinned


def test_the_page_names_every_package_with_its_licence():
    rows = dict(re.findall(r"^\| ([\w-]+) \| ([^|]+) \|", PAGE.read_text(encoding="utf8").partition(EMBEDDED)[0], re.M))
    assert len(packages()) > 20
    for name in packages():
        assert rows.get(name) == licence(name), f"{name}: make licences"
        assert rows[name] != "not stated"


def test_the_page_names_what_pages_hold():
    text = PAGE.read_text(encoding="utf8")
    assert EMBEDDED.strip() in text
    assert len(embedded()) == 3
    assert all(row in text for row in embedded())


def test_the_page_names_what_environments_install():
    """Where an environment is not built, what the page says of its packages stays."""
    text = PAGE.read_text(encoding="utf8")
    rows = of_environments(text, {})
    assert len(rows) == len(pinned()) > 100
    assert all(row in text for row in rows), "make licences"
    told = [row for row in rows if UNKNOWN not in row]
    assert len(told) > len(rows) / 2
    for name in ("torch", "jax", "tensorflow-cpu", "onnxruntime", "mxnet", "cntk"):
        assert any(row.startswith(f"| {name} |") for row in told), name
    assert "| torch | 1.5.1, 2.13.0 | another |" in "\n".join(of_environments(text, {"torch": "another"}))
