"""What reading captures costs: against other tools in the same run, and against the floor, reading the bytes.

    python tests/tools/bench/reading.py [--repeats 5] [--quick] [--install-peers] [--only nsys] [--markdown FILE]

Whole processes are compared, from their start to their end: wall time, processor time and peak memory. The sides take turns,
every second time in the reverse order; a figure is the median over repeats, a ratio the median of the ratios within each repeat.
All files have just been read, so that none waits for the disk. Peers that are not installed are said to be missing. Exits with 1
when a limit that could be measured is not met.
"""

from __future__ import annotations

import argparse
import compileall
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import inputs
import measure
import peers
from measure import Measured, Side, alternate
from results import Report

PROGRAMS = Path(__file__).with_name("programs.py")
TABLE, IMPORT, STORED = "kernelscope, table from SQLite", "kernelscope, import", "kernelscope, table from the import"
BOTH = "kernelscope, import, then table from it"
NSYS_STATS, WARM, SKILL = "nsys stats, kernels by range", "nsys-ai, building its cache", "nsys-ai, table from its cache"
OURS, HTA = "kernelscope, read", "HolisticTraceAnalysis, load"
OUR_IMPORT, HTA_IMPORT = "kernelscope, bare import", "HolisticTraceAnalysis, bare import"
BYTES, SQLITE, ROWS = "floor: the bytes", "floor: SQLite, no rows handed out", "floor: rows through sqlite3"
UNPACK, JSON = "floor: unpacked bytes", "floor: JSON to objects (msgspec)"
OUR_JOB, HTA_JOB = "kernelscope, ranks", "HolisticTraceAnalysis, breakdown and overlap"
HTA_MODULE = "from hta.trace_analysis import TraceAnalysis"
MANY = 3  # repeats of what takes a minute


@dataclass
class Bench:
    """What every part needs."""

    folder: Path
    inputs: inputs.Inputs
    peers: peers.Peers
    repeats: int
    quick: bool
    report: Report


def ours(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "kernelscope.cli.main", *map(str, arguments)]


def program(name: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, str(PROGRAMS), name, *map(str, arguments)]


def available(wanted: dict[str, Callable[[], Side]]) -> tuple[list[Side], dict[str, str]]:
    """Return the sides that can be measured, and of others why not."""
    sides, missing = [], {}
    for name, make in wanted.items():
        try:
            sides.append(make())
        except peers.Missing as error:
            missing[name] = str(error)
    return sides, missing


# --- Nsight Systems ------------------------------------------------------------------------------------------------------


def nsys(bench: Bench) -> None:
    """The export that nsys stats can still summarise in a reasonable time."""
    file = bench.inputs.nsys(30)
    table, summary = bench.folder / "table.csv", bench.folder / "summary.csv"
    wanted = {NSYS_STATS: lambda: _nsys_stats(bench, file, summary)}
    measured = _nsys_cold(bench, file, table, wanted, bench.repeats, "220 thousand kernels, 1.1 million NVTX ranges")
    report = bench.report
    report.faster(measured, NSYS_STATS, TABLE, 20)
    report.faster(measured, WARM, TABLE, 5)
    report.faster(measured, WARM, IMPORT, 5)
    if measured.has(NSYS_STATS, IMPORT, BOTH):
        report.faster(measured, NSYS_STATS, IMPORT)
        report.faster(measured, NSYS_STATS, BOTH)
    if measured.has(NSYS_STATS, TABLE):
        _same_kernels(bench, file, table, summary)
    _from_floor(report, measured, TABLE, BYTES, SQLITE, ROWS)
    _nsys_warm(bench, file, bench.repeats, None)
    _stages(bench, file)


def nsys_large(bench: Bench) -> None:
    """The export of a long run."""
    file, repeats = bench.inputs.nsys(410), min(bench.repeats, MANY)
    measured = _nsys_cold(bench, file, bench.folder / "table.csv", {}, repeats, "3.0 million kernels, 15 million NVTX ranges")
    report = bench.report
    if measured.has(TABLE):
        wall, peak = measured.median(TABLE, "wall_s"), measured.median(TABLE, "peak_bytes") / 1e9
        report.verdict(f"{TABLE}: {wall:.1f} s", "10 s", wall <= 10)
        report.verdict(f"{TABLE}: {peak:.2f} GB at most", "2 GB", peak <= 2)
    report.faster(measured, WARM, TABLE)
    report.faster(measured, WARM, IMPORT)
    _from_floor(report, measured, TABLE, BYTES, SQLITE, ROWS)
    _nsys_warm(bench, file, repeats, 1.0)
    _stages(bench, file)


def _nsys_cold(bench: Bench, file: Path, table: Path, wanted: dict[str, Callable[[], Side]], repeats: int, text: str) -> Measured:
    """Measure everything that starts from the SQLite file."""
    size = file.stat().st_size
    folder = bench.folder / f"{file.stem}-imported"
    bench.report.section(f"Nsight Systems, {file.stem}: {size / 1e6:.0f} MB of SQLite", text)
    sides, missing = available({
        BYTES: lambda: Side(BYTES, program("bytes", file)),
        TABLE: lambda: Side(TABLE, ours("breakdown", file, "--by", "range", "--format", "csv"), output=table),
        **wanted,
        IMPORT: lambda: Side(
            IMPORT, ours("import", file, "-o", folder), before=lambda: shutil.rmtree(folder, ignore_errors=True)
        ),
        BOTH: lambda: Side(
            BOTH, ours("import", file, "-o", folder), before=lambda: shutil.rmtree(folder, ignore_errors=True),
            then=ours("breakdown", folder, "--by", "range", "--format", "csv"),
        ),
        WARM: lambda: Side(
            WARM, [bench.peers.nsys_ai(), "warm", str(file)], bench.peers.variables, lambda: _remove_cache(file)
        ),
        SQLITE: lambda: Side(SQLITE, program("sqlite", file)),
        ROWS: lambda: Side(ROWS, program("rows", file)),
    })  # fmt: skip
    measured = alternate(sides, repeats, missing)
    bench.report.sides(measured, size)
    return measured


def _nsys_stats(bench: Bench, file: Path, summary: Path) -> Side:
    tool = bench.peers.nsys()
    known = subprocess.run([tool, "stats", "--help-reports"], capture_output=True, text=True, check=False)
    name = "nvtx_kern_sum" if "nvtx_kern_sum" in known.stdout + known.stderr else "nvtxkernsum"  # renamed in 2023
    command = [tool, "stats", "--quiet", "--report", name, "--format", "csv", "--output", "-", str(file)]
    return Side(NSYS_STATS, command, bench.peers.variables, output=summary)


def _cache(file: Path) -> Path:
    return file.with_name(f"{file.stem}.nsys-cache")


def _remove_cache(file: Path) -> None:
    shutil.rmtree(_cache(file), ignore_errors=True)


def _nsys_warm(bench: Bench, file: Path, repeats: int, limit_s: float | None) -> None:
    """Measure what starts from what the tools keep of a file."""
    folder = bench.folder / f"{file.stem}-imported"

    def skill() -> Side:
        if not _cache(file).is_dir():
            raise peers.Missing("it has no cache")
        return Side(SKILL, [bench.peers.nsys_ai(), "skill", "run", "nvtx_layer_breakdown", str(file)], bench.peers.variables)

    stored = Side(STORED, ours("breakdown", folder, "--by", "range", "--format", "csv"))
    sides, missing = available({STORED: lambda: stored, SKILL: skill})
    measured = alternate(sides, max(repeats, MANY), missing)
    bench.report.sides(measured)
    if limit_s is not None and measured.has(STORED):
        wall = measured.median(STORED, "wall_s")
        bench.report.verdict(f"{STORED}: {wall:.2f} s", f"{limit_s:g} s", wall <= limit_s)
    bench.report.faster(measured, SKILL, STORED, 1)


def _same_kernels(bench: Bench, file: Path, table: Path, summary: Path) -> None:
    """Compare kernels and their time by range: nsys counts a kernel in every range that is open, our table in the innermost."""
    theirs: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in _csv_rows(summary):
        counted = theirs[row["NVTX Range"], row["Kernel Name"]]
        counted[0] += int(row["Kern Inst"])
        counted[1] += int(row["Total Time (ns)"])
    whole = bench.folder / "ranges.csv"
    measure.run(Side("ranges", program("nvtx-kernels", file), output=whole))
    with whole.open(newline="", encoding="utf8") as lines:
        found = {(name, kernel): [int(count), int(time)] for name, kernel, count, time in csv.reader(lines)}
    keys = found.keys() | theirs.keys()
    same = sum(found.get(key) == theirs.get(key) for key in keys)
    bench.report.verdict(f"same numbers as nsys by range and kernel, outer ranges included: {same} of {len(keys)} rows agree",
                         "all", 0 < same == len(keys))  # fmt: skip
    outer: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (name, _), (count, time) in theirs.items():
        outer[name][0] += count
        outer[name][1] += time
    rows = [row for row in _csv_rows(table) if row["activity"] == "kernels" and row["range"] in outer]
    same = sum([int(row["count"]), int(row["duration_ns"])] == outer[row["range"]] for row in rows)
    bench.report.verdict(f"same numbers as nsys in the table's rows of innermost ranges: {same} of {len(rows)} rows agree",
                         "all", 0 < same == len(rows))  # fmt: skip


def _csv_rows(path: Path) -> list[dict[str, str]]:
    """Return a CSV table's rows; nsys prints lines of talk before it."""
    lines = path.read_text(encoding="utf8").splitlines(keepends=True)
    first = next((number for number, line in enumerate(lines) if line.startswith(("NVTX Range,", "range,"))), 0)
    return list(csv.DictReader(lines[first:]))


# --- torch.profiler ------------------------------------------------------------------------------------------------------


def kineto(bench: Bench) -> None:
    """A recorded trace of torch.profiler."""
    file = bench.inputs.kineto()
    measure.run(Side(UNPACK, program("unpack", file)))  # into the page cache
    size = _unpacked_size(file)
    report = bench.report
    report.section(f"torch.profiler, recorded: {size / 1e6:.0f} MB of JSON", f"gzip, {file.stat().st_size / 1e6:.1f} MB on disk")
    sides, missing = available({
        UNPACK: lambda: Side(UNPACK, program("unpack", file)),
        OURS: lambda: Side(OURS, program("read", file)),
        HTA: lambda: _hta(bench, f"; TraceAnalysis(trace_files={{0: {str(file)!r}}})", HTA),
        OUR_IMPORT: lambda: Side(OUR_IMPORT, [sys.executable, "-c", "import kernelscope.analysis.formats.kineto.trace"]),
        HTA_IMPORT: lambda: _hta(bench, "", HTA_IMPORT),
        JSON: lambda: Side(JSON, program("json", file)),
    })  # fmt: skip
    measured = alternate(sides, bench.repeats, missing)
    report.sides(measured, size)
    report.faster(measured, HTA, OURS, 6)
    if measured.has(HTA, OURS, HTA_IMPORT, OUR_IMPORT):
        _without_imports(report, measured)
        memory = statistics.median(measured.ratios(OURS, HTA, "peak_bytes"))
        report.verdict(f"{OURS}: {memory:.2f} of the memory of {HTA}", "0.5", memory <= 0.5)
        _same_as_hta(bench, file)
    _from_floor(report, measured, OURS, UNPACK, JSON)
    _stages(bench, file)


def _hta(bench: Bench, call: str, name: str) -> Side:
    return Side(name, [bench.peers.python(peers.HTA), "-c", HTA_MODULE + call], bench.peers.variables)


def _without_imports(report: Report, measured: Measured) -> None:
    """Compare what is left when each side's import of what it loads with is taken off."""
    runs = measured.runs
    pairs = zip(runs[HTA], runs[HTA_IMPORT], runs[OURS], runs[OUR_IMPORT], strict=True)
    ratios = [(theirs.wall_s - bare.wall_s) / (own.wall_s - own_bare.wall_s) for theirs, bare, own, own_bare in pairs]
    middle = statistics.median(ratios)
    text = f"{OURS}, without bare imports: {middle:.1f} times as fast as {HTA} ({min(ratios):.1f} to {max(ratios):.1f})"
    report.verdict(text, "6x", middle >= 6)


def _same_as_hta(bench: Bench, file: Path) -> None:
    """Say whether both found the same kernels; its times are rounded to microseconds."""
    count = (
        f"{HTA_MODULE}; t = TraceAnalysis(trace_files={{0: {str(file)!r}}}).t; d = t.get_trace(0); "
        "k = d['cat'] == t.symbol_table.get_sym_id_map()['kernel']; print([int(k.sum()), int(d['dur'][k].sum() * 1000)])"
    )
    try:
        theirs = _printed(bench, Side("count", [bench.peers.python(peers.HTA), "-c", count], bench.peers.variables))
        own = _printed(bench, Side("count", program("kernels", file)))
    except measure.Failed as error:
        bench.report.missing("kernels that both found", str(error))
        return
    text = f"kernels: {own[0]}, in sum {own[1] / 1e6:.3f} ms; HolisticTraceAnalysis {theirs[0]}, {theirs[1] / 1e6:.3f} ms"
    bench.report.note(text)


def kineto_large(bench: Bench) -> None:
    """The recorded trace again and again, in one file."""
    report, per_byte = bench.report, {}
    once = _printed(bench, Side("count", program("kernels", bench.inputs.kineto())))
    for megabytes in (250,) if bench.quick else (250, 500, 1000):
        file = bench.inputs.tiled(megabytes)
        size = file.stat().st_size
        report.section(f"torch.profiler, tiled: {size / 1e6:.0f} MB of JSON")
        sides = [Side(BYTES, program("bytes", file)), Side(OURS, program("read", file))]
        if megabytes == 250:  # objects take six times the memory of their text
            sides.append(Side(JSON, program("json", file)))
        measured = alternate(sides, min(bench.repeats, MANY))
        report.sides(measured, size)
        if not measured.has(OURS):
            report.verdict(f"{OURS} failed", "to read it", False)
            continue
        _from_floor(report, measured, OURS, BYTES, JSON)
        peak = measured.median(OURS, "peak_bytes") / 1e9
        report.verdict(f"{OURS}: {peak:.2f} GB at most", "3 GB", peak <= 3)
        per_byte[megabytes] = measured.median(OURS, "wall_s") / size
        count, _ = _printed(bench, Side("count", program("kernels", file)))
        report.verdict(f"{count} kernels, {count / once[0]:g} times the recorded ones", "a whole number", count % once[0] == 0)
    if 1000 in per_byte and 250 in per_byte:
        growth = per_byte[1000] / per_byte[250]
        report.verdict(f"time per byte at 1 GB is {growth:.2f} times that at 250 MB", "1.25", growth <= 1.25)


# --- others --------------------------------------------------------------------------------------------------------------


def others(bench: Bench) -> None:
    """The other readers on the largest recorded captures."""
    bench.report.section(
        "Other formats, the largest recorded capture of each",
        "process: from start to end; read: again within one process, without imports; floor: the same of the bytes alone",
    )
    rows = []
    for title, (folder, endings) in inputs.OTHERS.items():
        file = bench.inputs.largest(folder, endings)
        size = file.stat().st_size
        measured = alternate([Side(OURS, program("read", file))], bench.repeats)
        try:
            read, floor = map(
                statistics.median, _printed(bench, Side("again", program("again", file, str(max(bench.repeats, MANY)))))
            )
        except measure.Failed as error:
            bench.report.missing(title, str(error))
            continue
        rows.append({
            "format": title, "MB": f"{size / 1e6:.2f}", "process, s": f"{measured.median(OURS, 'wall_s'):.2f}",
            "peak MB": f"{measured.median(OURS, 'peak_bytes') / 1e6:.0f}", "read, s": f"{read:.3f}",
            "MB/s": f"{size / read / 1e6:.1f}", "floor, ms": f"{floor * 1e3:.2f}", "times the floor": f"{read / floor:.0f}",
        })  # fmt: skip
    bench.report.table(rows)


def _from_floor(report: Report, measured: Measured, side: str, *floors: str) -> None:
    """Say how far a side is from each floor that was measured."""
    found = [
        f"{statistics.median(measured.ratios(side, floor)):.1f} times {floor.removeprefix('floor: ')}"
        for floor in floors if measured.has(side, floor)
    ]  # fmt: skip
    if found:
        report.note(f"{side} takes {', '.join(found)}")


def _stages(bench: Bench, file: Path) -> None:
    """Show where the time of the table by range goes."""
    try:
        runs = [_printed(bench, Side("stages", program("stages", file))) for _ in range(min(bench.repeats, MANY))]
    except measure.Failed as error:
        bench.report.missing("stages", str(error))
        return
    rows = []
    for part in ("in turn", "beside"):
        middle = {stage: statistics.median(run[part][stage] for run in runs) for stage in runs[0][part]}
        whole = sum(middle.values())
        for stage, taken in middle.items():
            share = "beside the others" if part == "beside" else f"{taken / whole:.0%}"
            rows.append({"stage of the table by range": stage, "s": f"{taken:.2f}", "share": share})
    bench.report.table(rows)


def _printed(bench: Bench, side: Side):
    """Run a side once and return what it prints in its last line, decoded."""
    output = bench.folder / "printed.json"
    measure.run(Side(side.name, side.command, side.variables, output=output))
    return json.loads(output.read_text(encoding="utf8").strip().splitlines()[-1])


def _unpacked_size(file: Path) -> int:
    """Return the size that gzip's trailer tells (RFC 1952: modulo 4 GiB), or of another file its own."""
    content = file.read_bytes() if file.suffix == ".gz" else b""
    return int.from_bytes(content[-4:], "little") if content else file.stat().st_size


def ranks(bench: Bench) -> None:
    """The ranks of a job: what a step is made of, and how much communication is hidden, is what both tell."""
    for megabytes in (4, 20):
        files = bench.inputs.ranks(megabytes)
        size = sum(file.stat().st_size for file in files)
        bench.report.section(f"A job of 8 ranks: {size / 1e6:.0f} MB of JSON", f"torch.profiler, {megabytes} MB a rank")
        told = ", ".join(f"{rank}: {str(file)!r}" for rank, file in enumerate(files))
        call = f"; t = TraceAnalysis(trace_files={{{told}}}); t.get_temporal_breakdown(visualize=False); "
        call += "t.get_comm_comp_overlap(visualize=False)"
        sides, missing = available({
            OUR_JOB: lambda: Side(OUR_JOB, ours("ranks", *files, "--workers", "2")),  # noqa: B023 (used at once)
            HTA_JOB: lambda: _hta(bench, call, HTA_JOB),  # noqa: B023
        })  # fmt: skip
        measured = alternate(sides, min(bench.repeats, MANY), missing)
        bench.report.sides(measured, size)
        bench.report.faster(measured, HTA_JOB, OUR_JOB, 5)
        if measured.has(HTA_JOB, OUR_JOB):
            memory = statistics.median(measured.ratios(OUR_JOB, HTA_JOB, "peak_bytes"))
            bench.report.note(f"{OUR_JOB}: {memory:.2f} of the memory of {HTA_JOB}, of the largest process of each")


PARTS = {"ranks": ranks, "nsys": nsys, "nsys-large": nsys_large, "kineto": kineto, "kineto-large": kineto_large, "others": others}


def conditions(report: Report, repeats: int) -> None:
    """Say what it was measured on: a busy machine's figures are worth little."""
    facts = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
    model = next((line.split(":")[1].strip() for line in facts if line.startswith("model name")), "unknown")
    busy = os.getloadavg()[0]
    report.section("Conditions")
    report.note(f"{len(os.sched_getaffinity(0))} processors ({model}), Python {sys.version.split()[0]}, {repeats} repeats")
    report.note(f"load before the first measurement: {busy:.1f}" + ("; THE MACHINE IS BUSY" if busy > 0.7 else ""))


def _compiled() -> None:
    """Write bytecode as an installer does: without it every process would compile what was changed since, each time."""
    for folder in ("analysis", "cli", "reports", "tracer"):
        compileall.compile_dir(Path(__file__).parents[3] / folder, quiet=2)


def main() -> int:
    """Measure and print; return 1 when a limit is not met."""
    arguments = _arguments()
    _compiled()
    folder = Path(arguments.folder).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    report = Report()
    named = {name: Path(path).resolve() for name, _, path in (text.partition("=") for text in arguments.use)}
    others_folder = Path(arguments.peers or folder / "peers").expanduser()
    tools = peers.Peers(others_folder, folder / "home", arguments.nsys)
    if arguments.install_peers:
        tools.install()
    bench = Bench(folder, inputs.Inputs(folder, named), tools, arguments.repeats, arguments.quick, report)
    conditions(report, arguments.repeats)
    for name, part in PARTS.items():
        if (arguments.only and name not in arguments.only) or (arguments.quick and name == "nsys-large"):
            continue
        try:
            part(bench)
        except (inputs.Missing, measure.Failed) as error:
            report.missing(name, str(error))
    if arguments.markdown:
        report.write_into(Path(arguments.markdown))
    return 0 if report.fine else 1


def _arguments() -> argparse.Namespace:
    cache = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(cache) if os.path.isabs(cache) else Path("~/.cache")) / "kernelscope/bench"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="of everything; what takes a minute, 3 at most (default: 5)")
    parser.add_argument("--quick", action="store_true", help="without the captures of 500 MB and more")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; can be given again")
    parser.add_argument("--folder", default=str(folder), help="for large captures and peers (default: %(default)s)")
    parser.add_argument("--peers", help="folder of the peers' environments (default: peers in --folder)")
    parser.add_argument("--install-peers", action="store_true", help="install there what is missing")
    parser.add_argument("--nsys", help="the nsys to compare with (default: what is found)")
    parser.add_argument("--use", action="append", default=[], metavar="NAME=FILE", help="an existing capture in place of one "
                        "that would be made: nsys30, nsys410, kineto, kineto250, kineto500, kineto1000")  # fmt: skip
    parser.add_argument("--markdown", metavar="PAGE", help="write the figures into this page, between its two comments")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
