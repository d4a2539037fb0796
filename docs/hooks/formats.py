"""The reference of formats, made from their descriptors and from what their modules say of themselves."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import groupby

from markup import cell, prose

from kernelscope.analysis.formats import Format, all_formats


def page() -> str:
    """Return the page: every format with its name, and what its module says of it."""
    lines = ["# Formats", "", "What `import`, `breakdown`, `explain` and `report` read. More on the most common ones:", ""]
    lines[2] += " [what comes out of each](../formats.md)."
    for package, formats in groupby(sorted(all_formats(), key=_package), key=_package):
        lines += [f"## {package}", "", *_section(list(formats)), ""]
    return "\n".join(lines)


def _section(formats: list[Format]) -> Iterator[str]:
    """Yield the lines of a tool: its formats, and what the modules that read them say."""
    yield from ("| `--format` | files |", "|---|---|")
    yield from (f"| <code>{form.name}</code> | {cell(form.title)} |" for form in formats)
    for module in dict.fromkeys(form.module for form in formats):
        yield from ("", prose(importlib.import_module(module).__doc__ or ""))


def _package(form: Format) -> str:
    return form.module.split(".")[-2]
