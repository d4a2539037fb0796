"""How a session ends."""

import json

from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.options import RunOptions
from kernelscope.tracer.outside.session import Session
from kernelscope.tracer.outside.variants import Variant


def test_who_stops_the_measuring_of_ceilings_keeps_a_complete_run(tmp_path):
    options = RunOptions("lenet", mode="infer", batch=2, threads=1, steps=5, warmup=1, repeats=1)
    side = Variant("onednn", environments.resolve("onednn", None))
    walk = Session([side], options, [tmp_path / "run"], ["kernelscope"]).passes()
    labels = []
    for label, done, total in walk:
        labels.append((label, done, total))
        if label == "ceilings of the device":
            break
    assert labels[-1][1:] == (len(labels) - 1, len(labels))
    walk.close()  # as Ctrl-C does
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["complete"], record["reason"]
    assert "ceilings" not in record
    assert {entry["status"] for entry in record["passes"].values()} == {"complete"}
