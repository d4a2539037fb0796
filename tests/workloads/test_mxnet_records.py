"""RecordIO files that the MXNet workload writes and reads, in MXNet's own environment; Pillow decodes them for comparison."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.slow

SAMPLES, BATCH = 10, 4

SCRIPT = """
import itertools, json, os, shutil, sys, types
import mxnet as mx, numpy
from kernelscope.workloads import data, files, networks
from kernelscope.workloads.mxnet import records
from kernelscope.workloads.mxnet.program import Program

folder, found = sys.argv[1], {}

def program(name):
    return types.SimpleNamespace(network=networks.get(name), context=mx.cpu())

def error(folder, name, batch):
    try:
        next(records.batches(program(name), folder, batch))
    except files.DataError as failure:
        return str(failure)

def losses(loader):
    network = networks.get("cnn")
    options = {"mode": "train", "batch": 4, "device": "cpu", "seed": 0, "dropout": False}
    trained = Program(network, options)
    trained.load(networks.initial_weights(network, 0))
    if loader == "records":
        batches = records.batches(trained, os.path.join(folder, "cnn"), 4)
    else:
        read = data.from_files(network, 4, os.path.join(folder, "cnn"))
        batches = trained.stream(one for batch in read for one in trained.prepare([batch]))
    trained.train(itertools.islice(batches, 6))
    return trained.losses

for name in ("cnn", "mlp"):
    inside = os.path.join(folder, name)
    samples = files.find(networks.get(name), inside)
    records.write(inside, samples, networks.get(name))
    read = list(itertools.islice(records.batches(program(name), inside, 4), 6))
    found[name] = {
        "images": [images.asnumpy().tolist() for images, _ in read[:3]],
        "labels": [labels.asnumpy().tolist() for _, labels in read],
        "context": str(read[0][0].context),
    }
inside = os.path.join(folder, "cnn")
found["losses"] = {loader: losses(loader) for loader in ("records", "files")}
found["missing"] = error(folder, "cnn", 4)
found["few"] = error(inside, "cnn", 11)
found["size"] = error(os.path.join(folder, "mlp"), "cnn", 4)
with open(os.path.join(inside, records.FILE), "r+b") as file:
    size = os.path.getsize(file.name)
    kept = file.read()
    file.truncate(size - 40)
found["cut"] = error(inside, "cnn", 4)
with open(os.path.join(inside, records.FILE), "wb") as file:
    file.write(kept)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def samples():
    random = np.random.default_rng(3)
    labels = np.arange(SAMPLES) % 7
    shapes = {"cnn": (SAMPLES, 3, 32, 32), "mlp": (SAMPLES, 1, 28, 28)}
    return {name: (random.integers(0, 256, shape, dtype=np.uint8), labels) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def folder(samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    for name, (images, labels) in samples.items():
        (folder / name).mkdir()
        np.save(folder / name / "train-images.npy", images)
        np.save(folder / name / "train-labels.npy", labels)
    return folder


@pytest.fixture(scope="module")
def found(run_in, folder):
    return run_in("mxnet", SCRIPT, folder)


@pytest.mark.parametrize(("name", "shape"), [("cnn", (3, 32, 32)), ("mlp", (784,))])
def test_batches_are_the_samples_in_order_over_and_over(samples, found, name, shape):
    images, labels = samples[name]
    order = np.arange(6 * BATCH) % SAMPLES
    assert np.ravel(found[name]["labels"]).tolist() == labels[order].tolist()
    read = np.array(found[name]["images"])
    assert read.shape == (3, BATCH, *shape)
    np.testing.assert_allclose(read.ravel(), images[order[: 3 * BATCH]].ravel() / 255, atol=1e-6)
    assert found[name]["context"] == "cpu(0)"


def test_training_on_records_is_training_on_the_files(found):
    """Gradients are still computed when the next batch is being read: its memory must be another."""
    np.testing.assert_allclose(found["losses"]["records"], found["losses"]["files"], rtol=1e-6)


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("name", ["cnn", "mlp"])
def test_the_file_is_record_io_of_png_images(samples, folder, name):
    """The format by hand: magic number, length, MXNet's header (flag, label, two numbers), the image, filled up to 4 bytes."""
    images, labels = samples[name]
    content = (folder / name / "train.rec").read_bytes()
    starts = [int(line.split("\t")[1]) for line in (folder / name / "train.idx").read_text().splitlines()]
    at = 0
    for number in range(SAMPLES):
        assert starts[number] == at
        magic, length, flag, label, identity, _ = struct.unpack_from("<IIIfQQ", content, at)
        assert (magic, flag, label, identity) == (0xCED7230A, 0, labels[number], number)
        decoded = np.asarray(Image.open(io.BytesIO(content[at + 32 : at + 8 + length])))
        planes = decoded.reshape(*decoded.shape[:2], -1).transpose(2, 0, 1)
        np.testing.assert_array_equal(planes, images[number])
        at += 8 + (length + 3) // 4 * 4
    assert at == len(content)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("missing", "train.rec: not found; convert the data with `kernelscope data convert`"),
        ("few", "train.rec: 10 samples are fewer than a batch of 11; use a smaller batch"),
        ("size", "train.rec: record 0 is 28 x 28 pixels, not an image of 32 x 32; convert the data again"),
        ("cut", "train.rec: record 9 is truncated or not a PNG, not an image of 32 x 32; convert the data again"),
    ],
)
def test_files_that_cannot_be_read_are_named_with_the_remedy(found, case, message):
    assert found[case].endswith(message)
