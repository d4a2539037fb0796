"""Advice on one recording: what costs a step most that can be avoided, with the ms that this would save and what to do.

`advise` returns plain data. Each finding has the time that its remedy can save at most, how that was estimated, the evidence it
rests on, and the remedy in the framework's own words.
"""

from kernelscope.analysis.advise.advice import SCHEMA as SCHEMA
from kernelscope.analysis.advise.advice import advise as advise
from kernelscope.analysis.advise.advice import largest as largest
from kernelscope.analysis.advise.advice import of_subject as of_subject
from kernelscope.analysis.advise.subject import Subject as Subject
from kernelscope.analysis.advise.subject import of_run as of_run
from kernelscope.analysis.advise.subject import of_trace as of_trace
from kernelscope.analysis.advise.subject import read as read
