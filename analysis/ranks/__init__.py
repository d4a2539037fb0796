"""A job of several ranks: one recording each, their clocks corrected, the time of a step in parts, and who made others wait.

`recording` makes a summary of one rank, `matching` says which collectives of the ranks are one, `clocks` corrects their times,
`account` splits a step, `blame` charges waiting to the rank that came last. `job` puts them together.
"""

from kernelscope.analysis.ranks.job import job

__all__ = ["job"]
