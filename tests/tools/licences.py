"""Write docs/licences.md: under which licences stands what is installed with kernelscope, and what its pages hold.

    python tests/tools/licences.py      # make licences

The packages are those that an installation without extras needs, however far down, as they are installed here.
"""

import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
_OSI = "License :: OSI Approved :: "
_LONGEST = 60  # characters of a licence's name; what is longer is its text


def licence(name: str) -> str:
    """Return the licence of an installed package, as it says itself."""
    about = metadata.metadata(name)
    classifiers = [one.removeprefix(_OSI) for one in about.get_all("Classifier") or [] if one.startswith(_OSI)]
    stated = (about.get("License-Expression") or about.get("License") or "").strip()
    named = stated and len(stated) <= _LONGEST and "\n" not in stated
    return stated if named else " or ".join(classifiers) or "not stated"


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


def page() -> str:
    """Return the page."""
    rows = [f"| {name} | {licence(name)} | {', '.join(by)} |" for name, by in packages().items()]
    return HEAD.format(own=licence("kernelscope")) + "\n".join(rows) + "\n" + EMBEDDED + "\n".join(embedded()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf8")
    sys.stdout.write(f"{PAGE}: {len(packages())} packages\n")
