"""What the README and the docs show of advice and explanations is what the commands print today."""

import os
import re
import shutil

import pytest

from tests import forked
from tests.places import ROOT, corpus

WORDS = ROOT / "tests" / "data" / "gpu" / "h100" / "words"


def shown(page, start):
    """Return the lines of a page's block that has a line with this beginning, but for what is left out."""
    blocks = re.findall(r"^```\n(.*?)^```$", (ROOT / page).read_text(encoding="utf8"), re.MULTILINE | re.DOTALL)
    [lines] = [block.splitlines() for block in blocks if re.search(f"^{re.escape(start)}", block, re.MULTILINE)]
    return [line for line in lines if line and line != "[...]" and not line.startswith("$ ")]


def pair(name):
    return [corpus(f"pairs/{name}/a.json.gz"), corpus(f"pairs/{name}/b.json.gz")]


@pytest.mark.parametrize(
    ("page", "start", "command", "paths"),
    [
        ("README.md", "A step takes 101 ms on NVIDIA H100", "advise", lambda: [WORDS]),
        ("README.md", "A step takes 720 ms", "advise", lambda: [corpus("pairs/n21-workers2-8/a.sqlite")]),
        ("docs/explain-captures.md", "A and B are close", "explain", lambda: pair("tl-timesformer-h100-mi300")),
    ],
)
def test_output_is_as_it_is_shown(tmp_path, page, start, command, paths):
    # a folder's cache stays with its copy
    recordings = [shutil.copytree(path, tmp_path / path.name) if path.is_dir() else path for path in paths()]
    done = forked.run(command, *map(str, recordings), timeout=120, env={**os.environ, "COLUMNS": "120"})
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    place = 0
    for text in shown(page, start):
        begins = text.removesuffix(" ...")
        found = [number for number in range(place, len(printed)) if printed[number].startswith(begins)]
        assert found, f"not printed, or not in this order: {text}"
        assert text.endswith(" ...") or text == printed[found[0]]
        place = found[0] + 1
