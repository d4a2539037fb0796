"""Two recordings to explain: run folders by layer, captures of device work by the device's account, line profiles by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.explain import device, line_profiles, restarts, sides
from kernelscope.analysis.explain.explanation import explain
from kernelscope.analysis.explain.model import Side
from kernelscope.analysis.recordings import archives
from kernelscope.analysis.trace import Trace


@dataclass(frozen=True)
class Pair:
    """Two sides that were read: both captures of device work or of lines, or both sides with layers."""

    captures: tuple[device.CaptureSide, device.CaptureSide] | None
    sides: tuple[Side, Side] | None

    @property
    def of_lines(self) -> bool:
        """Whether both hold nothing but times of lines."""
        return self.captures is not None and line_profiles.applies(*self.traces())

    @property
    def of_devices(self) -> bool:
        """Whether the device's own account explains them."""
        return self.captures is not None and not self.of_lines

    def traces(self) -> Iterator[Trace]:
        """Yield the Trace of each side."""
        for side in self.captures or self.sides or ():
            yield side.trace

    def explain(
        self, mapping: Mapping[str, str] | None = None, force: bool = False, request: Request | None = None
    ) -> dict[str, Any]:
        """Explain why the second takes more or less time than the first, as plain data.

        mapping: layers that correspond (see layer_names.read_map). force: explain although the work differs. request: which
        steps of captures of device work.
        """
        if self.captures is not None and self.of_lines:
            return line_profiles.explain(*self.captures)
        if self.captures is not None:
            return device.explain(*self.captures, request)
        assert self.sides is not None
        return explain(*self.sides, mapping=mapping, force=force)


def read(a: Path, b: Path, by_layers: bool = False) -> Pair:
    """Return the pair at two paths; raise EvidenceError if one cannot be read. by_layers: treat captures of device work by
    layers, too.
    """
    paths = (a, b)
    traces = [None if restarts.recordings(path) else sides.capture(path) for path in paths]
    first, second = traces
    explained = (device.applies, line_profiles.applies)
    if not by_layers and first is not None and second is not None and any(applies(first, second) for applies in explained):
        named = [device.CaptureSide(archives.named(str(path)), one) for path, one in zip(paths, (first, second), strict=True)]
        return Pair((named[0], named[1]), None)
    loaded = [
        restarts.load(path) if trace is None else sides.of_trace(trace, path.name or str(path), archives.named(str(path)))
        for path, trace in zip(paths, traces, strict=True)
    ]
    return Pair(None, (loaded[0], loaded[1]))
