"""Two recordings to explain: run folders by layer, captures of device work by the device's account, line profiles by line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import device, line_profiles, restarts, sides
from kernelscope.analysis.explain.explanation import explain
from kernelscope.analysis.explain.model import Side
from kernelscope.analysis.recordings import archives, captures_within
from kernelscope.analysis.trace import Trace


@dataclass(frozen=True)
class Pair:
    """Two sides that were read: both captures of device work (of several processes each) or of lines, or sides with layers."""

    captures: tuple[list[device.CaptureSide], list[device.CaptureSide]] | None
    sides: tuple[Side, Side] | None

    @property
    def of_lines(self) -> bool:
        """Whether both hold nothing but times of lines."""
        return self.captures is not None and line_profiles.applies(*(side[0].trace for side in self.captures))

    @property
    def of_devices(self) -> bool:
        """Whether the device's own account explains them."""
        return self.captures is not None and not self.of_lines

    def traces(self) -> Iterator[Trace]:
        """Yield the Trace of each side."""
        for side in itertools.chain(*self.captures) if self.captures else self.sides or ():
            yield side.trace

    def explain(
        self, mapping: Mapping[str, str] | None = None, force: bool = False, request: Request | None = None
    ) -> dict[str, Any]:
        """Explain why the second takes more or less time than the first, as plain data.

        mapping: layers that correspond (see layer_names.read_map). force: explain although the work differs. request: which
        steps of captures of device work.
        """
        if self.captures is not None and self.of_lines:
            return line_profiles.explain(self.captures[0][0], self.captures[1][0])
        if self.captures is not None:
            return device.explain_processes(*self.captures, request)
        assert self.sides is not None
        return explain(*self.sides, mapping=mapping, force=force)


def read(a: Path, b: Path, by_layers: bool = False) -> Pair:
    """Return the pair at two paths; raise EvidenceError if one cannot be read.

    A folder of captures is one side, each of another process of its program. by_layers: treat captures of device work by layers,
    too.
    """
    captures = [_captures(path) for path in (a, b)]
    if all(captures) and not by_layers:
        first, second = (side[0].trace for side in captures)
        several = max(map(len, captures)) > 1
        if line_profiles.applies(first, second) and several:
            raise EvidenceError(f"{a}: times of lines are compared one file with another; name one of each side")
        if device.applies(first, second) or line_profiles.applies(first, second):
            return Pair((captures[0], captures[1]), None)
    loaded = [_with_layers(path, side) for path, side in zip((a, b), captures, strict=True)]
    return Pair(None, (loaded[0], loaded[1]))


def _captures(path: Path) -> list[device.CaptureSide]:
    """Return the captures at a path: of one process, or of several in a folder; none for run folders."""
    if restarts.recordings(path):
        return []
    several = captures_within.of_processes(path)
    named = [(one, archives.named(str(one))) for one in several or [path]]
    read = [(name, sides.capture(one)) for one, name in named]
    return [device.CaptureSide(name, trace) for name, trace in read if trace is not None]


def _with_layers(path: Path, captures: list[device.CaptureSide]) -> Side:
    """Return a side that is explained by layers."""
    if not captures:
        return restarts.load(path)
    name = path.name or str(path)
    read = [sides.of_trace(one.trace, name, one.path) for one in captures]
    return read[0] if len(read) == 1 else restarts.merged(read, name)
