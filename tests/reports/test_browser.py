"""The report in a real browser: its script runs, nothing else does, and nothing is asked of a network."""

import re
import shutil
import subprocess

import pytest

from kernelscope.reports import html

pytestmark = pytest.mark.slow

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--virtual-time-budget=3000", "--enable-logging=stderr", "--log-level=0", "--dump-dom",
)  # fmt: skip

# sorts the layers' table by its third column and filters it, through the page's own buttons and boxes, once the page is loaded
DRIVE = """
<script>addEventListener("load", () => {
  document.querySelector("th button").click();
  const box = document.querySelector("input[data-filter]");
  box.value = "conv1"; box.dispatchEvent(new Event("input"));
  document.title = "driven " + document.querySelector("th[aria-sort]").getAttribute("aria-sort");
});</script>"""


@pytest.fixture
def opened(tmp_path):
    if BROWSER is None:
        pytest.skip("no Chromium on this machine")

    def run(result, extra="", write=html.write_comparison):
        path = tmp_path / "report.html"
        write(result, path)
        if extra:
            # the page forbids foreign scripts; only here, to drive it, is that lifted
            text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text(encoding="utf8"))
            path.write_text(text + extra, encoding="utf8")
        command = [BROWSER, *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return run


def test_the_report_opens_without_a_console_message(opened, result):
    page, console = opened(result)
    assert console == []
    assert "data-tables=" in page, "the page's own script ran"


def test_sorting_and_filtering_work(opened, result):
    page, console = opened(result, DRIVE)
    assert console == []
    assert re.search(r"<title>driven (ascending|descending)</title>", page)
    assert re.search(r"<output[^>]*>2 of \d+ rows</output>", page), "conv1 has a forward and a backward row"
    assert 'hidden=""' in page


def test_hostile_names_do_not_run(opened, hostile):
    page, console = opened(hostile)
    assert console == []
    assert "<script>alert" not in page
    assert "<img" not in page


# follows the first link from a cause to a row of the account
FOLLOW = """
<script>addEventListener("load", () => {
  const link = document.querySelector(".findings a[href^='#why-1-r']");
  link.click();
  document.title = "driven " + (document.querySelector("tr:target").id === link.hash.slice(1));
});</script>"""


def test_an_explanation_opens_and_its_links_lead_to_rows(opened, explained):
    page, console = opened(explained, FOLLOW, html.write_explanation)
    assert console == []
    assert "<title>driven true</title>" in page


def test_hostile_names_in_an_explanation_do_not_run(opened, hostile_explained, result):
    page, console = opened(hostile_explained, write=html.write_explanation)
    assert console == []
    assert "<script>alert" not in page
    assert "<img" not in page
    result["explanations"] = [hostile_explained]
    assert "<script>alert" not in opened(result)[0]
