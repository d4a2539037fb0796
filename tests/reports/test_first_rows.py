"""No table of a page shows more than 15 rows before the reader asks for all of them."""

import html as html_text
import json
import re

import pytest

from kernelscope.reports import html

pytestmark = pytest.mark.slow

# writes into the title, for every table: its rows, how many of them show at first, what its button says, and how many show then
COUNT = """
<script>addEventListener("load", async () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  const told = [...document.querySelectorAll(".view:has(table)")].map((view) => {
    const choice = view.querySelector("[data-group]"), button = view.querySelector(".more");
    if (choice) { choice.value = ""; choice.dispatchEvent(new Event("change")); }
    const shown = () => view.querySelectorAll("tbody tr:not([hidden])").length;
    const first = [view.querySelectorAll("tbody tr").length, shown(), button?.hidden ? null : button?.textContent ?? null];
    button?.click();
    return [...first, shown()];
  });
  document.title = "driven " + JSON.stringify(told);
});</script>"""


def test_no_table_shows_more_than_15_rows_at_first(result, tmp_path, browse):
    html.write_comparison(result, tmp_path / "report.html")
    page, console = browse(tmp_path / "report.html", COUNT)
    assert console == []
    told = json.loads(html_text.unescape(re.search(r"<title>driven (.*?)</title>", page).group(1)))
    assert {rows for rows, *_ in told if 15 < rows <= 20}, "tables a little longer than 15 rows are folded, too"
    for rows, first, button, then in told:
        assert (first, button) == ((15, f"Show all {rows} rows") if rows > 15 else (rows, None))
        assert then == rows
