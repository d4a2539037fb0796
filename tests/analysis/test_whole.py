"""Files that are whole under their names, whatever happens while they are written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import whole


def test_a_file_has_its_name_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "a.trace.json.gz"
    with whole.growing(target) as path:
        assert path.name.endswith(".json.gz"), "writers look at how a name ends"
        path.write_bytes(b"half")
        assert not target.exists()
    assert target.read_bytes() == b"half"
    assert os.listdir(tmp_path) == [target.name]


def test_a_folder_takes_the_place_of_another_at_once_or_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "result"

    def written(text: str) -> Path:
        new = tmp_path / text
        new.mkdir()
        (new / "content").write_text(text)
        return new

    whole.name_folder(written("first"), folder, replacing=False)
    with pytest.raises(EvidenceError, match="result: another command has written it in the meantime"):
        whole.name_folder(written("second"), folder, replacing=False)
    assert (folder / "content").read_text() == "first"
    number = folder.stat().st_ino
    whole.name_folder(tmp_path / "second", folder, replacing=True)
    assert (folder / "content").read_text() == "second"
    assert (tmp_path / "second").stat().st_ino == number, "what was there is where the new one was"
    monkeypatch.setattr(whole, "_EXCHANGE", 1 << 20)  # as on a system that knows no exchange
    whole.name_folder(written("third"), folder, replacing=True)
    assert (folder / "content").read_text() == "third"
    assert (tmp_path / "third" / "content").read_text() == "second"


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_text("before")

    def fails() -> None:
        with whole.growing(target) as path:
            path.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert target.read_text() == "before"
    assert os.listdir(tmp_path) == [target.name]


def test_who_may_read_it_is_as_if_it_were_written_plainly(tmp_path: Path) -> None:
    before = os.umask(0o27)
    try:
        whole.write_text(tmp_path / "new", "1")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    (tmp_path / "new").chmod(0o604)
    whole.write_text(tmp_path / "new", "2")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o604


def test_links_stay_and_pipes_are_written_themselves(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    whole.write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"
    whole.write_text(Path(os.devnull), "gone")
    assert Path(os.devnull).is_char_device()
