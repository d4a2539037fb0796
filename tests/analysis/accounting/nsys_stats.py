"""What `nsys stats` says of the exports of the corpus."""

import csv
import shutil
import subprocess

import pytest

from tests.places import CORPUS

_CORPUS = CORPUS
EXPORTS = sorted((_CORPUS / "nsys").glob("*.sqlite"))
PAIRED = sorted((_CORPUS / "pairs").glob("*/[ab].sqlite"))
NEEDED = pytest.mark.skipif(shutil.which("nsys") is None, reason="Nsight Systems is not installed")


def rows(path, folder, report):
    """Return the rows of a report, by the names of its columns; none where nsys cannot make it."""
    copy = shutil.copy(path, folder)  # nsys writes beside its input
    command = ["nsys", "stats", "--report", report, "--format", "csv", "--quiet", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = csv.DictReader(done.stdout[done.stdout.find("Time") :].splitlines())
    return [row for row in found if row.get("Name")]
