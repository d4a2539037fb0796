"""What was measured, as lines while it is measured and as Markdown in the end."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure import Measured

BEGIN, END = "<!-- figures: reading.py --markdown writes between these lines -->", "<!-- end of figures -->"


class Report:
    """Prints as it grows. `fine` is whether all limits are met, as far as they were measured."""

    def __init__(self) -> None:
        self.fine = True
        self._markdown: list[str] = []

    def section(self, title: str, text: str = "") -> None:
        """Begin a part of the report."""
        print(f"\n{title}" + (f"\n  {text}" if text else ""), flush=True)
        self._markdown += ["", f"### {title}", *(["", text] if text else [])]

    def sides(self, measured: Measured, size: int | None = None) -> None:
        """Show what each side took; size: bytes of the file, if all of them read it."""
        rows = []
        for name in measured.runs:
            low, high = measured.spread(name, "wall_s")
            wall = measured.median(name, "wall_s")
            rows.append({
                "process": name, "s": f"{wall:.2f}", "from, to": f"{low:.2f}, {high:.2f}",
                "processor s": f"{measured.median(name, 'cpu_s'):.2f}",
                "peak MB": f"{measured.median(name, 'peak_bytes') / 1e6:.0f}",
                **({} if size is None else {"MB/s": f"{size / wall / 1e6:.0f}"}),
            })  # fmt: skip
        self.table(rows)
        for name, reason in measured.missing.items():
            self.missing(name, reason)

    def table(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Show rows of the same keys."""
        if not rows:
            return
        heads = list(rows[0])
        wide = [max(len(head), *(len(row[head]) for row in rows)) for head in heads]
        for line in (dict(zip(heads, heads, strict=True)), *rows):
            cells = [
                line[head].ljust(w) if i == 0 else line[head].rjust(w)
                for i, (head, w) in enumerate(zip(heads, wide, strict=True))
            ]
            print("  " + "  ".join(cells).rstrip())
        print(end="", flush=True)
        self._markdown += ["", "| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
        self._markdown += ["| " + " | ".join(row[head] for head in heads) + " |" for row in rows]
        self._markdown.append("")

    def missing(self, what: str, reason: str) -> None:
        """Say what could not be measured, and why."""
        self._say(f"{what}: not measured: {reason}")

    def note(self, text: str) -> None:
        """Say something that has no limit."""
        self._say(text)

    def verdict(self, text: str, limit: str, met: bool) -> None:
        """Say something that has a limit."""
        self.fine &= met
        self._say(f"{text}; limit {limit}: {'ok' if met else 'NOT MET'}")

    def faster(self, measured: Measured, slow: str, fast: str, least: float | None = None) -> None:
        """Say how many times faster one side is than another; it should be at least `least` times."""
        if not measured.has(slow, fast):
            return
        found = measured.ratios(slow, fast)
        memory = statistics.median(measured.ratios(fast, slow, "peak_bytes"))
        processor = statistics.median(measured.ratios(slow, fast, "cpu_s"))
        text = (
            f"{fast}: {statistics.median(found):.1f} times as fast as {slow} ({min(found):.1f} to {max(found):.1f}), "
            f"{processor:.1f} times by processor time, {memory:.2f} of its memory"
        )
        if least is None:
            self.note(text)
        else:
            self.verdict(text, f"{least:g}x", statistics.median(found) >= least)

    def _say(self, text: str) -> None:
        print(f"  {text}", flush=True)
        if not self._markdown[-1].startswith("- ") and self._markdown[-1]:
            self._markdown.append("")
        self._markdown.append(f"- {text}")

    def write_into(self, page: Path) -> None:
        """Replace what stands between the two comments of a page by this report as Markdown."""
        text = page.read_text(encoding="utf8")
        before, found, rest = text.partition(BEGIN)
        _, closed, after = rest.partition(END)
        if not (found and closed):
            raise SystemExit(f"{page}: has no lines {BEGIN!r} and {END!r} to write between")
        content = "\n".join(self._markdown).replace("\n\n\n", "\n\n").strip("\n")
        page.write_text(f"{before}{BEGIN}\n\n{content}\n\n{END}{after}", encoding="utf8")
