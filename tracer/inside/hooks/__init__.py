"""What differs between frameworks while a pass runs: one module each, with `environment(pass_name)` and a class `Hooks`.

environment(pass_name) returns the environment variables to set before the framework is imported.

Hooks(spec, recorder) then offers, in the order of their calls:
    configure()             import the framework; set threads and whatever must be set before a graph is built
    versions()              {"pytorch": "2.13.0", "numpy": ..., "onednn": ..., "mkl": ...}, as far as they can be told
    attach_layers(program)  open and close ranges for phases and layers; returns {"layers": how, "phases": how}
    settings()              the settings in force that can make a difference: threads, layout, precision, graph or eager, ...
    start_operators(program), stop_operators()   the framework's own operator trace; the latter returns the files written
    replayer(program, layer, step)   optional: a function that runs one layer's forward and backward alone and waits for the
                            device; step() runs an ordinary step. Raises CannotReplay
"""

import os
import sys


class CannotReplay(Exception):
    """A layer cannot be run alone; the message says why."""


def cores():
    """Return on how many processors this process may run now; a program may have bound itself. None where nothing tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def sharing(spec):
    """Return how many devices of this process share one pool of threads: those that a processor is divided into."""
    return 1 if str(spec.get("device") or "cpu").startswith("cuda") else spec.get("devices", 1)


def version_of(name):
    """Return the version of a module that is imported already, else None."""
    return getattr(sys.modules.get(name), "__version__", None)
