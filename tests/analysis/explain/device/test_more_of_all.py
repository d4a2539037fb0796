"""One side executes all that both print more often: more work, which explains a difference before any cause does."""

import kernelscope as ks
from tests.analysis.formats.torch_table.made import printed

HEAD = ["Name", "Self CPU", "CPU total", "Self CUDA", "CUDA total", "# of Calls"]
NAMES = ("aten::cudnn_convolution", "aten::mul_", "aten::copy_", "aten::add_", "aten::native_batch_norm", "aten::relu")
TIMES = (4, 10, 12, 14, 10, 13)  # calls: 40, 100, ...
INDEXING = [("aten::index_put_impl", 40.0, 786), ("aten::sort", 35.0, 786)]


def explained(tmp_path, *sides):
    paths = []
    for name, rows in zip("ab", sides, strict=True):
        cells = [(one, "1.000ms", "1.000ms", f"{ms:.3f}ms", f"{ms:.3f}ms", str(round(calls))) for one, ms, calls in rows]
        whole = sum(ms for _, ms, _ in rows) * 1.2
        paths.append(tmp_path / f"{name}.txt")
        paths[-1].write_text(printed(HEAD, cells, ["Self CPU time total: 9.000ms", f"Self CUDA time total: {whole:.3f}ms"]))
    return ks.explain(*paths)


def rows(*factors):
    return [(name, 10.0 * factor, 100 * often * factor) for name, often, factor in zip(NAMES, TIMES, factors, strict=True)]


ONCE = rows(*[1.0] * len(NAMES))


def test_more_of_all_that_both_print_is_told(tmp_path):
    (said,) = explained(tmp_path, ONCE, rows(1.14, 1.2, 1.6, 1.2, 1.2, 1.3))["differs"]
    assert said.startswith("B executes all that both print more often than A, 1.14 to 1.6 times as often (aten::")


def test_more_of_some_is_not(tmp_path):
    assert explained(tmp_path, ONCE, rows(1.14, 1.2, 1.6, 1.2, 1.2, 1.0))["differs"] == []
    assert explained(tmp_path, ONCE, ONCE)["differs"] == []


def test_a_sort_for_as_many_index_puts_is_one_cause_with_them(tmp_path):
    first, *others = explained(tmp_path, ONCE, [*INDEXING, *ONCE])["findings"]
    assert first["title"] == "only B prints aten::index_put_impl and aten::sort, called 786 times each: 75.0 ms"
    assert not any("aten::sort" in one["title"] for one in others)


def test_a_sort_that_is_called_less_often_is_another_cause(tmp_path):
    found = explained(tmp_path, ONCE, [INDEXING[0], ("aten::sort", 35.0, 20), *ONCE])["findings"]
    assert not any("index_put_impl and" in one["title"] for one in found)


def test_kernels_in_a_range_of_the_program_are_not_its_python(tmp_path):
    """SyncBatchNorm's own time on the device is that of kernels."""
    slower = [("SyncBatchNorm", 40.0, 1200), *ONCE[1:]]
    found = explained(tmp_path, [("SyncBatchNorm", 10.0, 1200), *ONCE[1:]], slower)["findings"]
    assert found[0]["title"].startswith("SyncBatchNorm takes 4 times as long")
    assert not any("Python" in sentence for one in found for sentence in one["evidence"])
