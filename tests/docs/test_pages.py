"""What pages say is so: links work where the code is hosted, commands are accepted, the reference is of this code."""

import itertools
import os
import pkgutil
import re
import shlex
from pathlib import Path

import pytest

from kernelscope.analysis.formats import all_formats
from kernelscope.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_work_where_the_code_is_hosted(page):
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf8"))):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.parent / path)) if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lists_and_tables_stand_alone(page):
    """Code hosts take a list right below a line of text for one; MkDocs takes it for more text."""
    lines = CODE.sub("", page.read_text(encoding="utf8")).splitlines()
    for before, line in itertools.pairwise(lines):
        begins = re.match(r"- |\d+\. |\|", line) and not re.match(r"\s*- |\s*\d+\. |\||  |#|$", before)
        assert not begins, f"a blank line is missing above: {line[:60]}"


def anchors(page):
    """The anchors that code hosts and MkDocs alike make of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text(encoding="utf8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def commands():
    """Every command line `kernelscope ...` that a page shows in a block of code, with where it stands."""
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue
        for number, line in enumerate(page.read_text(encoding="utf8").splitlines(), 1):
            found = re.match(r"^(?: {4,}|\$ | {4,}\$ )?(?:[A-Z_]+=\S+ )?(kernelscope \S.*)$", line)
            indented = line.startswith(("    ", "kernelscope ", "$ "))
            if found and indented:
                yield pytest.param(found[1], id=f"{page.name}:{number}")


@pytest.mark.parametrize("line", list(commands()))
def test_commands_that_pages_show_are_accepted(line):
    for part in re.split(r"\s(?:&&|\||\|\|)\s", re.split(r"\s+#\s", line)[0].rstrip("\\ ")):
        words = shlex.split(part)
        if words[0] == "kernelscope" and not {"--help", "--version"} & set(words) and ":" not in words[1]:
            main.parser(words[1]).parse_args([word for word in words[1:] if not re.match(r"^\d?>", word)])


def test_the_page_of_formats_names_formats_that_exist():
    """The site's reference has them all (see test_site); this page says more of most."""
    table = (ROOT / "docs/formats.md").read_text(encoding="utf8")
    named = {name for cell in re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE) for name in re.findall(r"`([^`]+)`", cell)}
    assert len(named) > 30
    assert named - {form.name for form in all_formats()} == set()


def test_names_of_the_code_that_pages_mention_are_there():
    texts = [page.read_text(encoding="utf8") for page in PAGES if page.name != "CHANGELOG.md"]
    names = {name for text in texts for name in re.findall(r"`(kernelscope(?:\.[A-Za-z_]+)+)", text)}
    assert len(names) > 10
    for name in names:
        pkgutil.resolve_name(name)  # raises where there is none


def test_files_of_the_code_that_pages_mention_are_there():
    folders = "analysis|cli|docs|nsys_wrappers|reports|tests|tracer|workloads"
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue
        for name in re.findall(rf"`((?:{folders})/[\w./-]+)`", CODE.sub("", page.read_text(encoding="utf8"))):
            assert (ROOT / name).exists(), f"{page.name}: {name}"
