"""Reports of tfprof: by type of operator, by name, cut ones, and what the host does alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelscope.analysis.advise import advise
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import pair
from kernelscope.analysis.formats.tensorflow import tfprof
from kernelscope.analysis.recordings.captures import read as load
from kernelscope.analysis.trace import UNLISTED

TITLES = "node name | requested bytes | total execution time | accelerator execution time | cpu execution time"
TREE = f"""==================Model Analysis Report======================
{TITLES}
_TFProfRoot (--/9.5KB, --/1.50ms, --/900us, --/600us)
  net (0B/9.0KB, 0us/1.30ms, 0us/800us, 0us/500us)
    net/conv1/Conv2D (8KB/8KB, 700us/700us, 500us/500us, 200us/200us)
    net/fc/MatMul_1 (1KB/1KB, 600us/600us, 300us/300us, 300us/300us)
  save (0B/500B, 10us/10us, 0us/0us, 10us/10us)
======================End of Report==========================
"""


def by_type(*rows: tuple[str, str, str, str, str]) -> str:
    """Return a report by type of operator: name, accelerator's time and share, the CPU's time and share."""
    lines = [
        f"{name:<20} 1.5KB (100.00%, 1.00%),  9.99ms (50.00%, 9.99%),  {mine} (100.00%, {share}),  {host} (9.00%, {part})"
        for name, mine, share, host, part in rows
    ]
    return "\n".join(["Profile:", TITLES, *lines, "", "=====End of Report====="])


HALF = by_type(("Conv2D", "30.00ms", "60.00%", "5.00ms", "10.00%"), ("Where", "0us", "0.00%", "40.00ms", "80.00%"))


def written(tmp_path: Path, text: str) -> Path:
    """Write a report."""
    path = tmp_path / "report.txt"
    path.write_text(text)
    return path


def test_a_report_by_type_and_its_missing_part(tmp_path: Path) -> None:
    """30 ms are 60% of 50 ms: so 20 ms are in rows that were not printed."""
    trace = load(written(tmp_path, HALF))
    kernels = trace.kernels.set_index("name")
    assert kernels["duration_ns"].to_dict() == {"Conv2D": 30_000_000, UNLISTED: 20_000_000}
    assert kernels.loc["Conv2D", ["kind", "device", "count"]].tolist() == ["convolution forward", "cuda:0", 1]
    assert trace.totals.set_index("name")["duration_ns"].to_dict() == {"Conv2D": 5_000_000, "Where": 40_000_000}
    assert trace.info["framework"] == "tensorflow"
    assert any("not print how often" in note for note in trace.info["notes"])


def test_a_report_by_name_has_layers_and_what_was_not_printed(tmp_path: Path) -> None:
    """The root's whole are 900 us: 500 and 300 are printed."""
    kernels = load(written(tmp_path, TREE)).kernels.set_index("name")
    assert kernels["duration_ns"].to_dict() == {"net/conv1/Conv2D": 500_000, "net/fc/MatMul_1": 300_000, UNLISTED: 100_000}
    assert kernels["layer"].dropna().to_dict() == {"net/conv1/Conv2D": "net/conv1", "net/fc/MatMul_1": "net/fc"}
    assert kernels.loc["net/fc/MatMul_1", "kind"] == "gemm"


def test_a_scope_whose_nodes_were_not_printed_holds_their_time(tmp_path: Path) -> None:
    """Own times are 0; of the scope's 800 us the row below it has 500. The host works 6 ms, the accelerator 1."""
    text = f"""{TITLES}
_TFProfRoot (--/9KB, --/7.00ms, --/1.00ms, --/6.00ms)
  train (0B/9KB, 0us/5.80ms, 0us/800us, 0us/5.00ms)
  train/gradients (0B/5KB, 0us/2.50ms, 0us/500us, 0us/2.00ms)
"""
    trace = load(written(tmp_path, text))
    assert trace.kernels.set_index("name")["duration_ns"].to_dict() == {
        "train": 300_000, "train/gradients": 500_000, UNLISTED: 200_000
    }  # fmt: skip
    assert trace.info["host_ns"] == 6_000_000
    (one, *_) = advise(tmp_path / "report.txt")["advice"]
    assert (one["topic"], one["saves_ns"]) == ("host-bound", 5_000_000)


def test_a_report_by_type_and_one_by_name_are_compared_by_kind(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    types = written(
        tmp_path / "a", by_type(("Conv2D", "700us", "70.00%", "1us", "1.00%"), ("MatMul", "300us", "30.00%", "1us", "1.00%"))
    )
    result = pair.read(types, written(tmp_path, TREE)).explain()
    assert result["differs"] == []
    assert all("so only kinds of work are compared" in one["evidence"][0] for one in result["findings"])


def test_without_an_accelerator_the_processors_time_is_the_work(tmp_path: Path) -> None:
    text = by_type(("MatMul", "0us", "0.00%", "1.25sec", "62.50%"), ("Tile", "0us", "0.00%", "750.00ms", "37.50%"))
    trace = load(written(tmp_path, text))
    assert trace.kernels.set_index("name")["duration_ns"].to_dict() == {"MatMul": 1_250_000_000, "Tile": 750_000_000}
    assert set(trace.kernels["device"]) == {"cpu"}
    assert not len(trace.totals)


def test_titles_may_be_padded(tmp_path: Path) -> None:
    text = HALF.replace(TITLES, TITLES.replace(" | ", "        | "))
    assert load(written(tmp_path, text)).kernels["duration_ns"].sum() == 50_000_000


def test_executions_are_those_that_ran(tmp_path: Path) -> None:
    text = f"{TITLES} | op occurrence (run|defined)\n" + by_type(("Mul", "2.00ms", "100.00%", "1.00ms", "100.00%")).split("\n")[2]
    kernels = load(written(tmp_path, f"{text},  7282|9427\nNo row at all\n")).kernels
    assert kernels[["name", "count", "duration_ns"]].to_numpy().tolist() == [["Mul", 7282, 2_000_000]]


def test_lines_that_are_no_rows_and_further_reports_are_told(tmp_path: Path) -> None:
    row = by_type(("Mul", "2.00ms", "100.00%", "1.00ms", "100.00%")).split("\n")[2]
    trace = load(written(tmp_path, f"{TITLES}\n{row}\n!!!\n{row.replace('Mul', 'Add')}\n\n{TITLES}\n{row}\n"))
    assert trace.diagnostics["lines of tables that are no rows"] == 1
    assert trace.kernels["duration_ns"].sum() == 4_000_000
    assert any("line 6 is not read" in note for note in trace.info["notes"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("node name | # parameters\n_TFProfRoot (--/930 params)\n", "no execution times; print it with"),
        (f"{TITLES}\n_TFProfRoot (--/1KB, --, --, --)\n", "none of the .* lines below the titles has a time"),
    ],
)
def test_reports_without_times_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(EvidenceError, match=said):
        tfprof.read(written(tmp_path, text))


def test_advice_names_operators_that_the_device_does_not_run(tmp_path: Path) -> None:
    """Where takes 40 ms on the host, and no work on the device; Conv2D has both."""
    result = advise(written(tmp_path, HALF))
    [one] = [one for one in result["advice"] if one["topic"] == "operators on the host"]
    assert one["title"] == "Where runs on the host alone"
    assert one["saves_ns"] == pytest.approx(40_000_000)
    few = by_type(("Conv2D", "30.00ms", "60.00%", "5.00ms", "10.00%"), ("IteratorGetNext", "0us", "0.00%", "40.00ms", "80.00%"))
    assert "operators on the host" not in {one["topic"] for one in advise(written(tmp_path, few))["advice"]}


@pytest.mark.parametrize(("times", "longest"), [((290, 290, 290), None), ((100, 700, 100), "net/Regret_2")])
def test_operators_of_no_known_kind_are_not_named_by_it(tmp_path: Path, times: tuple[int, ...], longest: str | None) -> None:
    """Of 1.5 ms: a kind that is unknown tells nothing, a single operator of 700 us does."""
    rows = "\n".join(
        f"    net/Regret_{at} (1KB/1KB, {us}us/{us}us, 0us/0us, {us}us/{us}us)" for at, us in enumerate(times, start=1)
    )
    whole = f"_TFProfRoot (--/9KB, --/1.50ms, --/0us, --/1.50ms)\n  net (0B/9KB, 0us/{sum(times)}us, 0us/0us, 0us/{sum(times)}us)"
    result = advise(written(tmp_path, f"===Model Analysis Report===\n{TITLES}\n{whole}\n{rows}\n===End of Report===\n"))
    assert (result["longest"] or {}).get("name") == longest
