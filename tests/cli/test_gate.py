"""`gate` as continuous integration calls it: what fails, what does not, and what it writes."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from kernelscope.analysis.comparisons.gate import judge
from kernelscope.cli import main

from .test_explain import capture


def explanation(delta_ns, interval_ns=None, base_ns=10_000_000, restarts=2):
    """What `judge` looks at of an explanation."""
    floor = None if interval_ns is None else (interval_ns[1] - interval_ns[0]) // 2
    return {
        "a": {"step_ns": base_ns, "restarts": 3}, "b": {"step_ns": base_ns + delta_ns, "restarts": restarts},
        "wall_delta_ns": delta_ns,
        "wall_interval_ns": interval_ns, "floor_ns": floor, "to_resolve": "record again",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("delta", "interval", "limit", "status"),
    [
        (500_000, [400_000, 600_000], 0.03, "failed"),
        (500_000, [300_000, 700_000], 0.03, "undecided"),  # from 3%: not beyond it
        (500_000, [200_000, 900_000], 0.03, "undecided"),
        (200_000, [150_000, 250_000], 0.03, "passed"),
        (-500_000, [-600_000, -400_000], 0.03, "passed"),
        (100_000, [50_000, 140_000], 0.0, "undecided"),  # two runs of one program may differ by 1.5%
        (200_000, [160_000, 240_000], 0.0, "failed"),
        (500_000, None, 0.03, "undecided"),
        (200_000, None, 0.03, "undecided"),
        (200_000, [-400_000, 800_000], 0.03, "undecided"),  # blind: the interval reaches beyond the limit
    ],
)
def test_what_fails(delta, interval, limit, status):
    verdict = judge(explanation(delta, interval), limit)
    assert verdict.status == status
    assert verdict.change == delta / 10_000_000
    assert (verdict.low, verdict.high) == ((None, None) if interval is None else tuple(end / 10_000_000 for end in interval))


def test_one_process_a_side_shows_nothing_of_how_processes_differ():
    verdict = judge(explanation(500_000, [490_000, 510_000], restarts=1), 0.03)
    assert (verdict.status, verdict.low, verdict.high) == ("undecided", None, None)


@pytest.fixture
def gate(tmp_path, capsys):
    """Run `gate` on captures of steps of 1.0 and 2.0 ms, the second with a hostile kernel name: (status, stdout, stderr)."""
    base = capture(tmp_path / "base.json", 900)
    new = capture(tmp_path / "new.json", 1900, "<b>]]>&\x1b[31m\x00=1+1")

    def run(*arguments, base=base, new=new):
        try:
            status = main.main(["gate", str(base), str(new), *arguments])
        except SystemExit as left:
            status = left.code
        return status, *capsys.readouterr()

    return run


def test_one_recording_a_side_cannot_decide(gate):
    status, out, _ = gate()
    assert status == 5
    assert out.startswith("gate undecided: B (new) takes 100.0% more per step than A (base) (limit +3.0%)\n")
    assert gate("--strict")[0] == 1
    assert gate("--allow-undecided")[0] == 0
    assert gate("--max-regression", "100%")[1].startswith("gate undecided"), "it does not pass silently"


def test_json_holds_verdict_and_account(gate):
    found = json.loads(gate("--format", "json")[1])
    assert (found["schema"], found["status"]) == ("kernelscope/gate/1", "undecided")
    assert (found["base_ns"], found["new_ns"], found["change"], found["low"]) == (1_000_000, 2_000_000, 1.0, None)
    account = found["explanation"]
    assert sum(row["delta_ns"] for row in account["rows"]) + account["instrumentation_ns"] == 1_000_000


def test_files_for_servers_and_pull_requests(gate, tmp_path):
    junit, page = tmp_path / "gate.xml", tmp_path / "gate.md"
    gate("--junit", str(junit), "--markdown", str(page))
    suite = ElementTree.parse(junit).getroot()
    counts = {"tests": "1", "failures": "0", "skipped": "1", "errors": "0"}
    assert suite.attrib == {"name": "kernelscope gate", **counts, "time": "0.002000000"}
    case = suite.find("testcase")
    assert case.get("name") == "A (base) to B (new)"
    assert "takes 100.0% more" in case.find("skipped").get("message")
    account = case.find("skipped").text.splitlines()
    assert account[0].startswith("B (new) is slower than A (base) by 1.00 ms per step")
    assert not any("\\(" in line or len(line) > 120 for line in account), "plain text, as explain prints it"
    assert {row.get("name"): row.get("value") for row in suite.iter("property")}["new_ns"] == "2000000"
    text = page.read_text()
    assert text.startswith("## gate undecided: ")
    assert "| **difference** | **+1.00** |" in text
    assert "<b>" not in text
    assert "\x1b" not in text + junit.read_text()


@pytest.mark.parametrize("share", ["3", "1001%", "many%", "nan%"])
def test_the_limit_is_a_percentage(gate, share):
    status, _, err = gate("--max-regression", share)
    assert status == 2
    assert "percentage" in err
    assert err.count("\n") == 1


def test_what_is_not_there_and_what_cannot_be_written(gate, tmp_path):
    status, _, err = gate(new=tmp_path / "nothing")
    assert (status, err.count("\n")) == (3, 1)
    status, _, err = gate("--junit", str(tmp_path / "no" / "gate.xml"))
    assert status == 3
    assert "name another file" in err


WORKFLOWS = re.findall(
    r"^```yaml\n(.*?)^```$", (Path(__file__).parents[2] / "docs/gate-workflows.md").read_text(), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("text", WORKFLOWS, ids=["github", "gitlab"])
def test_workflows_that_the_page_shows(text):
    """They are YAML, their scripts are those of a shell, and what they ask of kernelscope is accepted."""
    found = yaml.safe_load(text)
    scripts = found["speed"]["script"] if "speed" in found else [s["run"] for s in found["jobs"]["gate"]["steps"] if "run" in s]
    subprocess.run(["bash", "-n"], input="\n".join(scripts), text=True, check=True, timeout=10)
    asked = re.findall(r"\bkernelscope ((?:profile|gate) [^)\n]*)", "\n".join(scripts))
    assert {line.split()[0] for line in asked} == {"profile", "gate"}
    for line in asked:
        words = shlex.split(line)
        main.parser(words[0]).parse_args(words)


def test_one_recording_is_not_set_against_itself(tmp_path, capsys):
    """Two paths to one place are a mistake of whoever wrote the job, and no reason to pass."""
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").symlink_to("a.json")
    assert main.main(["gate", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 2
    assert "are the same recording; name two different ones" in capsys.readouterr().err
