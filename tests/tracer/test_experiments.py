"""A sweep's file: which cells it makes, and one line with a remedy for every mistake in it."""

import os

import pytest

from kernelscope.tracer.outside import experiments
from kernelscope.tracer.outside.errors import UsageError
from kernelscope.tracer.outside.sweep import turn_groups

SMALL = """
title = "small"
framework = ["pytorch", "keras"]
network = "lenet"
steps = 5
"""


def _cells(text):
    return experiments.parse(text, "file", "file.toml").cells


def _keys(text):
    return [cell.key for cell in _cells(text)]


def test_axes_that_are_left_out_have_their_defaults():
    threads = len(os.sched_getaffinity(0))
    assert _keys(SMALL) == [f"pytorch-lenet-train-b64-cpu-t{threads}", f"keras-tensorflow-lenet-train-b64-cpu-t{threads}"]
    assert {cell.settings.steps for cell in _cells(SMALL)} == {5}
    assert {cell.settings.passes for cell in _cells(SMALL)} == {("clean",)}


def test_lists_are_multiplied_and_what_differs_from_the_default_is_in_the_key():
    text = 'framework="pytorch"\nnetwork="lenet"\nbatch=[1,2]\nthreads=1\nlayout=["default","channels_last"]\nautotune=[true]'
    assert _keys(text) == [
        "pytorch-lenet-train-b1-cpu-t1-autotune",
        "pytorch-lenet-train-b1-cpu-t1-channels_last-autotune",
        "pytorch-lenet-train-b2-cpu-t1-autotune",
        "pytorch-lenet-train-b2-cpu-t1-channels_last-autotune",
    ]


def test_groups_have_lists_of_their_own_and_share_the_rest():
    groups = "[[group]]\nbatch=8\n[[group]]\nnetwork='mlp'\nbatch=[1,2]\nsteps=7\nframework='mxnet'\n"
    cells = _cells(SMALL + groups)
    assert [(c.axes.framework, c.axes.network, c.axes.batch, c.settings.steps) for c in cells] == [
        ("pytorch", "lenet", 8, 5), ("keras-tensorflow", "lenet", 8, 5), ("mxnet", "mlp", 1, 7), ("mxnet", "mlp", 2, 7),
    ]  # fmt: skip


def test_what_excludes_fit_is_left_out_with_the_reason():
    cells = _cells(SMALL + 'batch=[1,2]\n[[exclude]]\nframework="keras"\nbatch=[2,4]\nreason="too slow"\n')
    assert [cell.excluded for cell in cells] == [None, None, None, "too slow"]


def test_a_batch_divides_among_devices_or_is_left_out():
    cells = _cells('framework="pytorch"\nnetwork="lenet"\ndevice=["cpu","cuda"]\ndevices=[1,3]\nthreads=1\nbatch=[63,64]')
    assert [(c.key, c.excluded) for c in cells] == [
        (f"pytorch-lenet-train-b{batch}-{device}-t1{name}", reason if (batch, name) == (64, "-x3") else None)
        for batch in (63, 64)
        for device in ("cpu", "cuda")
        for name, reason in (("", None), ("-x3", "a batch of 64 cannot be divided among 3 devices"))
    ]


def test_devices_share_all_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    cells = _cells(
        'framework="pytorch"\nnetwork="lenet"\nthreads=["all",4]\ndevices=[1,2,16]\n[[exclude]]\nthreads="all"\ndevices=2'
    )
    assert [(c.axes.threads, c.axes.devices, c.excluded is None) for c in cells] == [
        (8, 1, True), (4, 2, False), (1, 16, True), (4, 1, True), (4, 16, True),
    ]  # fmt: skip


def test_cells_that_differ_in_the_framework_only_take_turns():
    cells = _cells('framework=["pytorch","mxnet"]\nnetwork=["lenet","mlp"]\nthreads=1')
    turns = [[(c.axes.framework, c.axes.network) for c in group] for group in turn_groups(cells)]
    assert turns == [[("pytorch", "lenet"), ("mxnet", "lenet")], [("pytorch", "mlp"), ("mxnet", "mlp")]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("framework = [", "file.toml: not TOML: "),
        ("a = " + 3000 * "[", "file.toml: is nested too deeply"),
        ("a = " + 5000 * "1", "file.toml: not TOML: Exceeds the limit"),
        (SMALL + "steps = 6", "file.toml: not TOML: "),
        ("network = 'lenet'", "file.toml: key 'framework' is missing; add framework = [...]"),
        (SMALL + "bach = 1", "file.toml: unknown key 'bach'; known: title, experiment"),
        (SMALL + "batch = []", "file.toml: key 'batch': an empty list makes no cells"),
        (SMALL + "batch = 0", "file.toml: key 'batch': 0 is not valid; name a whole number between 1 and"),
        (SMALL + "batch = [true]", "file.toml: key 'batch': True is not valid"),
        (SMALL + "batch = 1.5", "key 'batch': 1.5 is not valid"),
        (SMALL + "threads = 'many'", "key 'threads': 'many' is not valid"),
        (SMALL + "mode = 'test'", "key 'mode': 'test' is not valid; known: train, infer"),
        (SMALL + "device = 'tpu'", "key 'device': 'tpu' is not valid; known: cpu, cuda"),
        (SMALL + "layout = 'NHWC'", "key 'layout': 'NHWC' is not valid; known: channels_first, channels_last, default"),
        (SMALL + "autotune = 'yes'", "key 'autotune': 'yes' is not valid; name true, false or 'default'"),
        (SMALL + "passes = ['kernels']", "key 'passes': ['kernels'] is not valid; name a list that has \"clean\""),
        (SMALL + "passes = ['clean', 'all']", "known: check, clean, layers, kernels, lines, energy"),
        (SMALL + "memory_gib = -1", "key 'memory_gib': -1 is not valid; name a positive number"),
        (SMALL + "memory_gib = inf", "key 'memory_gib': inf is not valid; name a positive number"),
        (SMALL + "steady = 1", "key 'steady': 1 is not valid; name true or false"),
        (SMALL + "experiment = 1", "key 'experiment': 1 is not a text; put it into quotes"),
        (SMALL + "[group]\nbatch = 1", "key 'group': write it as tables, [[group]]"),
        (SMALL + "[[group]]\nbatch = 1\n[[group]]\ntitle = 'x'", "file.toml: [[group]] 2: unknown key 'title'"),
        (SMALL + "[[group]]\n[[group]]\nsteps = 6", "[[group]] 2: cell pytorch-lenet-train-b64-cpu-t"),
        (SMALL + "[[exclude]]\nreason = 'x'", "file.toml: [[exclude]] 1: would leave out every cell"),
        (SMALL + "[[exclude]]\nbatch = 'x'", "file.toml: [[exclude]] 1: key 'batch': 'x' is not valid"),
        ("framework = 'caffe'\nnetwork = 'lenet'", "key 'framework': 'caffe' is not valid; known: pytorch, tensorflow"),
        ("framework = 'mxnet'\nnetwork = 'letnet'", "key 'network': 'letnet' is not valid; known: lenet, mlp"),
        (
            f"framework='mxnet'\nnetwork='mlp'\nbatch={list(range(1, 102))}\nthreads={list(range(1, 101))}",
            "more than 10,000 cells",
        ),
    ],
)
def test_a_mistake_is_named_with_file_key_and_remedy(text, expected):
    with pytest.raises(UsageError) as caught:
        _cells(text)
    assert expected in str(caught.value)
    assert str(caught.value).startswith("file.toml: ")
    assert "\n" not in str(caught.value)


def test_shipped_experiments_are_found_by_name_and_each_has_a_small_form():
    shipped = experiments.shipped()
    names = {"thesis", "shi2016", "eleven", "keras_backends", "abstraction", "today"}
    assert set(shipped) == names | {f"{name}-small" for name in names}
    for name in shipped:
        found = experiments.load(name)
        assert found.cells
        assert found.name == name
        assert found.experiment == name.removesuffix("-small")
    assert {cell.axes.device for name in names for cell in experiments.load(f"{name}-small").cells} == {"cpu"}
    assert {cell.settings.repeats for cell in experiments.load("thesis-small").cells} == {3}, "its values are means of 3 runs"


def test_neither_a_file_nor_a_shipped_one(tmp_path):
    with pytest.raises(UsageError, match=r"none\.toml: no such file; name a TOML file or one of abstraction, "):
        experiments.load(str(tmp_path / "none.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"binary\.toml: cannot be read"):
        experiments.load(str(tmp_path / "binary.toml"))
