"""Interactive parts: their data is embedded safely, and a browser unpacks it, draws it and draws it again."""

import base64
import gzip
import hashlib
import json
import re
import shutil

import pytest

from kernelscope.reports import colours, html, interactive
from kernelscope.reports.interactive import Interactive

# counts how often it is asked to draw, and in which colours, and draws as real parts do
PROBE = """"use strict";
kernelscope.charts.probe = (element, data, theme) => {
  document.body.dataset.draws = Number(document.body.dataset.draws ?? 0) + 1;
  document.body.dataset.sum = data.values.reduce((one, other) => one + other, 0);
  const { dark, colours } = theme;
  document.body.dataset.theme = [dark, colours.page, colours.phases.forward, colours.series.length].join();
  kernelscope.tools(element).textContent = "tools";
  kernelscope.say(element, data.name);
  kernelscope.echart(element, theme).setOption({
    xAxis: { type: "category", data: data.values.map(String) }, yAxis: { type: "value" },
    series: [{ type: "bar", data: data.values }], tooltip: {},
  });
};"""


def part(values, name="a part", key="probe-1"):
    return Interactive(key, "A probe", "probe", {"values": values, "name": name}, "Bars; the numbers are in the table of layers.")


@pytest.fixture
def with_probe(tmp_path, monkeypatch):
    folder = tmp_path / "templates"
    shutil.copytree(interactive.TEMPLATES, folder)
    (folder / "probe.js").write_text(PROBE, encoding="utf8")
    monkeypatch.setattr(interactive, "TEMPLATES", folder)


def written(result, tmp_path, *parts):
    path = tmp_path / "report.html"
    html.write_comparison(result, path, parts)
    return path


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "<!--", "\u2028\ud800&amp;]]>", "plain"])
def test_embedded_data_is_what_went_in(name):
    text = str(part([1, 2], name).embedded)
    assert not set(text) & set("<>&")
    assert json.loads(text) == {"values": [1, 2], "name": name}


def test_long_data_is_packed_and_the_same_each_time():
    long = part(list(range(50_000)))
    packed = json.loads(str(long.embedded))
    assert len(str(long.embedded)) < 200_000
    assert json.loads(gzip.decompress(base64.b64decode(packed["gzip"])))["values"] == list(range(50_000))
    assert long.embedded == part(list(range(50_000))).embedded


def test_numbers_that_json_has_not_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        _ = part([float("nan")]).embedded


@pytest.mark.long
def test_the_library_is_only_where_it_is_needed(result, tmp_path, with_probe, parse):
    without = written(result, tmp_path).read_text(encoding="utf8")
    assert "echarts" not in without.casefold()
    unavailable = Interactive("gone", "Gone", "probe", {}, "nothing", "no such evidence was recorded")
    text = written(result, tmp_path, unavailable).read_text(encoding="utf8")
    assert "echarts" not in text.casefold()
    assert "no such evidence was recorded" in text
    text = written(result, tmp_path, part([1, 2, 3])).read_text(encoding="utf8")
    page = parse(text)
    assert page.tags.count("script") == 9, "five for tables, the library, what parts share, the part's own, its data"
    assert interactive.LIBRARIES[interactive.CHARTS] in text
    assert ("div", "aria-label", "Bars; the numbers are in the table of layers.") in page.attributes


def test_the_policy_names_every_script_and_no_other(result, tmp_path, with_probe):
    text = written(result, tmp_path, part([1])).read_text(encoding="utf8")
    found = re.findall(r"<script>(.*?)</script>", text, re.S)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in found]
    assert len(found) == 8
    assert re.search(r"script-src ([^;]*);", text).group(1) == " ".join(f"'sha256-{digest}'" for digest in digests)


@pytest.mark.parametrize(
    ("name", "digest", "version", "texts"),
    [
        (interactive.CHARTS, "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0", "6.1.0",
         {"echarts-LICENSE": "Apache License", "echarts-NOTICE": "Apache Software Foundation"}),
        (interactive.TABLES, "a0d1d4531c0c4ae7cdaec01f217c724aa969cacaff7f7d8971c334ac97500379", "8.21.3",
         {"table-core-LICENSE": "MIT License"}),
        (interactive.WINDOWS, "1f728eb745a0afbc03b0d331c717eb8d0608c6bfc12bd31f0fb247343a6bd671", "3.19.11",
         {"virtual-core-LICENSE": "MIT License"}),
    ],
)  # fmt: skip
def test_a_library_is_as_it_was_taken_from_its_makers(name, digest, version, texts):
    path = interactive.TEMPLATES / name
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    assert version in interactive.LIBRARIES[name]
    assert all(text in path.with_name(file).read_text() for file, text in texts.items())


@pytest.mark.slow
def test_a_browser_draws_it_under_the_page_s_policy(result, tmp_path, with_probe, browse):
    page, console = browse(written(result, tmp_path, part(list(range(50_000)), name="<b>name</b>")))
    assert console == []
    body = re.search(r"<body[^>]*>", page).group()
    assert f'data-sum="{50_000 * 49_999 // 2}"' in body, "packed data comes out whole"
    assert 'data-draws="1"' in body
    assert f'data-theme="false,#ffffff,{colours.PHASES["forward"]},7"' in body, "colours come from the style sheet"
    assert "<canvas" in page
    assert "&lt;b&gt;name&lt;/b&gt;</output>" in page


# what a browser does around printing; the class is what turns a dark page light
PRINT = """<script>addEventListener("load", () => setTimeout(() => {
  dispatchEvent(new Event("beforeprint"));
  const paper = document.documentElement.className;
  dispatchEvent(new Event("afterprint"));
  const gone = [kernelscope.goTo({ layer: "conv1", phase: "forward" }), location.hash, kernelscope.goTo({ layer: '"]' })];
  document.title = `paper ${paper} ${gone}`;
}, 500));</script>"""


@pytest.mark.slow
def test_it_is_drawn_light_for_paper_and_again_after_and_leads_to_rows(result, tmp_path, with_probe, browse):
    page, console = browse(written(result, tmp_path, part([1, 2, 3])), PRINT)
    assert console == []
    assert "<title>paper light true,#layers-0,false</title>" in page
    assert 'data-draws="3"' in re.search(r"<body[^>]*>", page).group()
    assert len(re.findall("<canvas", page)) == 1
