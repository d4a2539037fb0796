"""CNTK's logs, recomputed from their lines with str methods and Decimal."""

from collections import Counter, defaultdict
from decimal import Decimal

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.cntk import log as cntk_log
from tests import places
from tests.places import ROOT

CORPUS = places.CORPUS / "cntk"
NAMES = (
    "AlexNet_baseline.linux.release.gpu.txt", "CIFAR10_ResNet56_baseline.linux.gpu.txt", "MNIST_02_Conv_baseline.windows.txt",
    "ParallelTraining_NoQuant_baseline.gpu.txt", "QuickE2E_baseline.linux.gpu.txt",
)  # fmt: skip
OURS = sorted((ROOT / "tests/data/cntk").glob("*/stderr.raw"))


def nanoseconds(text):
    return int(Decimal(text.strip().rstrip("s;")) * 10**9)


def after(line, *marks):
    """Return what stands behind the last of several ways to write a mark, up to a separator; None where none stands there."""
    for mark in marks:
        if mark in line:
            return line.split(mark)[-1].split(";")[0].split(",")[0]
    return None


def progress_of(path):
    """Return ([(rank, samples per second, ns)] of minibatches, {(epoch, rank): [ns]}), in the log's order."""
    speeds, epochs = [], defaultdict(list)
    for line in path.read_text("utf8", errors="replace").split("\n"):
        rank = line.split("MPI Rank ")[1].split(":")[0] if line.startswith("MPI Rank ") else None
        if "]-Minibatch[" in line:
            time = nanoseconds(after(line, "; time = ", "TotalTime = "))
            speeds.append((rank, float(after(line, "samplesPerSecond = ", "SamplesPerSecond = ")), time))
        elif "Finished Epoch[" in line:
            number = int(line.split("Finished Epoch[")[1].split(" of ")[0])
            epochs[number, rank].append(nanoseconds(after(line, "epochTime=", "EpochTime=")))
    return speeds, epochs


@pytest.mark.parametrize("name", NAMES)
def test_throughput_and_epochs_of_the_corpus(name):
    path = CORPUS / f"yzhang87__CNTK__{name}"
    if not path.exists():
        pytest.skip("a log of other people: needs ../shared/corpus")
    speeds, epochs = progress_of(path)
    trace = cntk_log.read(path)
    trace.check()
    expected = [("samples_per_second" + (f", rank {rank}" if rank else ""), speed) for rank, speed, _ in speeds]
    samples = trace.samples[trace.samples["metric"].str.startswith("samples_per_second")]
    assert list(zip(samples["metric"], samples["value"], strict=True)) == expected
    totals = trace.totals
    found = dict(zip(totals["name"], zip(totals["count"], totals["duration_ns"], strict=True), strict=True))
    assert found == {
        f"epoch {number}" + (f", rank {rank}" if rank else ""): (len(times), sum(times))
        for (number, rank), times in epochs.items()
    }
    assert set(totals["table"]) == {"ranges"}
    assert trace.info["framework"] == "cntk"
    assert "kernels" in trace.info["unavailable"]
    assert trace.diagnostics == {}


def test_times_of_samples_add_up_epochs_and_the_lines_of_each():
    path = CORPUS / "yzhang87__CNTK__ParallelTraining_NoQuant_baseline.gpu.txt"
    if not path.exists():
        pytest.skip("a log of other people: needs ../shared/corpus")
    expected, finished, running = [], Counter(), Counter()
    for line in path.read_text("utf8").split("\n"):
        rank = line[9:10]
        if "]-Minibatch[" in line:
            running[rank] += nanoseconds(after(line, "; time = "))
            expected.append(finished[rank] + running[rank])
        elif "Finished Epoch[" in line:
            finished[rank] += max(nanoseconds(after(line, "epochTime=")), running[rank])
            running[rank] = 0
    samples = cntk_log.read(path).samples
    assert samples[samples["metric"].str.startswith("samples")]["time_ns"].tolist() == expected


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.parent.name)
def test_node_times_are_kernels_summed_up(path):
    expected = Counter()
    for line in path.read_text("utf8").split("\n"):
        if " forward avg " in line:
            node = line.split()[0]
            means = [
                Decimal(after(line, f"{way} avg ").rstrip("s").split("s")[0].split(" ")[0]) for way in ("forward", "backward")
            ]
            counts = [int(line.split(f"{way}# ")[1].split("|")[0].rstrip(")")) for way in ("fwd", "bwd")]
            for phase, mean, count in zip(("forward", "backward"), means, counts, strict=True):
                if count and node.rstrip("0123456789") not in ("Input", "Parameter", "Constant", "Combine"):
                    expected[node, phase, count, int(mean * 10**9) * count] += 1
    trace = cntk_log.read(path)
    trace.check()
    kernels = trace.kernels
    assert Counter(zip(kernels["name"], kernels["phase"], kernels["count"], kernels["duration_ns"], strict=True)) == expected
    assert kernels["start_ns"].isna().all()
    assert set(kernels["device"]) == {"cpu"}


def read(tmp_path, *lines):
    path = tmp_path / "log"
    path.write_text("\n".join(lines) + "\n", "utf8")
    assert cntk_log.matches(read_head(path))
    trace = cntk_log.read(path)
    trace.check()
    return trace


def values(trace):
    return trace.samples[["metric", "time_ns", "value"]].values.tolist()


def test_pythons_progress(tmp_path):
    trace = read(
        tmp_path,
        "Selected GPU[1] Tesla K80 as the process wide default device.",
        " Minibatch[   1- 100]: loss = 2.301 * 6400, metric = 88.5% * 6400;",
        "Finished Epoch[1 of 2]: [Training] loss = 0.405960 * 60000, metric = 13.01% * 60000 21.741s (2759.8 samples/s);",
        "Finished Epoch[2 of 2]: [Training] loss = 0.106030 * 60000 3.5s (16492.6 samples per second);",
        "Finished Evaluation [1]: Minibatch[1-11]: metric = 0.62% * 10000;",
    )
    assert values(trace) == [
        ["samples_per_second", 21_741_000_000, 2759.8], ["loss", 21_741_000_000, 0.40596],
        ["samples_per_second", 25_241_000_000, 16492.6], ["loss", 25_241_000_000, 0.10603],
    ]  # fmt: skip
    assert trace.totals[["name", "duration_ns"]].values.tolist() == [["epoch 1", 21_741_000_000], ["epoch 2", 3_500_000_000]]
    assert trace.info["devices"] == [{"device": "cuda:1", "name": "Tesla K80"}]


def test_the_oldest_brainscript(tmp_path):
    trace = read(
        tmp_path,
        "Epoch[1 of 3]-Minibatch[1-10 of 40]: SamplesSeen = 250; TrainLossPerSample = 0.7; EvalErr[0]PerSample = 0.5; "
        "TotalTime=0.093; TotalTimePerSample=0.000372, SamplesPerSecond=2688",
        "Finished Epoch[1]: [Training Set] TrainLossPerSample = 0.65; EvalErrPerSample = 0.4; EpochTime=0.5",
        "Finished Epoch[1]: [Validation Set] TrainLossPerSample = 0.64",
        "Epoch[2 of 3]-Minibatch[1-10 of 40]: SamplesSeen = 250; TrainLossPerSample = 0.6; TotalTime=1e-1; SamplesPerSecond=2500",
    )
    assert values(trace) == [
        ["samples_per_second", 93_000_000, 2688.0], ["loss", 93_000_000, 0.7], ["loss", 500_000_000, 0.65],
        ["samples_per_second", 600_000_000, 2500.0], ["loss", 600_000_000, 0.6],
    ]  # fmt: skip


def test_damaged_numbers_are_counted(tmp_path):
    trace = read(
        tmp_path,
        "Epoch[ 1 of 3]-Minibatch[ 1- 10]: ce = 1 * 1; time = 9e99s; samplesPerSecond = 1.0",
        "Times1  forward avg 0.5s, backward avg 0.1s (fwd# 99999999999999999999|bwd# 1)",
        "Times2  forward avg 0.5s, backward avg 0.1s (fwd# 2|bwd# 0)",
    )
    assert trace.diagnostics == {"unreadable node times": 1, "progress lines without a readable time": 1}
    assert trace.kernels[["name", "phase", "count", "duration_ns"]].values.tolist() == [["Times2", "forward", 2, 1_000_000_000]]
    assert trace.samples.empty


def test_a_foreign_text_is_refused_by_name(tmp_path):
    path = tmp_path / "log"
    path.write_text("Epoch 1/10: loss 3\n")
    with pytest.raises(EvidenceError, match="no line of a CNTK log") as raised:
        cntk_log.read(path)
    assert str(path) in str(raised.value)


def test_losses_without_a_time_are_told(tmp_path):
    trace = read(
        tmp_path,
        "Epoch[ 1 of 10]-Minibatch[   1- 100, 12.80%]: ce = 2.1 * 5760; errs = 78.472% * 5760",
        "Finished Epoch[ 1 of 10]: [Training] ce = 2.0 * 60000",
    )
    assert trace.samples.empty
    assert "2 losses are in lines without a time, and do not become samples" in trace.info["notes"]


def test_logs_that_stand_indented_in_a_document_are_read(tmp_path):
    trace = read(
        tmp_path,
        "    Epoch[ 1 of 10]-Minibatch[   1- 100, 12.80%]: ce = 2.5 * 5760; time = 0.5s; samplesPerSecond = 11520.0",
        "\tFinished Epoch[ 1 of 10]: [Training] ce = 2.0 * 60000; epochTime=4s",
        " Minibatch[   1- 100]: loss = 2.263843 * 6400, metric = 86.41% * 6400;",
    )
    assert values(trace) == [
        ["samples_per_second", 500_000_000, 11520.0], ["loss", 500_000_000, 2.5], ["loss", 4_000_000_000, 2.0],
    ]  # fmt: skip
    assert any(note.startswith("1 lines on minibatches have only criteria") for note in trace.info["notes"])
