"""What each framework's environment is made of: pinned requirements in its package of `workloads`, where they are found.

There is one file per framework and variant: `<framework>-cpu.txt` and, if a CUDA build is published, `<framework>-cuda.txt`. It
is an ordinary requirements file of pip. Comments of the form `# key: values` say what pip cannot:

    python   minor versions for which the packages exist, in order of preference
    import   modules that must import, the framework first
    disk     space that the environment needs while it is built
    pip      pip release to install with, if the interpreter's own is too old
    index    package index with CPU-only builds, used if reachable
        needs    openmpi: shared libraries that no package of the registry has
        set      NAME=VALUE: environment variables without which it does not import

    Beside it, `<framework>-<variant>.hashes` lists all resulting packages with their files' digests, for the first of the
    Pythons on one kind of machine (`make hashes` writes it). Elsewhere pip resolves the requirements itself.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from kernelscope.tracer.inside import frameworks
from kernelscope.tracer.outside import gpu
from kernelscope.tracer.outside.errors import UsageError
from kernelscope.tracer.outside.suggestions import meant

_WORKLOADS = Path(str(resources.files("kernelscope.workloads")))
_FOUND = sorted(path.name[: -len("-cpu.txt")] for path in _WORKLOADS.glob("*/*-cpu.txt"))
# frameworks without a description, which is optional for packages of workloads, come last
FRAMEWORKS = tuple(dict.fromkeys((*frameworks.FRAMEWORKS, *_FOUND)))
ALIASES = {"keras": "keras-tensorflow"}  # Keras alone means its default backend
# framework -> the one whose environment it shares
SHARED = {"keras-tensorflow": "tensorflow", "keras-jax": "jax", "keras-theano": "lasagne"}
# framework -> the package that has its version, if the first module that it imports does not
VERSION_OF = {
    "keras-tensorflow": "keras", "keras-jax": "keras", "keras-theano": "Keras", "keras-cntk": "Keras",
    "keras-mxnet": "keras-mxnet", "lasagne": "Lasagne", "onednn": "onednn", "cudnn": "nvidia-cudnn-cu12",
}  # fmt: skip
VARIANTS = ("cpu", "cuda")

_DIRECTIVE = re.compile(r"#\s*(python|import|disk|pip|index|needs|set|machine):\s*(.+?)\s*$")
_UNITS = {"MB": 10**6, "GB": 10**9}


@dataclass(frozen=True)
class Hashes:
    """A file for pip's --require-hashes: all packages, for one Python ("3.11") and one machine ("linux x86_64")."""

    path: Path
    text: str
    python: str
    machine: str

    def fits(self, minor: str) -> bool:
        """Return whether these are the packages for an interpreter of this version on this machine."""
        return minor == self.python and self.machine == f"{sys.platform} {platform.machine()}"


@dataclass(frozen=True)
class Recipe:
    """One requirements file: `text` is its content; the rest is from its comments (see above). `disk_bytes` is 0 if unknown."""

    framework: str
    variant: str
    path: Path
    text: str
    pythons: tuple[str, ...]
    imports: tuple[str, ...]
    disk_bytes: int = 0
    pip: str | None = None
    index: str | None = None
    needs: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    hashes: Hashes | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the requirements, hashes and variant: an environment with another digest was made from other pins."""
        pinned = self.hashes.text if self.hashes else ""
        return hashlib.sha256(f"{self.variant}\n{self.text}{pinned}".encode()).hexdigest()

    def key(self, python: str) -> str:
        """Return the name of the environment's folder for this full interpreter version."""
        digest = hashlib.sha256(f"{self.digest}\n{python}".encode()).hexdigest()
        return f"{self.framework}-{digest[:12]}"


def check_known(framework: str) -> None:
    """Raise UsageError that lists the known frameworks if there is no such framework."""
    if framework not in FRAMEWORKS and framework not in ALIASES:
        known = (*FRAMEWORKS, *ALIASES)
        raise UsageError(f"unknown framework {framework!r}; known: {', '.join(known)}{meant(framework, known)}")


def full_name(framework: str) -> str:
    """Return the framework that a name stands for: keras is keras-tensorflow."""
    return ALIASES.get(framework, framework)


def owner(framework: str) -> str:
    """Return the framework whose environment this one uses, mostly itself."""
    return SHARED.get(full_name(framework), full_name(framework))


def variants(framework: str) -> tuple[str, ...]:
    """Return the variants that have requirements."""
    check_known(framework)
    return tuple(variant for variant in VARIANTS if _path(framework, variant).is_file())


def wanted_variant(framework: str) -> tuple[str, str]:
    """Return the variant for this machine and the reason, by the GPUs that NVML sees."""
    gpus = gpu.find()
    if "cpu" not in variants(framework):
        return "cuda", f"{framework} is for GPUs only"
    if not gpus.devices:
        return "cpu", f"no GPU ({gpus.reason})"
    if "cuda" not in variants(framework):
        return "cpu", f"no CUDA build of {framework} is published for current GPUs"
    return "cuda", gpus.devices[0].name


def why_not_here(framework: str) -> str | None:
    """Return why a framework cannot run on this machine, whatever is installed; None if it can."""
    gpus = gpu.find()
    if "cpu" in variants(framework) or gpus.devices:
        return None
    return f"{framework} needs an NVIDIA GPU ({gpus.reason}); onednn is the same level on a CPU"


def recipe(framework: str, variant: str) -> Recipe:
    """Read the requirements of a framework and variant; raise UsageError for unknown ones."""
    if variant not in variants(framework):
        raise UsageError(f"{framework} has no variant {variant!r}; known: {', '.join(variants(framework))}")
    path = _path(framework, variant)
    return parse(owner(framework), variant, path, path.read_text(encoding="utf8"))


def parse(framework: str, variant: str, path: Path, text: str) -> Recipe:
    """Read a requirements file's comments; raise ValueError that names the file if a required one is missing."""
    directives = {match.group(1): match.group(2) for match in map(_DIRECTIVE.match, text.splitlines()) if match}
    for key in ("python", "import"):
        if key not in directives:
            raise ValueError(f"{path}: no line `# {key}: ...`")
    return Recipe(
        framework, variant, path, text, tuple(directives["python"].split()), tuple(directives["import"].split()),
        _bytes(path, directives.get("disk", "0 MB")), directives.get("pip"), directives.get("index"),
        tuple(directives.get("needs", "").split()),
        dict(text.partition("=")[::2] for text in directives.get("set", "").split()), _hashes(path.with_suffix(".hashes")),
    )  # fmt: skip


def pip_hashes(version: str) -> Path:
    """Return the file with the hashes of a release of pip itself."""
    return _WORKLOADS / f"pip-{version}.hashes"


def _hashes(path: Path) -> Hashes | None:
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf8")
    values = {match.group(1): match.group(2) for match in map(_DIRECTIVE.match, text.splitlines()[:5]) if match}
    return Hashes(path, text, values["python"], values["machine"])


def _bytes(path: Path, text: str) -> int:
    number, _, unit = text.partition(" ")
    if unit not in _UNITS:
        raise ValueError(f"{path}: disk {text!r} is not a number of MB or GB")
    return int(float(number) * _UNITS[unit])


def _path(framework: str, variant: str) -> Path:
    name = owner(framework)
    return _WORKLOADS / frameworks.described(name).family / f"{name}-{variant}.txt"
