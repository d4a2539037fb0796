"""The page of licences names all that an installation brings, as the packages themselves say."""

import re

from tests.tools.licences import EMBEDDED, PAGE, embedded, licence, packages


def test_the_page_names_every_package_with_its_licence():
    rows = dict(re.findall(r"^\| ([\w-]+) \| ([^|]+) \|", PAGE.read_text(encoding="utf8"), re.M))
    assert len(packages()) > 20
    for name in packages():
        assert rows.get(name) == licence(name), f"{name}: make licences"
        assert rows[name] != "not stated"


def test_the_page_names_what_pages_hold():
    text = PAGE.read_text(encoding="utf8")
    assert EMBEDDED.strip() in text
    assert len(embedded()) == 3
    assert all(row in text for row in embedded())
