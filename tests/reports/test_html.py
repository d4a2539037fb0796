# ruff: noqa: RUF001 (ratios are shown with a multiplication sign)
import re

import pytest

from kernelscope.reports import breakdown_views, content, html, sections
from kernelscope.reports.text import WHOLE


def written(result, tmp_path):
    path = tmp_path / "new" / "report.html"
    html.write_comparison(result, path)
    return path.read_text(encoding="utf8")


@pytest.mark.parametrize("kind", ["result", "hostile", "sparse"])
def test_it_is_one_file_that_asks_for_nothing(kind, request, tmp_path, parse):
    text = written(request.getfixturevalue(kind), tmp_path)
    page = parse(text)
    assert len(text) < 1_000_000
    assert page.tags.count("script") == 5, "two libraries of tables, and what is ours"
    assert {"img", "iframe", "object", "embed"}.isdisjoint(page.tags)
    for _, name, value in page.attributes:
        assert not name.startswith("on"), "no inline handlers"
        if name in ("src", "href"):
            assert value.startswith("#") or value == "data:,"
    assert "url(http" not in text
    assert "default-src 'none'" in text
    identifiers = [value for _, name, value in page.attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))
    targets = {value[1:] for _, name, value in page.attributes if name == "href" and value.startswith("#")}
    assert targets <= set(identifiers)


def test_the_answer_is_the_heading(result, tmp_path):
    text = written(result, tmp_path)
    others = "cntk takes 4.08× as long, mxnet 9.07× (unsure), pytorch 11.1× (unsure)"
    assert f"<h1>tensorflow is fastest with 6.42 ms per step; {others}</h1>" in text
    assert "kernelscope compare lenet -f pytorch,tensorflow,mxnet,cntk" in text


def test_columns_end_in_the_clean_step(result, tmp_path, parse):
    rows = [row for row in parse(written(result, tmp_path)).rows if row and row[0] == "total = clean step"]
    assert [[float(cell) for cell in row if re.fullmatch(r"[\d.]+", cell)] for row in rows] == [[71.21, 6.42, 58.2, 26.17]] * 2


def test_tables_have_headers_with_scope_and_buttons_to_sort(result, tmp_path, parse):
    page = parse(written(result, tmp_path))
    scopes = [value for tag, name, value in page.attributes if tag == "th" and name == "scope"]
    assert page.tags.count("th") == len(scopes)
    assert set(scopes) == {"row", "col"}
    assert page.tags.count("button") > 30
    assert page.tags.count("caption") == page.tags.count("table")


def test_figures_have_titles_and_text_that_follows_the_page(result, tmp_path):
    text = written(result, tmp_path)
    figures = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(figures) == 7, "three for wide and narrow pages, one for wide ones only"
    for figure in figures:
        assert re.search(r'role="img" aria-labelledby="([\w-]+)"[^>]*><title id="\1">[^<]+', figure)
        assert "currentColor" in figure
        assert "#1b1f24" not in figure
        assert "<text" in figure, "text stays text"
        assert "<metadata" not in figure
    assert any("tensorflow 6.42 ms, cntk 26.2 ms" in figure for figure in figures)


def test_unknown_is_a_dash(sparse, tmp_path, parse):
    page = parse(written(sparse, tmp_path))
    assert ["peak memory", "—", "—", "—", "—"] not in page.rows, "a metric that nobody has is left out"
    interval = next(row for row in page.rows if row and row[0].startswith("slower by"))
    assert interval.count("—") == 3


def test_hostile_names_are_only_text(hostile, tmp_path):
    text = written(hostile, tmp_path)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "{{7*7}}" in text, "templates are not applied to data"
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "A" * (WHOLE + 1) not in text


def test_a_run_shows_its_breakdowns(result, tmp_path, parse):
    name = "pytorch"
    alone = {
        **result,
        "frameworks": [name],
        "summary": [{**row, "ratio": 1.0} for row in result["summary"] if row["framework"] == name],
    }
    parts = [result["lines"][name], {"by": "idle", "unavailable": "nothing was recorded", "rows": []}]
    html.write_run(alone, parts, tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text(encoding="utf8")
    parse(text)
    assert "<h1>A step of training takes 71.2 ms: lenet in pytorch</h1>" in text
    assert 'id="by-line"' in text
    longest = max(result["layers"], key=lambda row: row["time_ns"][name] or 0)
    place = result["layers"].index(longest)
    assert f'most of the mean step: <a href="#layers-{place}">{longest["layer"]} {longest["phase"]}</a>' in text
    assert "nothing was recorded" in text


def test_the_title_of_a_run_is_its_answer_and_stands_there_once(result, tmp_path, parse):
    alone = {**result, "frameworks": ["pytorch"], "summary": [row for row in result["summary"] if row["framework"] == "pytorch"]}
    advised = {
        "step_ns": 71_200_000, "per": "a step", "parts": [{"what": "computing", "ns": 71_200_000}], "advice": [], "notes": [],
        "hardware": None, "device": "cpu", "framework": "pytorch", "busy": {"others": 1.5, "cores": 2},
    }  # fmt: skip
    html.write_run(alone, [], tmp_path / "run.html", advised=advised)
    text = (tmp_path / "run.html").read_text(encoding="utf8")
    parse(text)
    assert "<h1>A step takes 71.2 ms: computing 100%. Other processes kept 1.5 of 2 cores busy" in text
    assert text.count("Other processes kept") == 1
    assert re.search(r"pytorch · lenet .* · train", text), "what ran stands above it"


def test_long_breakdowns_keep_their_sum(result, tmp_path, parse):
    row = {"kernel": "k", "count": 1, "duration_ns": 10, "time_ns": 10, "share": 0.0005, "method": "none"}
    part = {"by": "kernel", "step_ns": 20_000, "coverage": 1.0, "steps": 1, "rows": [dict(row) for _ in range(2000)]}
    html.write_run(result, [part], tmp_path / "run.html")
    rows = parse((tmp_path / "run.html").read_text(encoding="utf8")).rows
    rest = next(line for line in rows if line and line[0] == "(1700 more)")
    assert rest[1] == "17.0 µs"


def of_kernel(kernel, time_ns, **more):
    return {"kernel": kernel, "kind": "gemm", "library": "cublas", "count": 2, "duration_ns": 2 * (time_ns or 700),
            "time_ns": time_ns, "share": 0.1, "mean_ns": 700, "median_ns": 700, "min_ns": 700, "max_ns": 700, **more}  # fmt: skip


def test_sides_that_noise_hides_from_the_fastest_stand_with_it(result):
    rows = {row["framework"]: row for row in result["summary"]}
    for name in ("cntk", "mxnet"):
        rows[name].update(significant=False)
    alike = "tensorflow, cntk and mxnet cannot be told apart: 6.42 ms, 26.2 ms and 58.2 ms per step"
    assert content.headline(result) == f"{alike}; pytorch takes 11.1× (unsure) as long"
    sides = {"a": {"name": "tensorflow"}, "b": {"name": "mxnet"}}
    uncertain = {**sides, "significant": True, "wall_interval_ns": [-9, 90], "wall_delta_ns": 40}
    alike += " (mxnet slower by processor time)"
    assert content.headline({**result, "explanations": [uncertain]}) == f"{alike}; pytorch takes 11.1× (unsure) as long"


def test_a_restart_that_met_something_else_is_pointed_out(result):
    for row in result["summary"]:
        row["repeat_medians_ns"] = [15_000_000, 16_000_000, 20_000_000]
    assert not any("one restart" in text for text in content.warnings(result))
    result["summary"][0]["repeat_medians_ns"] = [15_000_000, 60_000_000, 16_000_000]
    (text,) = [text for text in content.warnings(result) if "one restart" in text]
    name = result["summary"][0]["framework"]
    assert f"so means are too large: {name} (60.0 ms a step, else 15.5 ms); record again" in text


def test_kernels_come_before_what_the_host_did_and_show_what_fits():
    host = {**of_kernel("(host: outside of ranges)", 9000), **dict.fromkeys(("mean_ns", "median_ns", "min_ns", "max_ns"))}
    part = {"by": "kernel", "step_ns": 10_000, "coverage": 1.0, "steps": 1, "rows": [host, of_kernel("sgemm", 1000)]}
    view = breakdown_views.breakdown(part)
    assert ([row[0].text for row in view.rows], view.below[0].text) == (["sgemm"], "(host: outside of ranges)")
    assert [row[0].text for row in breakdown_views.breakdown({**part, "rows": [host]}).rows] == ["(host: outside of ranges)"]
    told = [column.title for column in view.columns if not column.asked]
    assert told == ["kernel", "time", "share", "calls", "average", "median", "shortest", "longest", "kind"]
    assert [column.title for column in view.columns if column.asked] == ["durations", "library"]
    whole = breakdown_views.breakdown({**part, "window": "capture"})
    assert "durations" in [column.title for column in whole.columns if not column.asked], "kernels overlap in the capture"


def test_calls_and_durations_are_those_of_a_step():
    row = {**of_kernel("sgemm", 1000), "count": 30, "duration_ns": 14_000}
    part = {"by": "kernel", "step_ns": 10_000, "coverage": 1.0, "steps": 10, "rows": [row, {**row, "count": 5}]}
    view = breakdown_views.breakdown(part)
    titles = [column.title for column in view.columns]
    assert [[row[titles.index(title)].text for title in ("calls", "durations")] for row in view.rows] == [
        ["3", "1.40 µs"], ["0.5", "1.40 µs"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ({"measured_steps": 15}, ["1", "12.0 ms", "kernels with most time in the kernels pass (per step)"]),
        ({}, ["15", "179 ms", "kernels with most time in the kernels pass (time per step; calls and durations of all steps)"]),
    ],
)
def test_calls_of_a_runs_kernels_are_those_of_a_step(result, steps, told):
    """Comparisons of earlier versions do not know how many steps there were."""
    name = result["frameworks"][0]
    passes = [{**row, **(steps if (row["framework"], row["pass"]) == (name, "kernels") else {})} for row in result["passes"]]
    view = sections.kernels({**result, "passes": passes})[0]
    titles = [column.title for column in view.columns]
    assert [*(view.rows[0][titles.index(title)].text for title in ("calls", "durations")), view.caption] == [
        *told[:2], f"{name}: {told[2]}",
    ]  # fmt: skip


def test_a_step_has_its_own_time():
    rows = [
        {
            "step": step,
            "window": None,
            "count": 1,
            "duration_ns": ns,
            "time_ns": ns // 2,
            "share": ns / 2 / 3000,
            "method": "measured",
        }
        for step, ns in ((5, 2000), (6, 4000))
    ]
    view = breakdown_views.breakdown({"by": "step", "step_ns": 3000, "coverage": 1.0, "steps": 2, "rows": rows})
    titles = [column.title for column in view.columns]
    shown = {row[0].text: [row[titles.index(title)].text for title in ("time", "share")] for row in view.rows}
    assert shown == {"5": ["2.00 µs", "66.7%"], "6": ["4.00 µs", "133.3%"]}


def test_of_totals_durations_come_first():
    rows = [{**of_kernel("sgemm", None), "share": 1.0}]
    part = {"by": "kernel", "step_ns": None, "window": "totals", "coverage": 1.0, "steps": 0, "rows": rows}
    view = breakdown_views.breakdown(part)
    assert [column.title for column in view.columns][:4] == ["kernel", "durations", "share", "calls"]
    assert [cell.text for cell in view.total[:3]] == ["sum of durations", "1.40 µs", "100.0%"]


def test_lines_say_whether_what_they_call_is_in_their_time(result):
    (line,) = [view for view in sections.lines(result) if view.key == "lines-pytorch"]
    assert "lines pass, time with calls" in line.caption
    name, row = (
        "pytorch",
        {"file": "a.py", "line": 3, "text": "f(x)", "function": "main", "count": 4, "time_ns": 10, "share": 1.0},
    )
    timeline = {"rows": [{**row, "host_ns": 10, "profiled_ns": 900}], "step_ns": 10}
    (line,) = sections.lines({"frameworks": [name], "lines": {name: timeline}})
    assert "kernels pass, time without calls" in line.caption
    assert [column.title for column in line.columns] == ["line", "statement", "time", "share"], "no table mixes two passes"
