"""The reference of formats, made from their descriptors and from what their modules say of themselves."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import groupby

from markup import cell

from kernelscope.analysis.formats import Format, all_formats


def page() -> str:
    """Return the page: every format with its name, by the tool that writes it."""
    lines = ["# Formats", "", "What `import`, `breakdown`, `advise`, `explain` and `report` read, as the code declares it."]
    lines += ["[Formats that are read](../formats.md) has the details.", ""]
    for package, formats in groupby(sorted(all_formats(), key=_package), key=_package):
        lines += [f"## {package}", "", *_section(formats), ""]
    return "\n".join(lines)


def _section(formats: Iterator[Format]) -> Iterator[str]:
    """Yield a tool's table."""
    yield from ("| name | files | how they are read |", "|---|---|---|")
    yield from (f"| <code>{form.name}</code> | {cell(form.title)} | {cell(_first_words(form))} |" for form in formats)


def _first_words(form: Format) -> str:
    """Return the first paragraph of what the module says that reads the format."""
    return (importlib.import_module(form.module).__doc__ or "").partition("\n\n")[0]


def _package(form: Format) -> str:
    return form.module.split(".")[-2]
