"""The framework-specific part of a pass of one of our workloads: one class Hooks per framework."""

import os
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from kernelscope.tracer.inside.ranges import Recorder

KERNELS = "kernels"


class CannotReplay(Exception):
    """A layer cannot be run alone; the message says why."""


class Hooks(object):
    """What a pass records of a framework. The methods are listed in the order in which they are called.

    VARIABLES: environment variables for every pass. KERNELS_VARIABLES: additional ones for the kernels pass. TRACED: the passes
    in which the framework's own operator trace runs. library: the source of versions and settings, if that is a separate class.
    """

    VARIABLES: Dict[str, str] = {}
    KERNELS_VARIABLES: Dict[str, str] = {}
    TRACED: Tuple[str, ...] = (KERNELS,)

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        self.spec = spec
        self.recorder = recorder
        self.kernels = spec["pass"] == KERNELS
        self.on_gpu = str(spec.get("device") or "cpu").startswith("cuda")
        self.library: Any = None

    @classmethod
    def environment(cls, pass_name: str) -> Dict[str, str]:
        """Return the environment variables to set before the framework is imported."""
        return dict(cls.VARIABLES, **(cls.KERNELS_VARIABLES if pass_name == KERNELS else {}))

    def configure(self) -> None:
        """Import the framework; set the threads and everything else that must be set before a graph is built."""
        raise NotImplementedError

    def versions(self) -> Dict[str, Any]:
        """Return {"pytorch": "2.13.0", "numpy": ..., "onednn": ..., "mkl": ...}, as far as known."""
        return self.library.versions()

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around phases and layers from now on; return {"layers": how they are found, "phases": the same}."""
        raise NotImplementedError

    def settings(self) -> Dict[str, Any]:
        """Return the current settings that can affect speed or results: threads, layout, precision, graph or eager, ..."""
        return self.library.settings()

    def start_operators(self, program: Any) -> None:
        """Start the framework's own operator trace."""

    def stop_operators(self) -> List[str]:
        """Stop the operator trace and write it to the pass's folder; return the names of the written files."""
        return []

    def replayer(self, program: Any, layer: str, step: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that runs one layer's forward and backward alone and waits for the device.

        step: runs an ordinary step. Raises CannotReplay if the layer cannot run alone.
        """
        raise CannotReplay("not supported for %s" % self.spec["framework"])

    def ranged(self, owner: Any, name: str, category: str, title: str, phase: str, layer: Optional[str] = None) -> None:
        """Put a range around each call of a function; owner: the module, class or object that has it under this name."""
        setattr(owner, name, self.recorder.ranged(getattr(owner, name), category, title, phase, layer))


def cores() -> Optional[int]:
    """Return the number of cores that this process may run on now (a program may set its affinity); None if unknown."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def sharing(spec: Dict[str, Any]) -> int:
    """Return the number of this process's devices that share one thread pool: 1, or the parts into which a CPU is divided."""
    return 1 if str(spec.get("device") or "cpu").startswith("cuda") else spec.get("devices", 1)


def version_of(name: str) -> Optional[str]:
    """Return the version of a module if it is already imported, else None."""
    return getattr(sys.modules.get(name), "__version__", None)


def versions_of(*names: str) -> Dict[str, str]:
    """Return {module: version} for the modules that are already imported."""
    found = {name: version_of(name) for name in names}
    return {name: version for name, version in found.items() if version}
