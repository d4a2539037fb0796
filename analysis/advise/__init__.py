"""Advice on one recording: the avoidable costs of a step, how much each could save, and what to do.

`advise` returns plain data. Each finding has the most that its remedy can save, how that was estimated, the evidence behind it,
and the remedy in the framework's own terms.
"""

from kernelscope.analysis.advise.advice import SCHEMA as SCHEMA
from kernelscope.analysis.advise.advice import advise as advise
from kernelscope.analysis.advise.advice import largest as largest
from kernelscope.analysis.advise.advice import of_subject as of_subject
from kernelscope.analysis.advise.subject import Subject as Subject
from kernelscope.analysis.advise.subject import of_run as of_run
from kernelscope.analysis.advise.subject import of_trace as of_trace
from kernelscope.analysis.advise.subject import read as read
