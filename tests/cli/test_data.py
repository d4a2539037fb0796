"""`kernelscope data convert`: into files of numpy, which needs no framework, and what it refuses."""

import numpy as np
import pytest
from PIL import Image

from kernelscope.workloads import files, networks
from tests.commands import called


def convert(*arguments):
    return called("data", "convert", *arguments)


@pytest.fixture
def cifar10(tmp_path):
    records = np.random.default_rng(0).integers(0, 256, (7, 3073), dtype=np.uint8)
    records[:, 0] = range(7)
    folder = tmp_path / "cifar"
    folder.mkdir()
    (folder / "data_batch_1.bin").write_bytes(records.tobytes())
    return folder, records


def test_arrays_hold_the_samples_in_their_order_and_are_not_overwritten(cifar10, tmp_path):
    folder, records = cifar10
    done = convert(folder, "--for", "cnn", "--to", "arrays", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("arrays: 7 samples")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["train-images.npy", "train-labels.npy"]
    assert np.array_equal(np.load(tmp_path / "out" / "train-images.npy"), records[:, 1:].reshape(7, 3, 32, 32))
    assert np.load(tmp_path / "out" / "train-labels.npy").tolist() == [*range(7)]
    again = convert(folder, "--for", "cnn", "--to", "arrays", "-o", tmp_path / "out")
    assert again.returncode == 2
    assert "exists already; give --force" in again.stderr


def test_images_are_decoded_for_the_network(tmp_path):
    for name, grey in (("a", 10), ("b", 250)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (50, 40), (grey, 0, 0)).save(tmp_path / "images" / name / f"{number}.png")
    done = convert(tmp_path / "images", "--for", "vit_s16", "--to", "arrays", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    images, labels = files.find(networks.get("vit_s16"), str(tmp_path / "out")).take(np.arange(4))
    assert images.shape == (4, 3, 224, 224)
    assert images[:, 0].min(axis=(1, 2)).tolist() == images[:, 0].max(axis=(1, 2)).tolist() == [(10, 250)[n] for n in labels]
    assert sorted(labels) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["--for", "cnn", "--to", "hdf5"], 2, "unknown framework 'hdf5'"),
        (["--for", "vgg", "--to", "arrays"], 2, "unknown workload 'vgg'"),
        (["--for", "cnn", "--to", ","], 2, "name each framework"),
        (["--for", "lenet", "--to", "arrays"], 3, "no train-images-idx3-ubyte"),
        (["--for", "gru", "--to", "arrays"], 3, "gru takes no images"),
    ],
)
def test_what_cannot_be_converted_is_said_in_one_line(cifar10, tmp_path, arguments, status, expected):
    done = convert(cifar10[0], *arguments, "-o", tmp_path / "out")
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())
