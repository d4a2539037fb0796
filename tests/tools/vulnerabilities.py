"""Say which known vulnerabilities the packages have that the project and its environments install, as PyPI tells them.

    python tests/tools/vulnerabilities.py      # make vulnerabilities

It asks what pip-audit asks. A mirror of PyPI may tell of a package's newest version alone: versions that it says nothing of are
listed as unknown, where pip-audit passes over them. The packages are those of `workloads/*/*.hashes` and of an installation.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.tools.licences import packages

ROOT = Path(__file__).parents[2]
PYPI = "https://pypi.org/pypi"
PATIENCE_S = 60
NOT_THERE = 404
_PIN = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ \\;]+)")


class Pin(NamedTuple):
    """A version of a package that is installed somewhere."""

    name: str
    version: str


def pins() -> dict[Pin, list[str]]:
    """Return what is installed -> where: the names of environments, and "kernelscope" for the project itself."""
    result: dict[Pin, list[str]] = defaultdict(list)
    for path in sorted(ROOT.glob("workloads/*/*.hashes")):
        for name, version in _PIN.findall(re.sub(r"(?m)^\s.*$", "", path.read_text(encoding="utf8"))):
            result[Pin(name.lower(), version)].append(path.stem)
    for name in packages():
        result[Pin(name, metadata.version(name))].append("kernelscope")
    return dict(sorted(result.items()))


def asked(address: str) -> dict[str, Any] | None:
    """Return what PyPI answers; None where it knows no such page."""
    try:
        with urllib.request.urlopen(f"{PYPI}/{address}/json", timeout=PATIENCE_S) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        if error.code == NOT_THERE:
            return None
        raise


def known(pin: Pin) -> list[str] | None:
    """Return the identifiers of a version's vulnerabilities; None where PyPI does not tell."""
    answer = asked(f"{pin.name}/{pin.version}") or asked(pin.name)
    if answer is None or answer["info"]["version"] != pin.version:
        return None
    return [str(one["id"]) for one in answer["vulnerabilities"] if not one.get("withdrawn")]


def main() -> int:
    """Print the answers; return 1 where there is a vulnerability."""
    where = pins()
    with ThreadPoolExecutor(8) as several:
        answers = dict(zip(where, several.map(known, where), strict=True))
    bad = {pin: found for pin, found in answers.items() if found}
    unknown = [pin for pin, found in answers.items() if found is None]
    clean = len(answers) - len(bad) - len(unknown)
    sys.stdout.write(
        f"{len(answers)} packages: {len(bad)} vulnerable, {clean} without a known vulnerability, {len(unknown)} unknown\n"
    )
    for pin, found in bad.items():
        sys.stdout.write(f"vulnerable: {pin.name} {pin.version} ({', '.join(where[pin])}): {', '.join(found)}\n")
    for pin in unknown:
        sys.stdout.write(f"unknown: {pin.name} {pin.version} ({', '.join(where[pin])})\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
