"""Change what stands in folders that `import`, `run` and `profile` wrote, and try every command that reads them on the result.

    python tests/tools/fuzz/folders.py [--seconds 120] [--seed 1] [--case N]

A command may end with an error of ours, in one line; what it may not do is raise anything else, take longer than 10 s, or write
outside of its own output folder. Exits with 1 where one did; --case repeats one.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelscope.cli.main import main as kernelscope

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data"
LIMIT_S = 10
RUNS = ("pytorch/lenet-train", "jax/lenet-train", "gpu/h200/lenet-cudnn-cupti")
COMMANDS = (
    ("breakdown", "{0}"), ("breakdown", "{0}", "--by", "kernel"), ("breakdown", "{0}", "--by", "step"),
    ("breakdown", "{0}", "--by", "line"), ("breakdown", "{0}", "--by", "idle"), ("advise", "{0}"), ("device", "{0}"),
    ("steps", "{0}"), ("report", "{0}", "-o", "{1}/page.html", "--force"), ("explain", "{0}", "{2}"),
    ("export", "{0}", "--what", "chrome", "-o", "{1}/x.json"), ("roofline", "{0}"), ("energy", "{0}"),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, 1.5, float("nan"), "", "x", "\u0661\u0662", "\ud800", [], {}, [[]], {"a": 1}, ["x"] * 3, -(2**63),
)  # fmt: skip


def changed(content: Any, chance: random.Random) -> Any:
    """Return a JSON value in which one value somewhere is another one, is gone, or is deeply nested."""
    if isinstance(content, dict) and content and chance.random() < 0.9:
        key = chance.choice(list(content))
        if chance.random() < 0.15:
            return {name: value for name, value in content.items() if name != key}
        return {**content, key: changed(content[key], chance)}
    if isinstance(content, list) and content and chance.random() < 0.9:
        place = chance.randrange(len(content))
        return [*content[:place], changed(content[place], chance), *content[place + 1 :]]
    return chance.choice(VALUES)


def damage(file: Path, chance: random.Random) -> str:
    """Change a file in place; return what was done."""
    content = file.read_bytes()
    if file.suffix in (".json", ".jsonl") and chance.random() < 0.75:
        lines = content.decode("utf8").splitlines() if file.suffix == ".jsonl" else [content.decode("utf8")]
        place = chance.randrange(max(len(lines), 1))
        if lines:
            lines[place] = json.dumps(changed(json.loads(lines[place]), chance))
            file.write_bytes("\n".join(lines).encode("utf8", "surrogatepass"))
            return "a value"
    what = chance.choice(("cut", "bytes", "empty", "gone", "deep"))
    if what == "cut":
        file.write_bytes(content[: chance.randrange(max(len(content), 1))])
    elif what == "bytes":
        taken = bytearray(content or b"\0")
        for _ in range(chance.randrange(1, 8)):
            taken[chance.randrange(len(taken))] = chance.randrange(256)
        file.write_bytes(bytes(taken))
    elif what == "empty":
        file.write_bytes(b"")
    elif what == "gone":
        file.unlink()
    else:
        file.write_bytes(b"[" * 100_000)
    return what


def seeds(folder: Path) -> list[Path]:
    """Return whole folders to change: runs of tests/data, one imported capture, and it without notes of its files, as earlier
    versions wrote it, so that what is behind those is reached.
    """
    imported, older = folder / "imported", folder / "older"
    capture = DATA / "gpu" / "h200" / "mlp-graph.pt.trace.json.gz"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        kernelscope(["import", str(capture), "-o", str(imported)])
    shutil.copytree(imported, older)
    record = json.loads((older / "import.json").read_text())
    (older / "import.json").write_text(json.dumps({key: value for key, value in record.items() if key != "files"}))
    return [imported, older, *(DATA / name for name in RUNS)]


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise TimeoutError where it takes too long."""

    def over(*_: object) -> None:
        raise TimeoutError(f"more than {LIMIT_S} s")

    signal.signal(signal.SIGALRM, over)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)


def case(number: int, seed: int, whole: list[Path], work: Path) -> list[str]:
    """Do one case; return what went wrong."""
    chance = random.Random(f"{seed}/{number}")
    source = chance.choice(whole)
    folder, out = work / "case", work / "out"
    for path in (folder, out):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, folder)
    out.mkdir()
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    done = [f"{file.relative_to(folder)}: {damage(file, chance)}" for file in chance.sample(files, chance.choice((1, 1, 1, 2)))]
    wrong = []
    for words in chance.sample(COMMANDS, 3):
        given = [word.format(folder, out, source) for word in words]
        said = io.StringIO()
        try:
            with limited(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
                kernelscope(given)
        except SystemExit:
            pass
        except BaseException as error:  # of the program: all else is what this looks for
            if isinstance(error, KeyboardInterrupt):
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = next((f for f in reversed(traceback.extract_tb(error.__traceback__)) if str(ROOT) in f.filename), last)
            where = f"{Path(place.filename).name}:{place.lineno}"
            wrong.append(f"case {number} {source.name} [{'; '.join(done)}] {words[0]} {words[2:4]}: {type(error).__name__}: "
                         f"{str(error)[:90]!r} at {where}")  # fmt: skip
    left = [path.name for path in work.iterdir() if path.name not in ("case", "out", "imported", "older")]
    return wrong + [f"case {number}: left {left}"] * bool(left)


def main() -> int:
    """Return 1 where a case went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int)
    arguments = parser.parse_args()
    end, number, wrong = time.monotonic() + arguments.seconds, 0, list[str]()
    with tempfile.TemporaryDirectory(prefix="folders-") as name:
        work = Path(name)
        whole = seeds(work)
        os.chdir(work)
        if arguments.case is not None:
            wrong = case(arguments.case, arguments.seed, whole, work)
            number = 1
        else:
            while time.monotonic() < end:
                wrong += case(number, arguments.seed, whole, work)
                number += 1
    kinds = {line.rpartition("]")[2]: line for line in wrong}
    print("\n".join(kinds.values()))
    print(f"{number} cases, {len(wrong)} went wrong, in {len(kinds)} ways")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
