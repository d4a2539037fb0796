"""Pages of real recordings as a person first sees them: wide and narrow, light and dark, in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands import called
from tests.places import ROOT, corpus

pytestmark = [pytest.mark.slow, pytest.mark.long]

SCREENS = [(width, height, scheme) for width, height in ((1280, 900), (390, 844)) for scheme in ("light", "dark")]
SCREEN_NAMES = [f"{width}-{scheme}" for width, _, scheme in SCREENS]
HIGHEST = 8000  # pixels of a page as it opens
GPUS = ROOT / "tests" / "data" / "gpu"
# What is reported: run folders that this project recorded, or a capture of others; and how the answer begins
PAGES: dict[str, tuple[tuple[Path | str, ...], str]] = {
    "comparison": (
        (GPUS / "h200" / "lenet-pytorch-framework", GPUS / "h200" / "lenet-jax-framework"),
        r"jax is fastest with [\d.]+ ms per step; pytorch takes",
    ),
    "script": ((GPUS / "h100" / "vision",), r"A step takes [\d.]+ ms on NVIDIA H100"),
    "kineto": (("kineto/AMD-AGI__TraceLens__h100_timesformer.json.gz",), r"A step takes \d+ ms on NVIDIA H100"),
    "nsys": (("nsys/GindaChen__nsys-ai__h100_2gpu_1s_v1.sqlite",), r".* takes [\d.]+ ms on cuda:\d of 2 devices"),
    "nvprof": (("nvprof/esarmstrong__ece408__timeline.nvprof",), r".*kernels take 2\.65 ms of the 4\.96 s recorded on TITAN V"),
}
# The tables of kernels of each page
TABLES = [
    ("comparison", "kernels-pytorch"), ("comparison", "kernels-jax"), ("script", "kernels-vision"), ("script", "by-kernel"),
    ("kineto", "by-kernel"), ("nsys", "by-kernel"), ("nvprof", "by-kernel"),
]  # fmt: skip

ANSWER = """() => {
  const heading = document.querySelector("h1"), { left, right, top, bottom } = heading.getBoundingClientRect();
  return { text: heading.textContent.trim(), within: left >= 0 && right <= innerWidth && top >= 0 && bottom <= innerHeight };
}"""
# Opens the sections around a table, scrolls to it, and tells in which columns text is within the page (a hidden one has no width)
COLUMNS = """(id) => {
  const table = document.getElementById(id).querySelector("table"), row = table.querySelector("tbody tr:not([hidden], .space)");
  for (let at = table; at; at = at.parentElement) if (at.matches("details")) at.open = true;
  table.querySelector("thead").scrollIntoView({ block: "center" });
  const { left: from, right: to } = table.closest(".scroll").getBoundingClientRect();
  const within = (cell) => {
    const { right, width, top, bottom } = cell.getBoundingClientRect(), text = document.createRange();
    text.selectNodeContents(cell);
    const { left, right: end } = text.getBoundingClientRect();
    if (width === 0 || top < 0 || bottom > innerHeight) return false;
    return left >= Math.max(from, 0) && Math.min(end, right) <= Math.min(to, innerWidth);
  };
  const heads = [...table.querySelectorAll("thead th")];
  const seen = heads.filter((head, place) => within(head) && within(row.cells[place]) && row.cells[place].innerText.trim());
  return seen.map((head) => head.textContent.trim().split(/\\s/)[0]);
}"""
# Of long tables that are closed a few rows are looked at: all are made alike, and axe-core takes most of a minute for all
SHORTEN = """() => {
  for (const row of document.querySelectorAll("details:not([open]) tbody tr:nth-child(n + 4)")) row.remove();
}"""
OPEN_ALL = "document.querySelectorAll('details').forEach((section) => { section.open = true; })"
# In the dark only rules about colours can find what was not found in the light
VIOLATIONS = """async () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const rules = dark ? { runOnly: ["color-contrast", "link-in-text-block"] } : {};
  const { violations, passes } = await axe.run(document, { resultTypes: ["violations"], ...rules });
  if (passes.length < (dark ? 1 : 16)) throw Error("axe-core looked at nothing");
  const found = (nodes) => nodes.slice(0, 3).map(({ html }) => html.slice(0, 200));
  return violations.map(({ id, impact, nodes }) => `${impact}: ${id}: ${found(nodes)}`);
}"""


@dataclass
class Seen:
    """What a page shows and does on one screen."""

    answer: dict[str, Any]
    height: int
    wider: int
    dark: bool
    columns: dict[str, list[str]]
    violations: list[str]
    messages: list[str]
    requests: list[str]
    address: str


def _given(place: Path | str, folder: Path) -> Path:
    """Return a capture of others where it is, or a copy of a run folder of ours: reading one keeps a cache in it."""
    if isinstance(place, str):
        return corpus(place)
    return Path(shutil.copytree(place, folder / place.name, dirs_exist_ok=True))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that returns the page of a recording, which is written once."""
    folder, pages = tmp_path_factory.mktemp("pages"), {}

    def page(name: str) -> Path:
        if name not in pages:
            paths = [_given(place, folder) for place in PAGES[name][0]]
            done = called("report", *paths, "-o", folder / f"{name}.html")
            assert done.returncode == 0, done.stderr
            pages[name] = folder / f"{name}.html"
        return pages[name]

    return page


def _look(page: Any, address: str, tables: list[str], axe: str) -> Seen:
    """Open a page and gather all that is asked of it."""
    messages: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: messages.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    page.wait_for_function("document.documentElement.dataset.tables")
    page.wait_for_timeout(500)  # charts are drawn as soon as they are in sight
    answer, height = page.evaluate(ANSWER), page.evaluate("document.documentElement.scrollHeight")
    wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    columns = {table: page.evaluate(COLUMNS, table) for table in tables}
    page.evaluate(SHORTEN)
    if page.viewport_size["width"] > 1000:  # what closed sections hold is looked at once, light and dark
        page.evaluate(OPEN_ALL)
        page.wait_for_timeout(300)
    page.evaluate(f"{axe}; 0")
    return Seen(answer, height, wider, dark, columns, page.evaluate(VIOLATIONS), messages, requests, address)


@pytest.fixture(scope="module")
def seen(written: Callable[[str], Path], chromium: Any, axe: str) -> Callable[..., Seen]:
    """A function that returns what a page shows on a screen; each is opened once."""
    looked: dict[tuple[Any, ...], Seen] = {}

    def look(name: str, screen: tuple[int, int, str]) -> Seen:
        if (name, screen) not in looked:
            width, height, scheme = screen
            context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            tables = [table for page, table in TABLES if page == name]
            looked[name, screen] = _look(context.new_page(), written(name).as_uri(), tables, axe)
            context.close()
        return looked[name, screen]

    return look


@pytest.mark.parametrize("screen", SCREENS, ids=SCREEN_NAMES)
@pytest.mark.parametrize("name", PAGES)
def test_the_answer_is_on_the_first_screen(seen: Any, name: str, screen: tuple[int, int, str]) -> None:
    found = seen(name, screen)
    assert re.match(PAGES[name][1], found.answer["text"]), found.answer["text"]
    assert found.answer["within"]
    assert found.dark == (screen[2] == "dark")


@pytest.mark.parametrize("screen", SCREENS, ids=SCREEN_NAMES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_not_too_long_as_it_opens_and_not_too_wide(seen: Any, name: str, screen: tuple[int, int, str]) -> None:
    found = seen(name, screen)
    assert screen[1] < found.height <= HIGHEST
    assert found.wider <= 0, "only tables are scrolled sideways"


@pytest.mark.parametrize("screen", SCREENS, ids=SCREEN_NAMES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_for_nothing_and_reports_no_error(seen: Any, name: str, screen: tuple[int, int, str]) -> None:
    found = seen(name, screen)
    assert found.messages == []
    assert found.requests == [found.address]


@pytest.mark.parametrize("screen", SCREENS, ids=SCREEN_NAMES)
@pytest.mark.parametrize("name", PAGES)
def test_axe_core_finds_nothing_on_a_page(seen: Any, name: str, screen: tuple[int, int, str]) -> None:
    assert seen(name, screen).violations == []


@pytest.mark.parametrize("screen", SCREENS, ids=SCREEN_NAMES)
@pytest.mark.parametrize(("name", "table"), TABLES)
def test_names_times_and_calls_of_kernels_are_within_the_page(
    seen: Any, name: str, table: str, screen: tuple[int, int, str]
) -> None:
    assert {"kernel", "time", "calls"} <= {*seen(name, screen).columns[table]}


@pytest.mark.parametrize("screen", SCREENS, ids=SCREEN_NAMES)
@pytest.mark.parametrize(
    ("name", "table"),
    TABLES,
)
def test_shares_of_kernels_are_within_the_page(seen: Any, name: str, table: str, screen: tuple[int, int, str]) -> None:
    assert "share" in seen(name, screen).columns[table]


# The range of time that the timeline shows, and the arrow to a launch: the one dashed line of its canvas
RANGE = """() => {
  const { startValue, endValue } = echarts.getInstanceByDom(document.getElementById("timeline")).getOption().dataZoom[0];
  return [startValue, endValue];
}"""
ARROW = """() => {
  const all = echarts.getInstanceByDom(document.getElementById("timeline")).getZr().storage.getDisplayList(true, true);
  const lines = all.filter(({ type, style, invisible }) => type === "line" && String(style.lineDash) === "4,3" && !invisible);
  return lines.map(({ shape }) => shape);
}"""
TIP = "document.querySelector('#timeline .tip:not([hidden])')?.innerText ?? ''"
MOST = "document.querySelector('#by-kernel tbody tr:not([hidden]) th').textContent.trim()"
TARGET = """() => {
  const row = document.querySelector("tr.target"), { top, bottom } = row.getBoundingClientRect();
  return { text: row.innerText, within: top >= 0 && bottom <= innerHeight };
}"""


class Timeline:
    """A page's timeline and its pointer and keys."""

    def __init__(self, page: Any) -> None:
        self.page, self.element = page, page.locator("#timeline")
        self.element.scroll_into_view_if_needed()
        page.evaluate("document.getElementById('timeline').scrollIntoView({ block: 'start' })")
        page.wait_for_function("'drawn' in document.getElementById('timeline').dataset")
        self.element.focus(timeout=5000)
        page.keyboard.press("Home")

    @property
    def range(self) -> tuple[float, float]:
        start, end = self.page.evaluate(RANGE)
        return start, end

    @property
    def length(self) -> float:
        start, end = self.range
        return end - start

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the place on the page of one on the timeline; x is a part of its width, y in pixels."""
        box = self.element.bounding_box()
        return box["x"] + x * box["width"], box["y"] + y

    def pressed(self, key: str) -> tuple[float, float]:
        """Press a key and return what is shown then."""
        self.element.focus()
        self.page.keyboard.press(key)
        return self.range

    def pointed_at(self, words: str) -> tuple[float, float]:
        """Move the mouse down the middle until a tip has these words; return where that is."""
        for y in range(30, 600, 6):
            self.page.mouse.move(*self.at(0.5, y))
            if words in self.page.evaluate(TIP):
                return self.at(0.5, y)
        raise AssertionError(f"nothing in the middle of the timeline has a tip with: {words}")

    def said(self) -> str:
        """Return what is said below it."""
        return str(self.page.locator("#timeline-said").text_content())


@pytest.fixture
def timeline(written: Callable[[str], Path], chromium: Any) -> Any:
    """The timeline of the capture of Kineto, which shows all; its page has no errors at the end."""
    messages: list[str] = []
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.on("console", lambda message: messages.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(written("kineto").as_uri())
    page.wait_for_function("document.documentElement.dataset.tables")
    yield Timeline(page)
    page.close()
    assert messages == []


def test_keys_zoom_and_move_the_timeline(timeline: Timeline) -> None:
    start, end = timeline.range
    whole = end - start
    near = {"abs": whole / 1000}
    middle = (start + end) / 2
    quarter = (pytest.approx(middle - whole / 8, **near), pytest.approx(middle + whole / 8, **near))
    timeline.pressed("w")
    assert timeline.pressed("w") == quarter
    assert timeline.pressed("d")[0] == pytest.approx(middle - whole / 8 + whole / 20, **near)
    assert timeline.pressed("a") == quarter
    assert timeline.pressed("s") == (pytest.approx(middle - whole / 4, **near), pytest.approx(middle + whole / 4, **near))


def test_the_wheel_zooms_with_a_key_and_scrolls_the_page_without(timeline: Timeline) -> None:
    page, whole = timeline.page, timeline.length
    page.mouse.move(*timeline.at(0.5, 60))
    before = page.evaluate("scrollY")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_timeout(300)
    zoomed = timeline.range
    assert zoomed[1] - zoomed[0] < 0.95 * whole
    assert page.evaluate("scrollY") == before
    page.mouse.wheel(0, 100)
    page.wait_for_timeout(300)
    assert timeline.range == zoomed
    assert page.evaluate("scrollY") > before


def test_dragging_moves_and_shift_measures(timeline: Timeline) -> None:
    page = timeline.page
    timeline.pressed("w")
    start, length = timeline.range[0], timeline.length
    page.mouse.move(*timeline.at(0.6, 60))
    page.mouse.down()
    page.mouse.move(*timeline.at(0.55, 60), steps=5)
    page.mouse.move(*timeline.at(0.5, 60), steps=5)
    page.mouse.up()
    assert timeline.range[0] == pytest.approx(start + 0.1 * length, abs=0.01 * length)
    assert timeline.length == pytest.approx(length)
    page.keyboard.down("Shift")
    page.mouse.click(*timeline.at(0.25, 60))
    page.mouse.click(*timeline.at(0.5, 60))
    page.keyboard.up("Shift")
    told = re.match(r"(\d+) ns \(", timeline.said())
    assert told, timeline.said()
    assert int(told.group(1)) == pytest.approx(length / 4, rel=0.02)


def test_a_click_tells_all_of_a_kernel_and_leads_to_its_row(timeline: Timeline) -> None:
    page, name = timeline.page, timeline.page.evaluate(MOST)
    page.locator("#timeline-tools input").fill(name)
    page.keyboard.press("Enter")
    place = timeline.pointed_at(name)
    page.mouse.move(*place)
    before = page.evaluate("scrollY")
    page.mouse.click(*place)
    facts = page.locator(".details dl")
    facts.wait_for()
    terms = dict(zip(facts.locator("dt").all_text_contents(), facts.locator("dd").all_text_contents(), strict=True))
    assert name in terms["name"]  # the table leaves out namespaces and arguments
    assert "before, by thread" in terms["launched"]
    assert (page.evaluate("scrollY"), page.evaluate("location.hash")) == (before, ""), "the page stays where it is"
    (arrow,) = page.evaluate(ARROW)
    assert arrow["x1"] < arrow["x2"]
    assert arrow["y1"] != arrow["y2"]
    page.locator(".details button", has_text="Show in table").click()
    page.wait_for_timeout(500)
    row = page.evaluate(TARGET)
    assert name in row["text"]
    assert row["within"]
