"""Input batches: seeded random data and the user's own files in their published formats."""

import gzip
import struct

import numpy as np
import pytest

from kernelscope.workloads import data, networks


def _write_mnist(folder, images, labels, pack=False):
    write = gzip.open if pack else open
    end = ".gz" if pack else ""
    with write(folder / ("train-images-idx3-ubyte" + end), "wb") as file:
        file.write(struct.pack(">IIII", 2051, *images.shape) + images.tobytes())
    with write(folder / ("train-labels-idx1-ubyte" + end), "wb") as file:
        file.write(struct.pack(">II", 2049, len(labels)) + labels.tobytes())


@pytest.mark.parametrize("name", ["lenet", "mlp", "cnn", "lstm"])
def test_random_batches_are_reproducible_distinct_and_never_zero(name):
    network = networks.get(name)
    first, again = data.batches(network, 16, 3, 4), data.batches(network, 16, 3, 4)
    for (images, labels), (images_again, labels_again) in zip(first, again, strict=True):
        assert images.shape == (16, *network.input_shape)
        assert images.dtype == np.float32
        assert labels.dtype == np.int64
        assert np.array_equal(images, images_again)
        assert np.array_equal(labels, labels_again)
        assert 0 <= images.min() < images.max() < 1
        assert images.std() > 0.2
    assert not np.array_equal(first[0][0], first[1][0])


def test_words_are_whole_numbers_of_the_vocabulary():
    network = networks.get("gru")
    words, labels = data.batches(network, 16, 3, 2)[0]
    assert words.shape == (16, 150)
    assert words.dtype == np.int64
    assert 0 <= words.min() < 1000 < 29_000 < words.max() < 30_000
    assert set(labels) == {0, 1}


@pytest.mark.parametrize("pack", [False, True])
def test_mnist_idx_files(tmp_path, pack):
    images = np.random.default_rng(0).integers(0, 256, (10, 28, 28), dtype=np.uint8)
    labels = np.arange(10, dtype=np.uint8)
    _write_mnist(tmp_path, images, labels, pack)
    batches = data.batches(networks.get("lenet"), 4, 0, 3, str(tmp_path))
    assert np.allclose(batches[0][0][1, 0], images[1] / 255)
    assert np.concatenate([batch[1] for batch in batches]).tolist() == [*range(10), 0, 1], "short files start over"


def test_cifar10_binary_files(tmp_path):
    records = np.random.default_rng(0).integers(0, 256, (6, 3073), dtype=np.uint8)
    records[:, 0] = [3, 1, 4, 1, 5, 9]
    (tmp_path / "data_batch_1.bin").write_bytes(records[:4].tobytes())
    (tmp_path / "data_batch_2.bin").write_bytes(records[4:].tobytes())
    batches = data.batches(networks.get("cnn"), 3, 0, 2, str(tmp_path))
    assert np.concatenate([batch[1] for batch in batches]).tolist() == [3, 1, 4, 1, 5, 9]
    # the second plane (green), third row, fourth column of the fifth record
    assert batches[1][0][1, 1, 2, 3] == pytest.approx(records[4, 1 + 1024 + 2 * 32 + 3] / 255)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda f: (f / "train-images-idx3-ubyte").unlink(), "no train-images-idx3-ubyte"),
        (lambda f: (f / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03\0"), "ends after 1 of 12 bytes"),
        (lambda f: (f / "train-images-idx3-ubyte").write_bytes(b"PNG\0" * 9), "not an idx file of 3 dimensions"),
        (lambda f: (f / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, 2) + b"\1\2"), "10 images but 2 labels"),
        (lambda f: (f / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, 0)), "claims to hold 0 values"),
    ],
)
def test_damaged_files_are_named(tmp_path, damage, expected):
    images = np.ones((10, 28, 28), dtype=np.uint8)
    _write_mnist(tmp_path, images, np.zeros(10, dtype=np.uint8))
    damage(tmp_path)
    with pytest.raises(data.DataError, match=expected):
        data.batches(networks.get("lenet"), 4, 0, 1, str(tmp_path))
