"""Every format of a framework or CPU library is told from its content, and no file of another kind is taken for it."""

from pathlib import Path

import pytest

from kernelscope.analysis.files.head import Head, read_head
from kernelscope.analysis.formats import all_formats
from kernelscope.analysis.formats.cntk import log as cntk_log
from kernelscope.analysis.formats.cntk import profiler as cntk_profiler
from kernelscope.analysis.formats.mxnet import trace as mxnet
from kernelscope.analysis.formats.onednn import verbose
from kernelscope.analysis.formats.tensorflow import timeline as tensorflow_timeline
from kernelscope.analysis.formats.xplane import trace as xplane
from tests.places import CORPUS

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests/data"
MODULES = {
    "tensorflow-timeline": tensorflow_timeline,
    "mxnet": mxnet,
    "cntk-profiler": cntk_profiler,
    "xplane": xplane,
    "verbose": verbose,
    "cntk-log": cntk_log,
}


def taken(path):
    head = read_head(path)
    return {name for name, module in MODULES.items() if module.matches(head)}


def expected(path):
    """Return the format of a file of the corpus, by its folder and ending; None where it is none of these."""
    folder, name = path.parent.name, path.name
    if folder == "tf":
        return "tensorflow-timeline" if name.endswith(".json") else "xplane" if ".xplane." in name else None
    return {"mxnet": "mxnet", "cntk": "cntk-log", "onednn": "verbose"}.get(folder)


def test_of_all_files_of_other_people_only_the_own_are_taken():
    if not CORPUS.exists():
        pytest.skip("captures of other people: needs ../shared/corpus")
    mixed = ("pairs", "ranks", "more", "broken")  # folders with captures of several formats
    files = [path for path in CORPUS.glob("*/*") if path.is_file() and path.parent.name not in mixed]
    assert len(files) > 100
    wrong = {path.name: taken(path) for path in files if taken(path) != ({expected(path)} - {None})}
    assert wrong == {}


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("tensorflow/*/operators.xplane.pb", "xplane"),
        ("mxnet/*/operators.mxnet.json.gz", "mxnet"),
        ("cntk/*/operators.cntk.json*", "cntk-profiler"),
        ("cntk/*/stderr.raw", "cntk-log"),
        ("cntk/*/stdout.raw", "verbose"),
        ("onednn/*.txt", "verbose"),
        ("mkl/*.txt", "verbose"),
    ],
)
def test_files_of_this_project_are_told(pattern, name):
    files = sorted(DATA.glob(pattern))
    assert files
    assert [taken(path) for path in files] == [{name}] * len(files)


def test_every_format_here_is_offered():
    assert set(MODULES) <= {form.name for form in all_formats()}


@pytest.mark.parametrize(
    "content",
    [
        b"\x00", b"\n", b"[]", b"{}", b"[[[[[[", b"\xff" * 100, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x0a\x05\x12", b"\x0a\x09\x12\x07/hosts!", b"\x80" * 70000, b'{"traceEvents": []}', b"SQLite format 3\x00",
        b"\x1f\x8b\x00", b"onednn_verbose,v1,primitive,exec", b"mkldnn_verbose,exec,... and so on",
        b'[{"ph": "X", "name": "x"}]', b"MKL_VERBOSE=1\nONEDNN_VERBOSE=1\n", "é ü €".encode("utf-16"),
    ],
)  # fmt: skip
def test_foreign_content_is_nobodys(content):
    head = Head(Path("any"), content)
    assert [name for name, module in MODULES.items() if module.matches(head)] == []
