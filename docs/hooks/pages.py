"""What `make docs` adds to the pages in docs/: the reference, made from the code, and files of the project that pages link to.

MkDocs calls the functions on_*. The pages themselves hold plain links to files (../tests/x.py), which work where the code is
hosted; on the site such a file is a page of its own under source/.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import columns
import commands
import formats
import notebooks
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")  # to something here: an address on the net has a colon
_SHOWN = (".py", ".csv", ".toml", ".json", "")  # files that are shown as pages


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    made = {
        "reference/commands.md": commands.page(),
        "reference/columns.md": columns.page(),
        "reference/formats.md": formats.page(),
    }
    for target in {path for page in files.documentation_pages() for path in _targets(page.src_uri, page.content_string)}:
        made[_address(target)] = notebooks.page(target) if target.suffix == ".ipynb" else _source(target)
    for address, text in made.items():
        files.append(File.generated(config, address, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links to the project's files to their pages, and list the records of the GPU checks."""
    if page.file.generated_by:
        return markdown
    here = os.path.dirname(page.file.src_uri)

    def lead(match: re.Match[str]) -> str:
        target = _shown(here, match[2])
        return f"{match[1]}{os.path.relpath(_address(target), here or '.')}{match[3]}" if target else match[0]

    if page.file.src_uri == "gpu/README.md":
        markdown += "\n## Records\n\n" + "".join(
            f"- [{path.stem}]({path.name})\n" for path in sorted((DOCS / "gpu").glob("20*.md"))
        )
    return _LINK.sub(lead, markdown)


def _targets(page: str, markdown: str) -> Iterator[Path]:
    """Yield the project's files that a page links to and that are no pages themselves."""
    for match in _LINK.finditer(markdown):
        target = _shown(os.path.dirname(page), match[2])
        if target:
            yield target


def _shown(folder: str, link: str) -> Path | None:
    """Return the file that a link in docs/`folder` leads to if it is to be shown as a page; None for all that MkDocs knows."""
    target = Path(os.path.normpath(DOCS / folder / link))
    inside = target.is_relative_to(DOCS)
    if not target.is_relative_to(ROOT) or (inside and target.suffix not in (".py", ".ipynb")):
        return None
    if not target.is_file():
        raise PluginError(f"docs/{folder}: the link {link} leads to no file")
    return target


def _address(target: Path) -> str:
    return f"source/{target.relative_to(ROOT).as_posix()}.md"


def _source(target: Path) -> str:
    """Return a page that shows a file of the project."""
    name = target.relative_to(ROOT).as_posix()
    text = target.read_text(encoding="utf8")
    if target.suffix == ".md":
        return text
    if target.suffix not in _SHOWN:
        raise PluginError(f"{name}: a page links to it, and it cannot be shown; add how to docs/hooks/pages.py")
    language = {".py": "python", ".toml": "toml", ".json": "json"}.get(target.suffix, "text")
    return f"# {name}\n\n````{language}\n{text}\n````\n"
