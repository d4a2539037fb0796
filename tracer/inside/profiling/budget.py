"""Which layers keep their ranges in the layers pass if ranges around all of them would disturb the step too much.

A range costs some microseconds, so ranges in a model of tiny modules can cost more than the pass may. The pass's steps that do
not count have all ranges. They show how often each layer runs and how long it takes, forward and backward; the cost of a range
is measured in this process. The ranges that are kept are those that hold the most time for their cost, from the outermost layer
inwards, as far as the budget goes. The time of a layer without ranges goes to the nearest kept layer around it or, if there is
none, to its phase. If not even the ranges of the phases fit, there are no ranges at all.
"""

import itertools
import re
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.ranges import Recorder

# The pass may cost 5% of a step. The cost of a range is known only within a factor of two: a few among a program's own work
# cost more each than the many with which the cost was measured.
SHARE = 0.025
FORWARD, BACKWARD = "forward", "backward"
_NUMBER = re.compile(r" \(\d+(?: and later)?\)$")  # of a repeated call within one call of the model
_SAMPLES = 41  # of a bare range: 2 ms in all
_CACHED = 1 << 21  # bytes read before each: about a core's second-level cache


class Costs(object):
    """Costs of ranges in ns, as multiples of the cost of a bare range.

    forward: of a layer's call. backward: of its gradient. other: of any other range, including the code that opens it. hook: of
    each call of a layer that is prepared for gradients.
    """

    def __init__(
        self, bare_ns: float, forward: float = 1.5, backward: float = 1.5, hook: float = 0.0, other: float = 5.0
    ) -> None:
        self.forward = bare_ns * forward
        self.backward = bare_ns * backward
        self.hook = bare_ns * hook
        self.other = bare_ns * other


class Choice(object):
    """The choice of ranges to keep.

    kept: {FORWARD: layers that keep the ranges around their calls, BACKWARD: layers that keep those of their gradients},
    without the numbers of repeated calls. left_out: {FORWARD: {layer: the layers that hold its time}, BACKWARD: ...}, with None
    among these if its phase holds it. share: the cost of all ranges, as a share of the step. kept_share: the cost of the kept
    ranges. phases_share: the cost of the phases' ranges. phases: whether the phases keep their ranges.
    """

    def __init__(
        self,
        kept: Dict[str, Set[str]],
        left_out: Dict[str, Dict[str, List[Optional[str]]]],
        share: float,
        kept_share: float,
        phases_share: float,
    ) -> None:
        self.kept = kept
        self.left_out = left_out
        self.share = share
        self.kept_share = kept_share
        self.phases_share = phases_share
        self.phases = phases_share <= SHARE

    def text(self) -> str:
        """Describe the choice in one line."""
        text = "ranges of all layers would take %.0f%% of a step; left out, their time being that of what is around them: %s"
        said = []
        for way in (FORWARD, BACKWARD):
            left = {call_of(layer) for layer in self.left_out[way]}
            said.append("%d of %d %s" % (len(left), len(left | self.kept[way]), way))
        text %= (100 * self.share, ", ".join(said))
        if not self.phases:
            text += "; so are the phases' ranges, which alone would take %.0f%%" % (100 * self.phases_share)
        return text


def bare_ns(recorder: Recorder) -> int:
    """Measure the cost of opening and closing a range when the caches hold other data, with a throwaway recorder.

    Return the lower quartile: other work on the machine makes some samples several times as long.
    """
    taken, others = [], bytes(_CACHED)
    recorder.in_step = True
    for _ in range(_SAMPLES):
        others.find(b"\1")
        begun = now_ns()
        recorder.close(recorder.push("layer", "layer", "layer", FORWARD))
        taken.append(now_ns() - begun)
    return sorted(taken)[_SAMPLES // 4]


def choose(ranges: Sequence[Any], steps_ns: Dict[int, int], costs: Costs) -> "Optional[Choice]":
    """Return the Choice, or None if all ranges may stay.

    ranges: (thread, start, end, category, name, layer, phase, step) as the recorder keeps them. steps_ns: {step: its duration}.
    The step in which ranges weigh most decides: the others ran on a busy machine or include work that is done only once.
    """
    steps = [_Step([row for row in ranges if row[7] == step], taken, costs) for step, taken in steps_ns.items()]
    heaviest = max(steps, key=lambda step: step.share)
    if heaviest.share <= SHARE or not heaviest.cost:
        return None
    kept, share = heaviest.worth(SHARE)
    left_out = {way: _left_out(ranges, kept[way], way) for way in (FORWARD, BACKWARD)}
    return Choice(kept, left_out, heaviest.share, share, heaviest.fixed / heaviest.clean_ns)


def call_of(layer: str) -> str:
    """Return a layer's name without the number of a repeated call."""
    return _NUMBER.sub("", layer)


class _Step(object):
    """Costs and times of one step's ranges.

    cost: {(layer, way): cost of its ranges}. time: {(layer, way): time in them and in those inside}. around: {layer: the layer
    around it}. share: the cost of all ranges, as a share of the step without them.
    """

    def __init__(self, ranges: Sequence[Any], taken_ns: float, costs: Costs) -> None:
        count: Dict[Tuple[str, str], int] = {}
        own: Dict[Tuple[str, str], int] = {}
        around: Dict[str, Dict[str, int]] = {}
        for row, outer in itertools.chain(_nested(ranges), ((row, None) for row in _gradients(ranges))):
            layer, way, length = call_of(row[5]), BACKWARD if row[6] == BACKWARD else FORWARD, row[2] - row[1]
            count[layer, way] = count.get((layer, way), 0) + 1
            own[layer, way] = own.get((layer, way), 0) + length
            parents = around.setdefault(layer, {})
            if outer is not None:
                outer = call_of(outer)
                own[outer, way] -= length
                parents[outer] = parents.get(outer, 0) + length
        self.around = {layer: max(parents, key=parents.__getitem__) if parents else None for layer, parents in around.items()}
        self.cost = {(layer, way): costs.forward * count[layer, way] for layer, way in count if way == FORWARD}
        for layer, way in count:
            if way == BACKWARD:
                self.cost[layer, way] = costs.backward * count[layer, way] + costs.hook * count.get((layer, FORWARD), 0)
        self.fixed = costs.other * sum(not _is_layer(row) for row in ranges)
        whole = self.fixed + sum(self.cost.values())
        self.clean_ns = max(taken_ns - whole, 1.0)
        self.share = whole / self.clean_ns
        self.time = dict.fromkeys(self.cost, 0)
        for layer, way in self.cost:
            for holder in self._path(layer):
                self.time[holder, way] = self.time.get((holder, way), 0) + own[layer, way]

    def _path(self, layer: Optional[str]) -> List[str]:
        """Return the layer and those around it, innermost first."""
        path: List[str] = []
        while layer is not None and layer not in path:  # modules that call each other have no outermost one
            path.append(layer)
            layer = self.around[layer]
        return path

    def worth(self, share: float) -> Tuple[Dict[str, Set[str]], float]:
        """Return the layers to keep within this share of the step, {way: layers}, and their actual share.

        A kept layer keeps those around it too. Gradients are kept only for layers whose calls are kept: the wrapper of the call
        sets the hooks.
        """
        if self.fixed > share * self.clean_ns:
            return {FORWARD: set(), BACKWARD: set()}, 0.0
        kept: Set[Tuple[str, str]] = set()
        spent = self.fixed
        for layer, way in sorted(self.cost, key=lambda one: (-self.time[one] / max(self.cost[one], 1.0), one)):
            ways = (FORWARD, BACKWARD) if way == BACKWARD else (FORWARD,)
            wanted = {(one, its) for one in self._path(layer) for its in ways} - kept
            price = sum(self.cost.get(one, 0.0) for one in wanted)
            if spent + price <= share * self.clean_ns:
                kept |= wanted
                spent += price
        found = {way: {layer for layer, its in kept if its == way and (layer, way) in self.cost} for way in (FORWARD, BACKWARD)}
        return found, spent / self.clean_ns


def _is_layer(row: Sequence[Any]) -> bool:
    return row[3] == "layer" and row[5] is not None


def _nested(ranges: Iterable[Any]) -> Iterator[Tuple[Any, Optional[str]]]:
    """Yield the range of each layer's call with the layer whose call encloses it on its thread, or None."""
    calls = (row for row in ranges if _is_layer(row) and row[6] != BACKWARD)
    stack: List[Any] = []
    thread = None
    for row in sorted(calls, key=lambda one: (one[0], one[1], -one[2])):
        if row[0] != thread:
            stack, thread = [], row[0]
        while stack and stack[-1][2] <= row[1]:
            stack.pop()
        layer = call_of(row[5])
        yield row, next((outer[5] for outer in reversed(stack) if call_of(outer[5]) != layer), None)
        stack.append(row)


def _gradients(ranges: Iterable[Any]) -> List[Any]:
    """Return the ranges of layers' gradients, which do not nest."""
    return [row for row in ranges if _is_layer(row) and row[6] == BACKWARD]


def _left_out(ranges: Sequence[Any], kept: Set[str], way: str) -> Dict[str, List[Optional[str]]]:
    """Return for each layer that is not kept, this way, the layers that hold its time; gradients nest as the calls do."""
    found, holders = {}, {}
    for row, outer in _nested(ranges):
        layer = row[5]
        if call_of(layer) in kept:
            holders[layer] = {layer}
            continue
        held = holders.setdefault(layer, set())
        held |= holders[outer] if outer is not None else {None}
        found[layer] = held
    if way == BACKWARD:
        own = {row[5] for row in _gradients(ranges) if call_of(row[5]) not in kept}
        found = {layer: found.get(layer, {None}) for layer in own}
    return {layer: sorted(held, key=lambda one: one or "") for layer, held in found.items()}
