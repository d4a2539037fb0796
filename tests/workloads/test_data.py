"""Input batches: seeded random data and the user's own files in their published formats."""

import gzip
import struct

import numpy as np
import pytest
from PIL import Image

from kernelscope.workloads import data, files, networks


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
        (lambda f: (f / "train-images-idx3-ubyte").write_bytes(b"PNG\0" * 9), "not an idx file with 3 dimensions"),
        (lambda f: (f / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, 2) + b"\1\2"), "10 images but 2 labels"),
        (lambda f: (f / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, 0)), "its header claims 0 values"),
    ],
)
def test_damaged_files_are_named(tmp_path, damage, expected):
    images = np.ones((10, 28, 28), dtype=np.uint8)
    _write_mnist(tmp_path, images, np.zeros(10, dtype=np.uint8))
    damage(tmp_path)
    with pytest.raises(data.DataError, match=expected):
        data.batches(networks.get("lenet"), 4, 0, 1, str(tmp_path))


def test_batches_from_files_are_read_when_asked_for_and_never_end(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    _write_mnist(tmp_path, images, np.arange(5, dtype=np.uint8))
    read = data.from_files(networks.get("mlp"), 2, str(tmp_path))
    first = next(read)
    changed = images.copy()
    changed[3] = 255 - images[3]
    _write_mnist(tmp_path, changed, np.arange(5, dtype=np.uint8))
    second, third = next(read), next(read)
    assert np.array_equal(first[0], images[:2].reshape(2, 784).astype("float32") / np.float32(255))
    assert np.array_equal(second[0][1], changed[3].reshape(784).astype("float32") / np.float32(255)), "not what was there before"
    assert [batch[1].tolist() for batch in (first, second, third)] == [[0, 1], [2, 3], [4, 0]]


def _write_images(folder, count=3):
    """Write images of two classes, wider than high, whose left half is black, middle grey and right half white."""
    for label, (name, grey) in enumerate((("ant", 40), ("bee", 200))):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = np.zeros((64, 128, 3), dtype=np.uint8)
            pixels[:, 32:96], pixels[:, 96:] = (grey, 10 * number, label), 255
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    (folder / "ant" / "notes.txt").write_text("no image")


def test_folders_of_images_are_resized_and_cut_in_the_middle(tmp_path):
    _write_images(tmp_path)
    samples = files.find(networks.get("cnn"), str(tmp_path))
    images, labels = samples.take(range(6))
    assert images.shape == (6, 3, 32, 32)
    # 64 x 128 pixels become 32 x 64, of which the 32 in the middle are of one colour
    for image, label in zip(images, labels, strict=True):
        assert set(image[0, :, 2:-2].flat) == {(40, 200)[label]}
        assert set(image[2, :, 2:-2].flat) == {label}
    assert sorted(zip(labels.tolist(), images[:, 1, 16, 16].tolist(), strict=True)) == [
        (c, 10 * n) for c in (0, 1) for n in range(3)
    ]
    assert files.find(networks.get("cnn"), str(tmp_path)).take(range(6))[1].tolist() == labels.tolist(), "the same order always"
    assert labels.tolist() != sorted(labels), "classes are mixed"


def test_damaged_images_and_wrong_classes_are_named(tmp_path):
    _write_images(tmp_path / "images")
    (tmp_path / "images" / "bee" / "1.png").write_bytes(b"\x89PNG\r\n")
    with pytest.raises(files.DataError, match=r"1\.png: cannot read this image"):
        files.find(networks.get("cnn"), str(tmp_path / "images")).take(range(6))
    (tmp_path / "none").mkdir()
    with pytest.raises(files.DataError, match="found no images in subfolders, one for each class"):
        files.find(networks.get("resnet50"), str(tmp_path / "none"))
    with pytest.raises(files.DataError, match="gru takes no images"):
        files.find(networks.get("gru"), str(tmp_path))
    (tmp_path / "data_batch_1.bin").write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(files.DataError, match="a label is 10, but cnn has 10 classes"):
        next(data.from_files(networks.get("cnn"), 1, str(tmp_path)))


@pytest.mark.parametrize(
    ("images", "labels", "expected"),
    [
        (np.zeros((3, 3, 32, 32), "uint8"), np.zeros(2, "int64"), r"3 images but labels are int64 \[2\], not one integer each"),
        (np.zeros((3, 32, 32, 3), "uint8"), np.zeros(3, "int64"), "not uint8"),
        (np.zeros((3, 3, 32, 32), "float32"), np.zeros(3, "int64"), "images are float32"),
        (np.zeros((3, 3, 32, 32), "uint8"), np.array([{}, {}, {}]), "not a numpy array"),
    ],
)
def test_arrays_of_another_kind_are_refused(tmp_path, images, labels, expected):
    np.save(tmp_path / "train-images.npy", images)
    np.save(tmp_path / "train-labels.npy", labels, allow_pickle=True)
    with pytest.raises(files.DataError, match=expected):
        files.find(networks.get("cnn"), str(tmp_path))
