"""Layers of made-up engines, as TensorRT's tools of several versions write them."""

from __future__ import annotations

from collections.abc import Sequence

COPY = "Reformatting CopyNode for Input Tensor 0 to "
# Name, and what the layer took in each of the iterations, in ms
LAYERS = (
    (f"{COPY}stem/Conv + stem/Relu", (0.25, 0.35)),
    ("stem/Conv + stem/Relu", (2.0, 2.2)),
    ("PWN(PWN(gate/Sigmoid), gate/Mul)", (0.5, 0.7)),
    ("(Unnamed Layer* 7) [Softmax]", (0.1, 0.3)),
)
LINE = "[05/06/2031-07:08:09] [I] "
Layers = Sequence[tuple[str, Sequence[float]]]


def _rows(layers: Layers) -> list[tuple[str, float, float, float, float]]:
    """Return name, total, average, median and share of each layer, and of all of them last."""
    sums = [sum(times) for _, times in layers]
    rows = [
        (name, total, total / len(times), sorted(times)[len(times) // 2], 100 * total / sum(sums))
        for (name, times), total in zip(layers, sums, strict=True)
    ]
    return [*rows, ("Total", *(sum(row[place] for row in rows) for place in (1, 2, 3, 4)))]


def table(layers: Layers = LAYERS, version: int = 8, line: str = LINE, total: bool = True) -> str:
    """Return what trtexec --dumpProfile prints. version: of TensorRT: 7, 8 (medians) or 10 (the layer's name last)."""
    rows = _rows(layers)
    width = max(len(row[0]) for row in rows) + 2
    named = {
        7: "Layer".rjust(width) + "   Time (ms)   Avg. Time (ms)   Time %",
        8: "Layer".rjust(width) + "   Time (ms)   Avg. Time (ms)   Median Time (ms)   Time %",
        10: "   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer",
    }
    lines = [f"=== Profile ({len(layers[0][1])} iterations ) ===", named[version]]
    for name, whole, average, median, share in rows if total else rows[:-1]:
        cells = [f"{whole:12.2f}", f"{average:17.4f}", *([f"{median:19.4f}"] if version > 7 else []), f"{share:9.1f}"]
        lines.append(f"{''.join(cells)}   {name}" if version == 10 else name.rjust(width) + "".join(cells))
    return "".join(f"{line}{text}\n" for text in [*lines, ""])


def exported(layers: Layers = LAYERS, medians: bool = True, most: int | None = None) -> str:
    """Return what trtexec --exportProfile writes; only the first layers if `most` is given, and then not the end."""
    texts = [f'  {{ "count" : {len(layers[0][1])} }}']
    for name, whole, average, median, share in _rows(layers)[:-1][:most]:
        middle = f', "medianMs" : {median:g}' if medians else ""
        texts.append(
            f', {{ "name" : "{name}", "timeMs" : {whole:g}, "averageMs" : {average:g}{middle}, "percentage" : {share:g} }}'
        )
    return "\n".join(["[", *texts, "]" if most is None else ', { "name" : "n'])


def of_samples(layers: Layers = LAYERS, calls: Sequence[int] | None = None) -> str:
    """Return what the samples' profiler prints, with these executions of each layer, or as many as there are times."""
    rows = _rows(layers)
    lines = ["========== encoder profile ==========", f"{'TensorRT layer name':>70}   Runtime, %  Invocations  Runtime, ms"]
    for place, (name, whole, _, _, share) in enumerate(rows[:-1]):
        number = len(layers[place][1]) if calls is None else calls[place]
        lines.append(f"{name:>70} {share:12.1f}% {number:12} {whole:12.2f}")
    return "\n".join([*lines, f"========== encoder total runtime = {rows[-1][1]:g} ms ==========", ""])


def of_first_samples(layers: Layers = LAYERS) -> str:
    """Return what the first samples print: means of layers, and their sum."""
    rows = _rows(layers)
    lines = [f"{name[:40]:<40} {average:4.3f}ms" for name, _, average, _, _ in rows[:-1]]
    return "\n".join(["engine built", *lines, f"Time over all layers: {rows[-1][2]:4.3f}", ""])
