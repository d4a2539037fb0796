"""Each framework's own records: written and read by its library, and read here by hand; and what loading them takes of a step."""

import json
import struct
import subprocess
import sys
import tarfile

import numpy as np
import pytest

import kernelscope as ks

pytestmark = pytest.mark.slow

RECORDS = """
import importlib, itertools, json, shutil, sys
import numpy
from kernelscope.workloads import data, files, networks
framework, folder = sys.argv[1:3]
module, records = (importlib.import_module("kernelscope.workloads.%s.%s" % (framework, name)) for name in ("program", "records"))
network = networks.get("lenet")
options = {"batch": 4, "device": "cpu", "seed": 0, "threads": 1, "dropout": False}
Program = module.Program
program = Program(network, dict(options, mode="infer"))
program.load(networks.initial_weights(network, 0))
paths = records.write(folder, files.find(network, folder), network)
shutil.copy(paths[0], paths[0] + ".kept")
expected = list(itertools.islice(program.stream(iter(program.prepare(data.batches(network, 4, 0, 3, folder)))), 3))
def plain(value):
    value = value.asarray() if hasattr(value, "asarray") else value.asnumpy() if hasattr(value, "asnumpy") else value
    return numpy.asarray(value, dtype="float64").reshape(4, -1)

# each is looked at before the next is asked for, as loops do: a reader may use its memory again
pairs = zip(records.batches(program, folder, 4), expected)
far = [[float(abs(plain(a) - plain(b)).max()) for a, b in zip(x, y)] for x, y in pairs]
program.infer(itertools.islice(records.batches(program, folder, 4), 2))
program = Program(network, dict(options, mode="train"))
program.train(itertools.islice(records.batches(program, folder, 4), 2))
open(paths[0], "wb").close()
try:
    next(records.batches(program, folder, 4))
    empty = None
except data.DataError as error:
    empty = str(error)
print(json.dumps({"far": far, "empty": empty, "losses": program.losses}))
"""


@pytest.fixture
def mnist(tmp_path):
    """Return a folder with 6 images of MNIST's format, the images and the labels."""
    images = np.random.default_rng(0).integers(0, 256, (6, 28, 28), dtype=np.uint8)
    labels = np.array([5, 0, 4, 1, 9, 2], dtype=np.uint8)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, *images.shape) + images.tobytes())
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, len(labels)) + labels.tobytes())
    return tmp_path, images, labels


def webdataset(path):
    with tarfile.open(path) as tar:
        content = {member.name: tar.extractfile(member).read() for member in tar}
    for number in range(6):
        image = content.pop(f"{number:08d}.npy")
        yield np.frombuffer(image[-784:], dtype=np.uint8), int(content.pop(f"{number:08d}.cls"))
    assert not content


def tfrecord(path):
    """Follow the framing (length, its check sum, the record, its check sum) and look for the image in each record."""
    content = path.read_bytes()
    while content:
        (size,) = struct.unpack("<Q", content[:8])
        record, content = content[12 : 12 + size], content[16 + size :]
        # a message of protobuf: the label stands in a list of one number, field 3 of its feature, packed
        image = record.index(b"\n\x90\x06") + 3  # field 1, 784 bytes
        label = record[record.index(b"\x1a\x03\n\x01") + 4]
        yield np.frombuffer(record[image : image + 784], dtype=np.uint8), label


def ctf(path):
    for line in path.read_text().splitlines():
        fields = dict(part.split(" ", 1) for part in line.split("|")[1:])
        values = np.array(fields["features"].split(), dtype="float64") * 255
        yield np.rint(values).astype(np.uint8), fields["labels"].split().index("1")


@pytest.mark.parametrize(
    ("framework", "name", "by_hand"),
    [
        ("pytorch", "train.tar", webdataset),
        pytest.param("tensorflow", "train.tfrecord", tfrecord, marks=pytest.mark.long),
        pytest.param("cntk", "train.ctf", ctf, marks=pytest.mark.long),
    ],
)
def test_records_hold_the_samples_and_are_read_as_the_files_are(run_in, mnist, framework, name, by_hand):
    folder, images, labels = mnist
    found = run_in(framework, RECORDS, framework, folder)
    # three batches of 4 out of 6 samples: over and over, each as the program gets it without records
    assert np.max(found["far"]) <= 1e-7
    assert name in found["empty"]
    assert "convert the data again" in found["empty"]
    assert all(0 < loss < 10 for loss in found["losses"])
    samples = list(by_hand(folder / f"{name}.kept"))
    assert [label for _, label in samples] == labels.tolist()
    assert all(np.array_equal(image, images[number].ravel()) for number, (image, _) in enumerate(samples))


@pytest.mark.long
def test_what_loading_takes_of_a_step_is_a_row_of_the_breakdown(mnist, tmp_path):
    folder, _, _ = mnist
    out = tmp_path / "run"
    command = [sys.executable, "-m", "kernelscope.cli.main", "run", "mlp", "-f", "pytorch", "--device", "cpu", "-o", out]
    command += ["--data", folder, "--loader", "files", "--batch", 8, "--steps", 5, "--warmup", 2, "--repeats", 1, "--threads", 1]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    run = ks.read(out)
    table = ks.breakdown(run, "layer").as_dict()
    assert sum(row["time_ns"] for row in table["rows"]) == table["step_ns"]
    (loading,) = [row["time_ns"] for row in table["rows"] if row["layer"] == "(data)"]
    # reading, scaling and wrapping of 8 images, and nothing else: the mean of the ranges around the loop's asking for a batch
    ranges = [json.loads(line) for line in (out / "kernels" / "1" / "ranges.jsonl").read_text().splitlines()]
    asked = [row["end_ns"] - row["start_ns"] for row in ranges if row["category"] == "data" and row["step"] >= 0]
    assert 0 < loading <= 2 * max(asked)
    assert json.loads((out / "check" / "1" / "spec.json").read_text())["loader"] == "files"
