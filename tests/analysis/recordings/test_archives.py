"""Packed run folders: read as the folder is, from any form of archive; archives that mean harm are refused in one line."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import stat
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kernelscope as ks
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import archives, unpacking
from kernelscope.analysis.recordings.run import NOT_ENDED, Run
from tests import forked
from tests.places import ROOT

DATA = ROOT / "tests" / "data"
RECORD = {
    "schema": "kernelscope/run/1", "framework": "pytorch", "conditions": "as it comes", "complete": True, "unavailable": {},
    "options": {"network": "lenet", "mode": "train", "batch": 64, "device": "cpu"}, "version": "1",
    "passes": {"kernels": {"status": "complete", "folders": ["kernels/1"]}},
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of a kernels pass."""
    folder = tmp_path_factory.mktemp("packed") / "before"
    source = DATA / "pytorch" / "lenet-train"
    shutil.copytree(source, folder / "kernels" / "1")
    network = json.loads((source / "child.json").read_text())["network"]
    (folder / "run.json").write_text(json.dumps({**RECORD, "network": network}))
    return folder


def _kernelscope(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    return forked.run(*map(str, arguments), **more)


@pytest.mark.parametrize("form", ["zip", "tar", "gztar", "bztar", "xztar"])
@pytest.mark.parametrize("inside", [True, False])
def test_an_archive_is_read_as_its_folder(run: Path, tmp_path: Path, form: str, inside: bool) -> None:
    root, base = (run.parent, run.name) if inside else (run, ".")
    packed = Path(shutil.make_archive(str(tmp_path / "run"), form, root, base))
    assert ks.breakdown(ks.read(packed), "layer").as_dict() == ks.breakdown(ks.read(run), "layer").as_dict()
    assert Run(packed).record == Run(run).record


def test_a_comparison_and_the_runs_in_it(run: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(run, tmp_path / "both" / name)
    several = Path(shutil.make_archive(str(tmp_path / "several"), "zip", tmp_path, "both"))
    with pytest.raises(EvidenceError, match=r"holds run folders; name one of them: a, b$"):
        Run(several)
    assert Run(several / "b").path.name == "b"
    record = json.loads((tmp_path / "both" / "b" / "run.json").read_text())
    (tmp_path / "both" / "b" / "run.json").write_text(json.dumps({**record, "complete": False, "reason": NOT_ENDED}))
    (tmp_path / ".both.earlier").mkdir()
    with pytest.raises(
        EvidenceError, match=r"a, b; the run did not come to its end, .*previous recording is in .*/\.both\.earlier$"
    ):
        Run(tmp_path / "both")
    (tmp_path / "both" / "compare.json").write_text("{}")
    compared = Path(shutil.make_archive(str(tmp_path / "compared"), "gztar", tmp_path, "both"))
    with pytest.raises(EvidenceError, match="a comparison; name one of its run folders: a, b"):
        Run(compared)
    assert archives.folder(compared / "a" / "run.json").is_file()


def test_commands_take_archives_name_them_and_leave_nothing_behind(run: Path, tmp_path: Path) -> None:
    packed = shutil.make_archive(str(tmp_path / "run"), "zip", run.parent, run.name)
    (tmp_path / "t").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "t")}
    same = _kernelscope("explain", packed, run, "--format", "json", env=environment)
    assert same.returncode == 0, same.stderr
    assert json.loads(same.stdout)["a"]["path"] == packed
    wrong = _kernelscope("energy", packed, env=environment)
    assert wrong.returncode == 3
    assert wrong.stderr.startswith(f"kernelscope: error: {packed}: no energy")
    missing = _kernelscope("breakdown", packed + "/nothing", env=environment)
    assert (missing.returncode, missing.stderr.count("\n")) == (3, 1)
    assert f"{packed}/nothing" in missing.stderr
    kept = _kernelscope("roofline", packed, "--measure", env=environment)
    assert (kept.returncode, kept.stderr.count("\n")) == (2, 1)
    assert list((tmp_path / "t").iterdir()) == []


def test_other_archives_are_told_as_before(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as packed:
        packed.writestr("thesis.tex", "years of work")
    with pytest.raises(EvidenceError, match=r"other.zip: no capture of a known format: it seems to be a zip archive; unpack it"):
        ks.read(tmp_path / "other.zip")


# --- harm --------------------------------------------------------------------------------------------------------------------

Members = list[tuple[str, bytes, int]]  # name, content (of links the target), kind as in st_mode
_MARK = ("run/run.json", json.dumps(RECORD).encode(), stat.S_IFREG)


def _zip(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content, kind in members:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (kind | 0o644) << 16
            packed.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return path


_TAR_KINDS = {stat.S_IFREG: tarfile.REGTYPE, stat.S_IFLNK: tarfile.SYMTYPE, stat.S_IFIFO: tarfile.FIFOTYPE, 0: tarfile.LNKTYPE}


def _tar(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name, content, kind in members:
            entry = tarfile.TarInfo(name)
            entry.type = _TAR_KINDS[kind]
            if entry.isreg():
                entry.size = len(content)
            else:
                entry.linkname = content.decode()
            packed.addfile(entry, io.BytesIO(content) if entry.isreg() else None)
    return path


@pytest.mark.parametrize("write", [_zip, _tar])
@pytest.mark.parametrize(
    ("member", "said"),
    [
        (("../escaped", b"x", stat.S_IFREG), "'../escaped' would be written outside"),
        (("run/../../escaped", b"x", stat.S_IFREG), "would be written outside"),
        (("/tmp/escaped", b"x", stat.S_IFREG), "would be written outside"),
        (("run/link", b"/etc/passwd", stat.S_IFLNK), "'run/link' is a link or not a regular file"),
        (("run/pipe", b"", stat.S_IFIFO), "is a link or not a regular file"),
        (("run/run.json", b"twice", stat.S_IFREG), "File exists"),
        (("run/run.json/below", b"x", stat.S_IFREG), "cannot be unpacked"),
        (("run/" + "n" * 300, b"x", stat.S_IFREG), "File name too long"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_would_do_harm_is_refused(
    tmp_path: Path, write: Callable[[Path, Members], Path], member: tuple[str, bytes, int], said: str
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    packed = write(tmp_path / "a" / "b" / "run.pack", [_MARK, member])
    with pytest.raises(EvidenceError, match=said) as error:
        ks.read(packed)
    assert str(error.value).startswith(f"{packed}: ")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.rglob("escaped"))


def test_a_link_to_another_member_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="is a link"):
        ks.read(_tar(tmp_path / "run.tar.gz", [_MARK, ("run/again", b"run/run.json", 0)]))


@pytest.mark.parametrize("write", [_zip, _tar])
def test_bombs_are_bounded(tmp_path: Path, write: Callable[[Path, Members], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """10 MB of zeros in 10 kB, where 1 MB would be allowed."""
    packed = write(tmp_path / "run.pack", [_MARK, ("run/zeros", bytes(10_000_000), stat.S_IFREG)])
    monkeypatch.setattr(unpacking, "MOST_BYTES", 1_000_000)
    monkeypatch.setattr(unpacking, "MOST_RATIO", 10)
    with pytest.raises(EvidenceError, match="unpacks to far more than its size"):
        Run(packed)


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "MOST_MEMBERS", 3)
    for write in (_zip, _tar):
        packed = write(tmp_path / write.__name__, [_MARK, *((f"run/{n}", b"", stat.S_IFREG) for n in range(4))])
        with pytest.raises(EvidenceError, match="unpacks to far more"):
            Run(packed)


def test_a_tar_record_that_claims_to_be_huge(tmp_path: Path) -> None:
    """Python's tarfile reads such records whole: 1 GB of name in a few kB of gzip would be memory."""
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    with tarfile.open(tmp_path / "run.tar.gz", "w:gz") as packed:
        packed.addfile(tarfile.TarInfo("run"))
        assert packed.fileobj is not None
        packed.fileobj.write(entry.tobuf() + bytes(4096))
    with pytest.raises(EvidenceError, match="one of its records is larger than any name"):
        Run(tmp_path / "run.tar.gz")


@pytest.mark.parametrize("form", ["zip", "gztar", "tar", "xztar"])
def test_archives_that_are_cut_off(run: Path, tmp_path: Path, form: str) -> None:
    whole = Path(shutil.make_archive(str(tmp_path / "whole"), form, run.parent, run.name)).read_bytes()
    length = len(whole.rstrip(b"\0")) if form == "tar" else len(whole)
    # of a tar also within a header and at the end of a member
    headers = [at + cut for at in (1536, 4608) for cut in (0, 511, 512, 1024)] if form == "tar" else []
    for size in (int(length * 0.3), int(length * 0.9), *headers):
        part = tmp_path / f"part-{size}"
        part.write_bytes(whole[:size])
        with pytest.raises(EvidenceError) as error:
            ks.read(part)
        assert str(error.value).startswith(f"{part}: ")


@pytest.mark.parametrize("form", ["zip", "tar", "gztar", "xztar"])
def test_damage_of_any_kind_is_one_line(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "run" / "a").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_bytes(_MARK[1])
    (tmp_path / "run" / "a" / "x").write_bytes(bytes(range(256)) * 4)
    whole = Path(shutil.make_archive(str(tmp_path / "whole"), form, tmp_path, "run")).read_bytes()
    chance, said, packed = random.Random(7), [], tmp_path / "packed"
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(chance.choice((1, 2, 8))):
            place = chance.randrange(len(content))
            content[place : place + chance.choice((0, 1, 8))] = bytes(
                chance.choice((0, 255, chance.randrange(256))) for _ in range(8)
            )
        packed.write_bytes(content)
        try:
            said.append("" if unpacking.unpack(packed) is not None else "no archive")
        except EvidenceError as error:
            said.append(str(error))
    assert all("\n" not in line and (not line or line.startswith((f"{packed}: ", "no archive"))) for line in said)
    assert sum(map(bool, said)) > 5


def test_a_damaged_zip_and_one_with_a_password(tmp_path: Path) -> None:
    packed = _zip(tmp_path / "run.zip", [_MARK, ("run/x", os.urandom(1000), stat.S_IFREG)])
    content = bytearray(packed.read_bytes())
    place = content.index(b"run/x") + 300
    content[place] ^= 255
    packed.write_bytes(content)
    with pytest.raises(EvidenceError, match="cannot be unpacked"):
        Run(packed)
    locked = _zip(tmp_path / "locked.zip", [_MARK])
    content = bytearray(locked.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + offset] |= 1
    locked.write_bytes(content)
    with pytest.raises(EvidenceError, match="password"):
        Run(locked)


def test_passes_are_within_the_run_folder(tmp_path: Path) -> None:
    for place in ("..", "kernels/../../other", "/etc", ""):
        record = {**RECORD, "network": None, "passes": {"kernels": {"status": "complete", "folders": [place]}}}
        (tmp_path / "run.json").write_text(json.dumps(record))
        with pytest.raises(EvidenceError, match="is not a folder of a pass"):
            Run(tmp_path).trace()
