"""axe-core, by which accessibility is commonly checked, finds nothing serious on any kind of page, wide or narrow, dark or light.

It stands here because it needs a sweep too, and those of the other kinds of pages come from the folder above.
"""

import html
import json
import re
from pathlib import Path

import pytest

import kernelscope as ks
from kernelscope.analysis.comparisons import sweeps
from kernelscope.analysis.recordings import imported
from kernelscope.reports import html as pages
from kernelscope.reports import interactive_parts
from kernelscope.reports.sweeps import page as sweep_page

pytestmark = pytest.mark.slow

CAPTURE = Path(__file__).parents[2] / "data" / "pytorch" / "lenet-train" / "operators.pt.trace.json.gz"
# Checks the page and tells the one around it: narrow ones as they open, which is dark, wide ones in the colours of paper.
CHECK = """<script>addEventListener("load", () => setTimeout(async () => {
  if (innerWidth > 1000) {
    document.documentElement.classList.add("light");
    dispatchEvent(new Event("beforeprint"));
  }
  const page = `${document.title} ${innerWidth} ${getComputedStyle(document.body).backgroundColor}`;
  const { violations, passes } = await axe.run(document, { resultTypes: ["violations"] });
  const faults = violations.map(({ id, impact, nodes }) => [impact, id, nodes.map(({ html }) => html.slice(0, 200)).slice(0, 3)]);
  const over = document.documentElement.scrollWidth - innerWidth;
  const kernels = [...document.querySelectorAll("table")].filter((table) => /by kernel/.test(table.caption?.innerText));
  const heads = kernels.flatMap((table) => [...table.querySelectorAll("thead th")]);
  const calls = heads.filter((head) => /^calls/.test(head.innerText)).map((head) => head.getBoundingClientRect().right);
  top.postMessage({ page, faults, over, calls, rules: passes.length }, "*");
}, 500));</script>"""
AROUND = """<!doctype html><title>all pages</title><pre></pre><script>
const found = [];
addEventListener("message", ({ data }) => {
  found.push(data);
  document.querySelector("pre").textContent = JSON.stringify(found);
});</script>"""


@pytest.fixture
def written(tmp_path, result, explained, shi):
    """One page of each kind, of recorded data."""
    trace = ks.read(CAPTURE)
    parts = interactive_parts.of_capture("pytorch", trace)
    result["explanations"] = [explained]
    result["cells"] = [{**row, "kind": "gemm", "library": "onednn"} for row in result["layers"]]
    pages.write_comparison(result, tmp_path / "comparison.html", parts)
    alone = {**result, "frameworks": ["pytorch"], "explanations": []}
    alone["summary"] = [row for row in result["summary"] if row["framework"] == "pytorch"]
    tables = [ks.breakdown(trace, by).as_dict() for by in ("layer", "kernel", "idle")]
    pages.write_run(alone, tables, tmp_path / "run.html", interactive=parts)
    pages.write_explanation(explained, tmp_path / "explanation.html")
    record = imported.write(trace, [CAPTURE], tmp_path / "imported", "2026-11-22", "1")
    pages.write_capture(record, tables, tmp_path / "capture.html", parts)
    sweep_page.write([sweeps.read(shi)], tmp_path / "sweep.html")
    return tmp_path


@pytest.mark.long
def test_nothing_serious_is_found_on_any_page(written, browse, axe):
    frames = []
    for path in sorted(written.glob("*.html")):
        # the page forbids foreign scripts; only here, to check it, is that lifted
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text(encoding="utf8"))
        path.write_text(f"{text}<script>{axe}</script>{CHECK}", encoding="utf8")
        frames += [f'<iframe src="{path.name}" width="{width}" height="900"></iframe>' for width in (1280, 390)]
    (written / "all.htm").write_text(AROUND + "".join(frames), encoding="utf8")
    document, console = browse(written / "all.htm", milliseconds=120_000, options=["--blink-settings=preferredColorScheme=0"])
    assert console == []
    found = json.loads(html.unescape(re.search(r"<pre>(.*?)</pre>", document, re.S).group(1)))
    assert len({line["page"] for line in found}) == 5 * 2, "five kinds of pages, narrow and wide"
    assert sum("390 rgb(20, 23, 27)" in line["page"] for line in found) == 5, "dark"
    assert sum("1280 rgb(255, 255, 255)" in line["page"] for line in found) == 5, "light"
    assert all(line["rules"] > 15 for line in found), "axe-core looked at something"
    assert [line["page"] for line in found if line["over"] > 0] == [], "only tables are scrolled sideways"
    narrow = [right for line in found if " 390 " in line["page"] for right in line["calls"] if right > 0]
    assert narrow, "tables of kernels are open on some page"
    assert max(narrow) <= 390, "names, times, shares and calls of kernels are within it"
    assert [(line["page"], fault) for line in found for fault in line["faults"] if fault[0] in ("serious", "critical")] == []
