"""What the README shows of advice is what the commands print today."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT, corpus

WORDS = ROOT / "tests" / "data" / "gpu" / "h100" / "words"


def shown(start):
    """Return the lines of the README's block that has a line with this beginning, but for what is left out."""
    blocks = re.findall(r"^```\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf8"), re.MULTILINE | re.DOTALL)
    [lines] = [block.splitlines() for block in blocks if re.search(f"^{re.escape(start)}", block, re.MULTILINE)]
    return [line for line in lines if line and line != "[...]" and not line.startswith("$ ")]


@pytest.mark.parametrize(
    ("start", "path"),
    [
        ("A step takes 101 ms on NVIDIA H100", lambda: WORDS),
        ("A step takes 720 ms", lambda: corpus("pairs/n21-workers2-8/a.sqlite")),
    ],
)
def test_advice_is_as_the_readme_shows_it(tmp_path, start, path):
    recording = path()
    if recording.is_dir():
        recording = shutil.copytree(recording, tmp_path / "copy")  # its cache stays there
    command = [str(Path(sys.executable).with_name("kernelscope")), "advise", str(recording)]
    wide = {**os.environ, "COLUMNS": "120"}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=wide).stdout.splitlines()
    place = 0
    for line in shown(start):
        begins = line.removesuffix(" ...")
        found = [number for number in range(place, len(printed)) if printed[number].startswith(begins)]
        assert found, f"not printed, or not in this order: {line}"
        assert line.endswith(" ...") or line == printed[found[0]]
        place = found[0] + 1
