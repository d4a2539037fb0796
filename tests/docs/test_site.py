"""The site is whole, asks no other machine for anything, and opens from the disk."""

import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from kernelscope.analysis.formats import all_formats
from kernelscope.cli import main

# Attributes that make a browser fetch something; a link that a reader may follow does not
FETCHING = {
    ("script", "src"), ("img", "src"), ("img", "srcset"), ("iframe", "src"), ("source", "src"), ("source", "srcset"),
    ("video", "src"), ("audio", "src"), ("embed", "src"), ("object", "data"), ("form", "action"), ("input", "src"),
}  # fmt: skip


class Fetched(HTMLParser):
    """Gathers what a page makes a browser fetch."""

    def __init__(self, text):
        super().__init__()
        self.addresses, self.links, self.anchors, self.styles = [], [], set(), []
        self.styling = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.styling = tag == "style"
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.addresses += [value for name, value in attributes if (tag, name) in FETCHING and value]
        self.styles += [given["style"]] if given.get("style") else []
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.addresses.append(given["href"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])

    def handle_data(self, data):
        if self.styling:
            self.styles.append(data)


@pytest.fixture(scope="module")
def pages(site):
    found = {path: Fetched(path.read_text(encoding="utf8")) for path in sorted(site.rglob("*.html"))}
    assert len(found) > 30
    return found


def address_of(page, address):
    return (page.parent / unquote(urlsplit(address).path)).resolve()


def styled(text):
    """What a style sheet fetches."""
    return re.findall(r"""url\(\s*["']?([^"')]+)""", text) + re.findall(r"""@import\s+["']([^"']+)""", text)


def test_pages_fetch_nothing_but_files_of_the_site(site, pages):
    for page, fetched in pages.items():
        for address in [*fetched.addresses, *styled("\n".join(fetched.styles))]:
            if address.startswith("data:"):
                continue
            parts = urlsplit(address)
            assert (parts.scheme, parts.netloc) == ("", ""), f"{page.name} fetches {address}"
            if page.name != "404.html" and parts.path:  # that page is served from any address and names files from the root
                assert address_of(page, address).is_file(), f"{page.name}: {address}"
    for sheet in site.rglob("*.css"):
        for address in styled(sheet.read_text(encoding="utf8")):
            assert address.startswith(("data:", "#")) or address_of(sheet, address).is_file(), f"{sheet.name} fetches {address}"


def test_links_and_anchors_lead_somewhere(pages):
    for page, fetched in pages.items():
        if page.name == "404.html":
            continue
        for link in fetched.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = address_of(page, link) if parts.path else page
            assert target.exists(), f"{page.name}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{page.name}: {link}"


def test_linked_files_of_the_project_are_pages_and_the_builder_is_none(site):
    assert (site / "source/tests/tools/planted/programs/pytorch_unrolled_lstm.py.html").is_file()
    assert not (site / "hooks").exists()


def test_the_reference_has_every_command_and_option(site):
    page = (site / "reference/commands.html").read_text(encoding="utf8")
    for name, parser in walk(main.parser(*main.COMMANDS), ""):
        assert f'id="{name.strip().replace(" ", "-")}"' in page, name
        for action in parser._actions:
            for option in action.option_strings:
                assert option in ("-h", "--help") or option in page, f"{name} {option}"


def test_the_reference_has_every_format(site):
    page = (site / "reference/formats.html").read_text(encoding="utf8")
    assert [form.name for form in all_formats() if f"<code>{form.name}</code>" not in page] == []


def walk(parser, prefix):
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for name, below in action.choices.items():
                yield f"{prefix} {name}", below
                yield from walk(below, f"{prefix} {name}")


def opened(path, tmp_path, browse, drive=""):
    """Return a page's document, the browser's messages, and what was asked of the network, loaded from the disk without one."""
    log = tmp_path / "net.json"
    options = ["--host-resolver-rules=MAP * ~NOTFOUND", f"--log-net-log={log}"]
    document, console = browse(path, drive, milliseconds=8000, options=options)
    return document, console, requests(json.loads(log.read_text()))


def requests(log):
    """The addresses that pages asked for, by the browser's log; what the browser itself asks for has no origin."""
    kind = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    begun = [event["params"] for event in log["events"] if event["type"] == kind and "url" in event.get("params", {})]
    return [params["url"] for params in begun if params.get("initiator") != "not an origin"]


# searches as a reader does, and says in the title what was found
SEARCH = """
<script>addEventListener("load", () => {
  document.querySelector("#__search").click();
  const box = document.querySelector("input.md-search__input");
  box.focus(); box.value = "largest remainder";
  for (const name of ["input", "keyup"]) box.dispatchEvent(new Event(name, {bubbles: true}));
  setInterval(() => {
    const found = [...document.querySelectorAll("a.md-search-result__link")].map(link => link.getAttribute("href"));
    if (found.length) document.title = "found " + found.join(" ");
  }, 50);
});</script>"""


@pytest.mark.slow
def test_the_site_opens_and_searches_without_a_network(site, tmp_path, browse):
    page, console, requested = opened(site / "explain.html", tmp_path, browse, SEARCH)
    assert console == []
    assert requested == []
    found = re.search(r"<title>found ([^<]*)</title>", page)
    assert found, "the search found nothing"
    assert "exact-sums.html" in found[1]


@pytest.mark.slow
def test_a_request_would_be_noticed(tmp_path, browse):
    page = tmp_path / "page.html"
    page.write_text('<img src="https://example.org/x.png">', encoding="utf8")
    assert opened(page, tmp_path, browse)[2] == ["https://example.org/x.png"]
