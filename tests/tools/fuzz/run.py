"""A seeded, time-bounded mutation fuzzer over every reader of captures: nothing but EvidenceError may come out of them.

    python tests/tools/fuzz/run.py [--seconds 120] [--cases N] [--seed 1] [--format NAME] [--small] [--keep FOLDER] [--workers 2]
    python tests/tools/fuzz/run.py --input FILE --format NAME        read one kept input again

Seeds are the captures of ../shared/corpus and tests/data, cut small, and those of makers.py; a format without one is an error.
A case has 10 s of processor time and 1 GiB of memory over what the program itself takes. Failures that are raised at the same
line with the same type are one; the smallest input is kept.
Exits with 1 if there were any.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import seeds

PATIENCE = 60  # seconds without an answer after which a worker hangs: its own limit did not end the case
VARIABLES = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1"}


class Worker:
    """A process that runs cases."""

    def __init__(self, folder: Path, seed: int, only: str | None) -> None:
        command = [sys.executable, str(Path(__file__).with_name("worker.py")), str(folder), str(seed), *([only] if only else [])]
        self.errors = folder / f"stderr.{id(self)}"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, **VARIABLES}
            )
        self.pending = b""
        self.hung = False
        self.begun = self.answer()
        if self.begun is None:
            raise SystemExit(f"the worker does not start: {self.complaint()}")

    def answer(self) -> dict[str, Any] | None:
        """Return the next answer; None if the process died or hangs."""
        assert self.process.stdout is not None
        end = time.monotonic() + PATIENCE
        while b"\n" not in self.pending:
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                self.hung = True
                self.process.kill()
                return None
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                return None
            self.pending += piece
        line, _, self.pending = self.pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def case(self, number: int) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Run a case; return what it is and how it went (None: the process is gone)."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"%d\n" % number)
        self.process.stdin.flush()
        begun = self.answer()
        if begun is None:
            raise SystemExit(f"case {number}: the mutation itself failed: {self.complaint()}")
        return begun["begun"], self.answer()

    def complaint(self) -> str:
        """Return what the process that is gone wrote to stderr last."""
        self.process.wait()
        return self.errors.read_text(errors="replace")[-2000:]

    def ending(self) -> str:
        """Return how the process ended that no longer answers."""
        status = self.process.wait()
        return f"the process hung for {PATIENCE} s" if self.hung else f"the process died with status {status}"

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


class Findings:
    """What failed, once for each place, with the smallest input."""

    def __init__(self, seed: int, keep: Path | None) -> None:
        self.seed, self.keep = seed, keep
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.smallest: dict[tuple[str, str, str], int] = {}
        self.texts: dict[tuple[str, str, str], str] = {}
        if keep:
            keep.mkdir(parents=True, exist_ok=True)

    def add(self, case: dict[str, Any]) -> None:
        """Count a failure; print it when it is new; keep its input if it is the smallest."""
        key = (str(case.get("reader") or "detection"), case["kind"], case["where"])
        path = Path(case["input"]) if case.get("input") else None
        size = _size(path) if path else 0
        self.counts[key] += 1
        if size < self.smallest.get(key, 1 << 62):
            self.smallest[key] = size
            self.texts[key] = self._describe(key, case, path)
        if self.counts[key] == 1:
            print(self.texts[key], flush=True)

    def _describe(self, key: tuple[str, str, str], case: dict[str, Any], path: Path | None) -> str:
        text = (
            f"FAILED {key[0]}: {case['error']} at {case['where']}\n"
            f"  case {case['case']} of seed {self.seed}: {case['source']} (format {case['format']}) after {case['mutations']}"
        )
        if self.keep and path and path.exists():
            name = f"{key[0]}.{list(self.smallest).index(key)}"
            kept = self.keep / name
            _remove(kept)
            shutil.copytree(path, kept) if path.is_dir() else shutil.copyfile(path, kept)
            text += f"\n  python tests/tools/fuzz/run.py --format {key[0]} --input {kept}"
        return text

    def write(self) -> None:
        """Write a report for each format beside the kept inputs."""
        for name in {key[0] for key in self.counts} if self.keep else ():
            assert self.keep
            lines = [f"{self.counts[key]} times: {text}" for key, text in self.texts.items() if key[0] == name]
            (self.keep / f"{name}.txt").write_text("\n\n".join(lines) + "\n")


def _size(path: Path) -> int:
    return sum(entry.stat().st_size for entry in path.iterdir()) if path.is_dir() else path.stat().st_size if path.exists() else 0


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Tally:
    """Hands out the cases' numbers to the workers' threads and counts outcomes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.end = time.monotonic() + options.seconds
        self.next = options.first
        self.last = options.first + options.cases if options.cases is not None else sys.maxsize
        self.findings = Findings(options.seed, options.keep)
        self.outcomes: dict[str, Counter[str]] = {}
        self.lock = threading.Lock()

    def numbers(self) -> Iterator[int]:
        """Yield numbers of cases until the time or their number is up."""
        while time.monotonic() < self.end:
            with self.lock:
                number, self.next = self.next, self.next + 1
            if number >= self.last:
                return
            yield number

    def add(self, result: dict[str, Any]) -> None:
        """Count how a case went."""
        with self.lock:
            self.outcomes.setdefault(result["reader"] or "detection", Counter())[result["outcome"]] += 1
            if result["outcome"] == "failed":
                self.findings.add(result)

    def report(self, seed: int) -> int:
        """Print what was done; return the number of different failures."""
        self.findings.write()
        for name, counter in sorted(self.outcomes.items()):
            parts = ", ".join(f"{count} {what}" for what, count in counter.most_common())
            print(f"{name:22} {counter.total():6} cases: {parts}")
        total, failures = sum(counter.total() for counter in self.outcomes.values()), len(self.findings.counts)
        print(f"seed {seed}: {total} cases, {failures} different failures")
        return failures


def fuzz(options: argparse.Namespace, folder: Path) -> int:
    """Run cases in several processes; return the number of different failures."""
    seeds.prepare(folder, 1 << 16 if options.small else sys.maxsize)
    tally = Tally(options)

    def work() -> None:
        worker = Worker(folder, options.seed, options.format)
        try:
            refuse_unreached(worker, options.format)
            for number in tally.numbers():
                case, result = worker.case(number)
                if result is None:
                    crash = {"error": worker.ending(), "where": case["source"], "kind": "crash"}
                    result = case | {"outcome": "failed"} | crash
                    worker = Worker(folder, options.seed, options.format)
                tally.add(result)
        finally:
            worker.stop()

    with ThreadPoolExecutor(options.workers) as pool:
        for future in [pool.submit(work) for _ in range(options.workers)]:
            future.result()
    return tally.report(options.seed)


def refuse_unreached(worker: Worker, asked: str | None) -> None:
    """End if formats have no seed: what is never tried would pass."""
    assert worker.begun is not None
    counted = {name for name, count in worker.begun["seeds"].items() if count}
    wrong = seeds.unreached(worker.begun["ready"], counted, asked)
    if wrong:
        raise SystemExit(wrong)


def again(path: Path, name: str) -> int:
    """Read one input and let whatever comes out come out."""
    import worker

    known = worker.known_formats()
    print(worker.check(path, None if name == "detection" else name, known))
    return 0


def main() -> int:
    """Parse the command line and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--cases", type=int, help="at most so many cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", help="only captures of this format")
    parser.add_argument("--small", action="store_true", help="only captures of up to 64 KiB")
    parser.add_argument("--keep", type=Path, help="keep failing inputs and a report for each format there")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--input", type=Path, help="read this file again, with the reader of --format")
    options = parser.parse_args()
    if options.input:
        return again(options.input, options.format or "detection")
    with tempfile.TemporaryDirectory(prefix="kernelscope-fuzz-") as folder:
        return 1 if fuzz(options, Path(folder)) else 0


if __name__ == "__main__":
    sys.exit(main())
