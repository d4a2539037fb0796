"""Write docs/licences.md: under which licences stands what is installed with kernelscope or in its environments, or in its pages.

    python tests/tools/licences.py      # make licences

The packages are those that an installation without extras needs, however far down, as they are installed here, and those that
`workloads/*/*.hashes` name. What is installed in environments here says its licence itself; of the others what the page says
stays.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kernelscope.tracer.outside import environments

PAGE = Path(__file__).parents[2] / "docs" / "licences.md"
HEAD = """# Licences

The project itself is under the {own} licence. These are the packages that are installed with it, because it or another of them
needs them, and the libraries that its pages hold, as they say themselves (`make licences` writes this page).

| package | licence | needed by |
|---|---|---|
"""
EMBEDDED = """
Every page holds two libraries for its tables, and pages with charts hold a third. Their licences lie beside them in
`reports/templates/vendor`.

| file | library | licence |
|---|---|---|
"""
ENVIRONMENTS = """
`kernelscope env create` installs these, each into an environment of its own, of the versions that `workloads/*/*.hashes` name;
nothing else of the project needs them. The licence is that of a version that was installed where this page was written. Packages
without one belong to environments that were not (those for CUDA and for frameworks of then): what PyPI says of them holds.

| package | versions | licence | environments |
|---|---|---|---|
"""
UNKNOWN = "was not installed here"
_PIN = re.compile(r"(?m)^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ \\;]+)")
_ROW = re.compile(r"(?m)^\| ([\w-]+) \| [\w., +]+ \| ([^|]+) \| [^|]+ \|$")
_OSI = "License :: OSI Approved :: "
_LONGEST = 60  # characters of a licence's name; what is longer is its text


def licence(name: str) -> str:
    """Return the licence of an installed package, as it says itself."""
    return stated(metadata.metadata(name))


def stated(about: metadata.PackageMetadata) -> str:
    """Return the licence that a package's metadata state."""
    classifiers = [one.removeprefix(_OSI) for one in about.get_all("Classifier") or [] if one.startswith(_OSI)]
    if expression := (about.get("License-Expression") or "").strip():
        return " ".join(expression.split())
    text = (about.get("License") or "").strip()
    named = text and text != "UNKNOWN" and len(text) <= _LONGEST and "\n" not in text
    return text if named else " or ".join(classifiers) or "not stated"


def packages() -> dict[str, list[str]]:
    """Return what an installation needs: name -> those that need it."""
    found: dict[str, list[str]] = {}
    waiting = [("kernelscope", requirement) for requirement in metadata.requires("kernelscope") or []]
    while waiting:
        by, requirement = waiting.pop(0)
        needed = Requirement(requirement)
        name = canonicalize_name(needed.name)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        if name not in found:
            waiting += [(name, one) for one in metadata.requires(name) or []]
        found.setdefault(name, [])
        if by not in found[name]:
            found[name].append(by)
    return dict(sorted(found.items()))


def embedded() -> list[str]:
    """Return the rows of the libraries in pages, of the list that lies beside them."""
    lines = (Path(__file__).parents[2] / "reports/templates/vendor/README.md").read_text(encoding="utf8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]
    return [f"| {file} | {what.split(',')[0]} | {terms.split(' (')[0]} |" for file, what, _, terms in rows]


def pinned() -> dict[str, tuple[set[str], set[str]]]:
    """Return what environments install: name -> its versions, and the environments."""
    result: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for path in sorted((PAGE.parents[1] / "workloads").glob("*/*.hashes")):
        for name, version in _PIN.findall(path.read_text(encoding="utf8")):
            versions, places = result[canonicalize_name(name)]
            versions.add(version)
            places.add(path.stem.removesuffix("-cpu"))
    return {name: (versions, _alone(places)) for name, (versions, places) in sorted(result.items())}


def _alone(places: set[str]) -> set[str]:
    """Return environments without those for CUDA of which the one for processors installs the same."""
    return {place for place in places if not place.endswith("-cuda") or place.removesuffix("-cuda") not in places}


def installed() -> dict[str, str]:
    """Return the licences of what is installed in environments here, by name."""
    folders = sorted((environments.home() / "environments").glob("*/lib/python3*/site-packages"))
    found = metadata.distributions(path=[str(folder) for folder in folders])
    return {canonicalize_name(one.name): stated(one.metadata).replace("|", "/") for one in found}


def of_environments(earlier: str, known: Mapping[str, str]) -> list[str]:
    """Return the rows of the environments' packages. earlier: the page as it was; known: licences by name."""
    told = {**dict(_ROW.findall(earlier)), **known}
    return [
        f"| {name} | {', '.join(sorted(versions))} | {told.get(name, UNKNOWN)} | {', '.join(sorted(places))} |"
        for name, (versions, places) in pinned().items()
    ]


def page() -> str:
    """Return the page."""
    others = of_environments(PAGE.read_text(encoding="utf8") if PAGE.exists() else "", installed())
    rows = [f"| {name} | {licence(name)} | {', '.join(by)} |" for name, by in packages().items()]
    return (
        HEAD.format(own=licence("kernelscope"))
        + "\n".join(rows)
        + "\n"
        + EMBEDDED
        + "\n".join([*embedded(), ENVIRONMENTS + "\n".join(others)])
        + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf8")
    sys.stdout.write(f"{PAGE}: {len(packages())} packages\n")
