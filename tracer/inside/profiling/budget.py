"""Which layers keep their ranges in the layers pass, where ranges around all of them would disturb the step too much.

A range costs some microseconds, so that a model of tiny modules pays more for its ranges than the pass may cost. Its
steps that do not count have all ranges. They tell how often each layer runs and how long it takes, forward and backward, and what
a range costs is measured in this process. Of these ranges those are kept that hold the most time for what they cost, from the
outermost layer inwards, as far as the budget goes. The time of a layer that is left out is that of the nearest kept layer around
it, or, where there is none, of its phase. Where not even the ranges of phases fit, there are none at all.
"""

import itertools
import re
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.ranges import Recorder

# The pass may cost 5% of a step. What ranges cost is known to a factor of two only: a few among a program's own work cost more
# each than many, by which the costs were measured.
SHARE = 0.025
FORWARD, BACKWARD = "forward", "backward"
_NUMBER = re.compile(r" \(\d+(?: and later)?\)$")  # of a call that is repeated within one call of the model
_SAMPLES = 41  # of a bare range: 2 ms in all
_CACHED = 1 << 21  # bytes that are read before each: a core's second cache holds about so many


class Costs(object):
    """What ranges cost in ns, given what a bare one does. forward, backward, other: how many times as much one of a layer's call
    costs, one of its gradients, and any other with what opens it. hook: how many times as much each call of a layer costs that
    is made ready for gradients.
    """

    def __init__(
        self, bare_ns: float, forward: float = 1.5, backward: float = 1.5, hook: float = 0.0, other: float = 5.0
    ) -> None:
        self.forward = bare_ns * forward
        self.backward = bare_ns * backward
        self.hook = bare_ns * hook
        self.other = bare_ns * other


class Choice(object):
    """What was decided. kept: {FORWARD: layers that keep the ranges around their calls, BACKWARD: those that keep those of their
    gradients}, without the numbers of repeated calls.

    left_out: {FORWARD: {layer: the layers that hold its time}, BACKWARD: ...}, None among these where its phase does. share: what
    all ranges would cost, as a share of the step; kept_share: what those cost that are kept; phases_share: what those of phases
    would. phases: whether these stay.
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
        """Say it in a line."""
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
    """Return what opening and closing a range of a recorder that is thrown away costs where the caches hold other things.

    The lower quartile: what else runs on the machine makes some take several times as long.
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
    """Return the Choice, or None where all ranges may stay.

    ranges: (thread, start, end, category, name, layer, phase, step) as the recorder keeps them; steps_ns: {step: what it took}.
    The step counts in which ranges weigh most: others met a machine that was busy, or what is done only once.
    """
    steps = [_Step([row for row in ranges if row[7] == step], taken, costs) for step, taken in steps_ns.items()]
    heaviest = max(steps, key=lambda step: step.share)
    if heaviest.share <= SHARE or not heaviest.cost:
        return None
    kept, share = heaviest.worth(SHARE)
    left_out = {way: _left_out(ranges, kept[way], way) for way in (FORWARD, BACKWARD)}
    return Choice(kept, left_out, heaviest.share, share, heaviest.fixed / heaviest.clean_ns)


def call_of(layer: str) -> str:
    """Return a layer without the number of a repeated call."""
    return _NUMBER.sub("", layer)


class _Step(object):
    """Of each (layer, way) what its ranges cost and the time in them and in those inside; of each layer the one around it.

    share: what all ranges cost, as a share of the step without them.
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
        """Return the layer and those around it, the innermost first."""
        path: List[str] = []
        while layer is not None and layer not in path:  # modules that call each other have no outermost one
            path.append(layer)
            layer = self.around[layer]
        return path

    def worth(self, share: float) -> Tuple[Dict[str, Set[str]], float]:
        """Return the layers to keep for this share of the step, {way: layers}, those around each among them; and their share.

        Gradients are kept only of layers whose calls are: hooks are set by the wrapper of the call.
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
    """Yield the ranges of layers' calls, each with the layer whose call is around it on its thread, or None."""
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
    """Return the ranges of layers' gradients, which do not lie in each other."""
    return [row for row in ranges if _is_layer(row) and row[6] == BACKWARD]


def _left_out(ranges: Sequence[Any], kept: Set[str], way: str) -> Dict[str, List[Optional[str]]]:
    """Return which layers hold the time of each that is not kept, this way; gradients are those of calls in each other."""
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
