"""Clone the summaries of a job's ranks into those of very many, and time putting them together.

    python tests/tools/ranks/reduce.py FOLDER [10000]     FOLDER: captures of 8 ranks, as in corpus/ranks/megatron_tp8

The summaries of a rank are those of one of the captures, with a clock that is shifted and, for one rank, collectives that it
begins last. Prints seconds, the most memory, and whether the late rank was named. Summaries stay below out/ranks.
"""

import json
import resource
import shutil
import sys
import time
from pathlib import Path

import pandas as pd

from kernelscope.analysis.ranks.job import of_ranks
from kernelscope.analysis.ranks.recording import TABLES
from kernelscope.analysis.ranks.summaries import load, summarise

OUT = Path("out/ranks/summaries")
LATE = 5
LATE_NS = 100_000  # after whoever was last
MOST_SHIFT_NS = 250_000_000


def main(source: Path, count: int) -> int:
    """Make, time and print; return 1 where the late rank was not named."""
    headers = made(sorted(source.glob("*.json.gz")), count)
    began = time.monotonic()
    result = of_ranks([load(str(header)) for header in headers], [])
    taken = time.monotonic() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    named = {row["rank"] for row in result["blame"] if row["rank"] is not None}
    right = named == {LATE} and result["matched"] > 0
    print(f"{count} ranks, {result['matched']} collectives: {taken:.1f} s, {most:.1f} GB, rank {LATE} named: {right}")
    return int(not right)


def made(captures: list[Path], count: int) -> list[Path]:
    """Return the headers of so many ranks; made if they are not there."""
    folder = OUT / str(count)
    headers = [folder / f"{rank}.json" for rank in range(count)]
    if headers[-1].exists():
        return headers
    base = OUT / "base"
    base.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    sources = [summarise(str(path), str(base))["headers"][0] for path in captures]
    ranks, facts = [load(source) for source in sources], [json.loads(Path(source).read_text()) for source in sources]
    starts = pd.concat([one.collectives["start_ns"] for one in ranks], axis=1).max(axis=1)
    for rank, header in enumerate(headers):
        one, fact = ranks[rank % len(ranks)], facts[rank % len(ranks)]
        shift = (rank * 7_919_000) % (2 * MOST_SHIFT_NS) - MOST_SHIFT_NS
        for name in TABLES:
            table = one.table(name)
            if rank == LATE and name == "collectives":
                table = table.assign(start_ns=(starts + LATE_NS).clip(upper=table["end_ns"] - 1))
            times = [column for column in ("start_ns", "end_ns") if column in table]
            table.assign(**{column: table[column] + shift for column in times}).to_parquet(
                folder / f"{rank}.{name}.parquet", compression="zstd"
            )
        window = [at + shift for at in fact["window_ns"]]
        header.write_text(json.dumps({**fact, "rank": rank, "world": count, "window_ns": window}))
    return headers


if __name__ == "__main__":
    shutil.rmtree(OUT / "base", ignore_errors=True)
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000))
