"""A fuzzer that is led by coverage (atheris): inputs that reach new lines of the readers are kept and changed further.

    python tests/tools/fuzz/guided.py [--seconds 300] [--format NAME ...] [--seed 1] [--workers 1] [--corpus DIR] [--keep DIR]

It begins with the seeds of run.py and looks for the same failures, in readers of captures, of experiments, of Flight Recorder's
dumps, of pipelines, archives, summaries of ranks and what a child answers; a format without a seed is an error. Of a folder one
file changes. Each has a process of its own, --workers at a time, with its share of the time. What was found interesting stays in
--corpus, with which the next run goes on; inputs that fail stay in --keep. Prints for each reader how many inputs were run and
what escaped. Needs `pip install kernelscope[fuzz]`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import makers
import seeds
from worker import format_of, known_formats

_LARGEST = 1 << 20
_MOST = 1 << 18  # bytes of an input
_OTHERS = {
    "experiment": ("workloads/experiments", "*.toml"),
    "flight-recorder": ("../shared/corpus/ranks/nvrx_flight_recorder", "*/_dump_0"),
    "pipeline": ("../shared/corpus/ranks/bytedance_straggler", "*-ST.parquet"),
}
_CHILD = "child-answer"  # whose seeds are makers.ANSWERS
_ARCHIVE = "archive"  # whose seeds are makers.archives()
_SUMMARIES = "rank-summaries"  # whose seed is makers.rank_index()
_FOLDER = ".whole"  # behind a format's name: a whole folder, in which inputs take the place of one file
_DONE = re.compile(r"Done (\d+) runs|#(\d+)\s+DONE|stat::number_of_executed_units:\s+(\d+)")


def main() -> int:
    """Run each format for its share of the time; return 1 where something escaped."""
    arguments = _arguments()
    if importlib.util.find_spec("atheris") is None:
        raise SystemExit("atheris is not installed: pip install kernelscope[fuzz]")
    arguments.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        by_format = _seeded(Path(name), arguments.corpus)
        for asked in arguments.format or [None]:
            wrong = seeds.unreached([*known_formats(), *_OTHERS, _CHILD, _ARCHIVE, _SUMMARIES], by_format, asked)
            if wrong:
                raise SystemExit(wrong)
        names = arguments.format or sorted(by_format)
        share = arguments.seconds * arguments.workers / len(names)
        failed = whole = 0
        with ThreadPoolExecutor(arguments.workers) as pool:
            results = pool.map(lambda form: _guided(form, arguments.corpus / form, arguments.keep, share, arguments.seed), names)
            for form, (count, escaped) in zip(names, results, strict=True):
                print(f"{form}: {count} inputs" + (f"; ESCAPED: {escaped}" if escaped else ""), flush=True)
                failed += bool(escaped)
                whole += count
    print(f"{whole} inputs, {failed} formats of which something escaped")
    return int(failed > 0)


def _seeded(scratch: Path, corpus: Path) -> dict[str, int]:
    """Put the seeds of each format into its folder; return how many there are."""
    known = known_formats()
    made = [Path(seed.path) for seed in seeds.prepare(scratch, _LARGEST)]
    of = [(format_of(path, known), path) for path in made]
    of += [(name, path) for name, (folder, pattern) in _OTHERS.items() for path in sorted((seeds.ROOT / folder).glob(pattern))]
    of += [(_CHILD, _written(scratch / f"answer-{number}", row)) for number, row in enumerate(makers.ANSWERS)]
    of += [(_ARCHIVE, _kept(scratch / f"archive-{number}", content)) for number, content in enumerate(makers.archives())]
    of += [(_SUMMARIES, _kept(scratch / "index", makers.rank_index()))]
    of = [
        (form, file)
        for form, path in of
        if form
        for file in (_files(path, corpus / f"{form}{_FOLDER}") if path.is_dir() else [path])
    ]
    found: dict[str, int] = {}
    for form, path in of:
        if path.stat().st_size > _MOST:
            continue
        folder = corpus / form
        folder.mkdir(parents=True, exist_ok=True)
        number = found[form] = found.get(form, 0) + 1
        shutil.copyfile(path, folder / f"seed-{number}")
    return found


def _written(path: Path, row: object) -> Path:
    path.write_text(json.dumps(row))
    return path


def _kept(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _files(folder: Path, whole: Path) -> list[Path]:
    """Return inputs that stand for a folder's files: the file's name, a newline, and what is in it. One whole folder is kept."""
    if not whole.is_dir():
        shutil.copytree(folder, whole)
    if {path.name for path in folder.iterdir()} != {path.name for path in whole.iterdir()}:
        return []
    inputs = folder.with_name(f"{folder.name}.inputs")
    inputs.mkdir()
    for path in folder.iterdir():
        (inputs / path.name).write_bytes(path.name.encode() + b"\n" + path.read_bytes())
    return sorted(inputs.iterdir())


def _guided(form: str, corpus: Path, keep: Path, seconds: float, seed: int) -> tuple[int, str]:
    """Fuzz one format; return how many inputs were run, and what escaped."""
    options = [
        f"-max_total_time={round(seconds)}", f"-seed={seed}", f"-max_len={_MOST}", "-timeout=10", "-rss_limit_mb=2048",
        f"-artifact_prefix={keep}/{form}-", "-print_final_stats=1", "-verbosity=1",
    ]  # fmt: skip
    command = [sys.executable, str(Path(__file__).with_name("guided_target.py")), form, *options, str(corpus)]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, env={**os.environ, "TMPDIR": name}
        )
    counts = [int(number) for groups in _DONE.findall(done.stderr) for number in groups if number]
    if done.returncode == 0 and counts:
        return max(counts), ""
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if not line.startswith(("INFO:", "WARNING:"))]
    lines = [line for line in said if re.match(r"\w*(Error|Exception)\b|==\d+== ERROR|SUMMARY|\w+: ", line)]
    return max(counts, default=0), " / ".join(lines[:2])[:300] or f"exit {done.returncode}: {done.stderr[-300:]}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--format", action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--corpus", type=Path, default=Path("out/fuzz/corpus"))
    parser.add_argument("--keep", type=Path, default=Path("out/fuzz/kept"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
