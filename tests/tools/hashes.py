"""Write `workloads/*/*.hashes`: every package of each environment, with the digests of its files, for pip's --require-hashes.

    python tests/tools/hashes.py [FRAMEWORK-VARIANT ...]

uv resolves each requirements file for the first Python that it names, on Linux x86_64, by PyPI alone. Where the requirements
name an index with CPU-only builds, the wheels that pip takes here for them stand for the packages' own, and are hashed.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from kernelscope.tracer.outside import building, interpreters, recipes
from kernelscope.tracer.outside.recipes import Recipe

UV = Path(sys.executable).with_name("uv")
PYPI = "https://pypi.org/simple"
MACHINE = "linux x86_64"
OLDEST = (3, 8)  # of the Pythons that uv can start; for others it knows the version alone


def compiled(path: Path, python: str) -> str:
    """Return what requirements come to on a Python, with hashes."""
    command = [str(UV), "pip", "compile", "--quiet", "--no-config", "--generate-hashes", "--no-header", "--no-annotate",
               "--python-platform", "x86_64-manylinux_2_28", "--default-index", PYPI]  # fmt: skip
    interpreter = interpreters.find(python)
    if interpreter is not None and tuple(map(int, python.split("."))) >= OLDEST:
        command += ["--python", str(interpreter.path)]
    return subprocess.run([*command, "--python-version", python, str(path)], check=True, stdout=subprocess.PIPE, text=True).stdout


def cpu_only(line: str, recipe: Recipe, folder: Path) -> Path | None:
    """Return the wheel that pip takes for a requirement from an index of CPU-only builds; None where it is of PyPI."""
    interpreter = interpreters.find(recipe.pythons[0])
    if recipe.index is None or interpreter is None:
        return None
    extra = ["--extra-index-url", recipe.index] if building.reachable(recipe.index) else []
    download = [str(interpreter.path), "-m", "pip", "download", "--quiet", "--no-deps", *extra]
    subprocess.run([*download, "--dest", str(folder), line], check=True)
    return next(folder.glob(f"{line.partition('==')[0]}-*+cpu-*.whl"), None)


def hashes(recipe: Recipe, folder: Path) -> str:
    """Return the text of a recipe's file of hashes."""
    lines = [line for line in recipe.text.splitlines() if line and not line.startswith("#")]
    wheels = {line: wheel for line in lines if (wheel := cpu_only(line, recipe, folder))}
    requirements = folder / "requirements.txt"
    requirements.write_text("".join(f"{_at(line, wheels)}\n" for line in lines), encoding="utf8")
    text = compiled(requirements, recipe.pythons[0])
    for line, wheel in wheels.items():
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        name = line.partition("==")[0]
        text = re.sub(rf"^{name} @ .*(\n    --hash.*)*", f"{line} \\\\\n    --hash=sha256:{digest}", text, flags=re.MULTILINE)
    return f"# python: {recipe.pythons[0]}\n# machine: {MACHINE}\n{text}"


def _at(line: str, wheels: dict[str, Path]) -> str:
    return f"{line.partition('==')[0]} @ {wheels[line].as_uri()}" if line in wheels else line


def main() -> None:
    """Write the files that are named, else all of them."""
    named = sys.argv[1:]
    versions = set()
    for framework in recipes.FRAMEWORKS:
        for variant in recipes.variants(framework):
            recipe = recipes.recipe(framework, variant)
            if recipe.pip:
                versions.add(recipe.pip)
            if (named and recipe.path.stem not in named) or recipes.owner(framework) != framework:
                continue
            with tempfile.TemporaryDirectory() as folder:
                recipe.path.with_suffix(".hashes").write_text(hashes(recipe, Path(folder)), encoding="utf8")
            print(recipe.path.with_suffix(".hashes"), flush=True)
    for version in versions:
        with tempfile.TemporaryDirectory() as folder:
            requirements = Path(folder) / "pip.txt"
            requirements.write_text(f"pip=={version}\n", encoding="utf8")
            recipes.pip_hashes(version).write_text(compiled(requirements, "3.6"), encoding="utf8")


if __name__ == "__main__":
    main()
