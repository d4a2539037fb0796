"""Tables as PyTorch prints them, and as people post them."""

from kernelscope.analysis.formats import detect
from kernelscope.analysis.recordings import captures


def printed(heading, rows, totals=(), width=14):
    """Return a table as PyTorch prints it."""
    first = max(len(row[0]) for row in [heading, *rows]) + 4
    rule = "  ".join(["-" * first, *["-" * width] * (len(heading) - 1)]) + "  "
    lines = ["  ".join([f"{row[0]:>{first}}", *[f"{cell:>{width}}" for cell in row[1:]]]) + "  " for row in [heading, *rows]]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, *totals]) + "\n"


NEW = [
    "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "Self CUDA", "Self CUDA %", "CUDA total",
    "CUDA time avg", "# of Calls", "Input Shapes", "Total MFLOPs",
]  # fmt: skip


def row(name, own_cpu, cpu, own_device, calls, shapes="[]", flops="--"):
    return (name, "1%", own_cpu, "1%", cpu, "1.000us", own_device, "1%", own_device, "1.000us", calls, shapes, flops)


def markdown(heading, rows, totals=()):
    """Return a table as Markdown, with what is marked there marked, and the sums in bold."""
    lines = [heading, ["---"] * len(heading), *rows]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("_", r"\_").replace("*", r"\*")
    return text + "\n\n" + "".join(f"**{total}**  \n" for total in totals)


def read(tmp_path, text):
    path = tmp_path / "table.txt"
    path.write_text(text)
    assert detect(path).name == "torch-table"
    return captures.read(path)
