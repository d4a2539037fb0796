"""The script's steps so far: how many, how long each took, and which were unlike the others."""

from typing import Any, Dict, List, Optional


class StepTimes(object):
    """Counts and times steps.

    count: how many have ended. took: their durations in ns, without the first, whose beginning is unknown.
    """

    def __init__(self) -> None:
        self.count = 0
        self.took: List[int] = []
        self._begun: Optional[int] = None
        self._odd: Optional[str] = None  # why the current step is unlike the others
        self._odd_count = 0
        self._left_out: Dict[str, List[int]] = {}  # reason why steps are not measured -> how many, and how long they took, ns

    @property
    def mostly_odd(self) -> bool:
        """Return whether more than half of all steps are unlike others: then this is the norm, and all are measured."""
        return 2 * self._odd_count > self.count

    def begin(self, at: int) -> None:
        """Begin a step at this time, in ns."""
        self._begun = at

    def interrupted(self, reason: str) -> bool:
        """Mark the current step as unlike the others; return whether it was normal until now."""
        first, self._odd = self._odd is None, reason
        return first

    def ended(self, at: int, next_begun: int) -> None:
        """End a normal step at a noted time, and begin the next one."""
        self.count += 1
        if self._begun is not None:
            self.took.append(at - self._begun)
        self._begun = next_begun

    def end(self, at: int) -> Optional[str]:
        """End the current step and begin the next one; return why it is not to be measured, else None."""
        self.ended(at, at)
        odd, self._odd = self._odd, None
        if odd is not None:
            self._odd_count += 1
            if self.took:
                count, took = self._left_out.get(odd, (0, 0))
                self._left_out[odd] = [count + 1, took + self.took[-1]]
        return None if self.mostly_odd else odd

    def summary(self, now: int) -> Dict[str, Any]:
        """Summarise for readers of the run: steps, their median, the time since the last one ended and the steps left out.

        The steps left out are given unless most steps are odd.
        """
        about: Dict[str, Any] = {"steps": self.count}
        if self._begun is not None:
            about["since_ns"] = now - self._begun
        if not self.mostly_odd:
            about.update(left_out=self._left_out, watched_ns=sum(self.took))
        if self.took:
            about["median_ns"] = sorted(self.took)[len(self.took) // 2]
        return about
