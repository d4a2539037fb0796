"""The steps that a script has made so far: how many, how long each took, and which were not like others."""

from typing import Any, Dict, List, Optional


class StepTimes(object):
    """Counts and times steps.

    count: how many have ended; took: how long they did, ns, but for the first, whose beginning is not known.
    """

    def __init__(self) -> None:
        self.count = 0
        self.took: List[int] = []
        self._begun: Optional[int] = None
        self._odd: Optional[str] = None  # why the present step is not like others
        self._odd_count = 0
        self._left_out: Dict[str, List[int]] = {}  # why steps are not measured: how many, and how long they took, ns

    @property
    def mostly_odd(self) -> bool:
        """Return whether more than half of all steps are unlike others: then that is how steps are, and all are measured."""
        return 2 * self._odd_count > self.count

    def begin(self, at: int) -> None:
        """A step begins at a time, ns."""
        self._begun = at

    def interrupted(self, reason: str) -> bool:
        """The present step is not like others; return whether it was until now."""
        first, self._odd = self._odd is None, reason
        return first

    def ended(self, at: int, next_begun: int) -> None:
        """A step has ended at a time that was noted, as others do, and another one begun."""
        self.count += 1
        if self._begun is not None:
            self.took.append(at - self._begun)
        self._begun = next_begun

    def end(self, at: int) -> Optional[str]:
        """The present step ends, and the next one begins; return why it is not to be measured, else None."""
        self.ended(at, at)
        odd, self._odd = self._odd, None
        if odd is not None:
            self._odd_count += 1
            if self.took:
                count, took = self._left_out.get(odd, (0, 0))
                self._left_out[odd] = [count + 1, took + self.took[-1]]
        return None if self.mostly_odd else odd

    def summary(self, now: int) -> Dict[str, Any]:
        """Return what a reader of the run is told: steps, their median, the time since the last one ended and, unless most steps
        are odd, those left out.
        """
        about: Dict[str, Any] = {"steps": self.count}
        if self._begun is not None:
            about["since_ns"] = now - self._begun
        if not self.mostly_odd:
            about.update(left_out=self._left_out, watched_ns=sum(self.took))
        if self.took:
            about["median_ns"] = sorted(self.took)[len(self.took) // 2]
        return about
