"""What may be written down of paths, people and secrets, and files from which the rest is taken out."""

import gzip
import json
import os
import sqlite3
from contextlib import closing

import pytest

from kernelscope.tracer.inside.disclosure import HIDDEN, Hiding, command, recorded, secrets
from kernelscope.tracer.inside.scrubbing import Scrubber

TOKEN = "gh" + "p_" + "a1B2" * 9  # made here; none was ever valid
KEY = "planted0secret0value77"


@pytest.fixture(autouse=True)
def zaphod(monkeypatch):
    for name, value in {"HOME": "/home/zaphod", "USER": "zaphod", "LOGNAME": "zaphod"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/zaphod", "~"),
        ("see /home/zaphod.", "see ~."),
        ("/home/zaphod/a b/c.py", "~/a b/c.py"),
        ("-I/home/zaphod/include", "-I~/include"),
        ("file:///home/zaphod/x", "file://~/x"),
        (r"\/home\/zaphod\/x", r"~\/x"),  # as some writers of JSON spell it
        ("a\\n/home/zaphod/x", "a\\n~/x"),
        ("open?f=%2Fhome%2Fzaphod%2Fx", "open?f=~%2Fx"),
        ("/home/zaphodian/x", "~/x"),  # somebody else's
        ("/home/trillian/x", "~/x"),
        ("/Users/trillian/x", "~/x"),
        (r"C:\Users\trillian\x", r"~\x"),
        ("/scratch/zaphod/run", "/scratch/~/run"),
        ("/tmp/torchinductor_zaphod/x", "/tmp/torchinductor_~/x"),
        ("zaphod@heartofgold:/x", "~@heartofgold:/x"),
        ('"host_name": "heartofgold", "x": 1', '"host_name": "~", "x": 1'),
        # nobody's
        ("zaphod", "zaphod"),
        ("https://host.org/home/page", "https://host.org/home/page"),
        ("/usr/lib/python3/x.py", "/usr/lib/python3/x.py"),
        ("jit(step)/root/dense", "jit(step)/root/dense"),
        ("aten::mm", "aten::mm"),
    ],
)
def test_homes_and_users_become_tildes(text, expected):
    assert Hiding().text(text) == expected
    assert Hiding(full_paths=True).text(text) == text


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["train.py", TOKEN], ["train.py", HIDDEN]),
        (["--url", "https://ford:b33bl3@host/x"], ["--url", f"https://ford:{HIDDEN}@host/x"]),
        (["wandb.api_key=abc", "lr=3", "cache_keys=3"], [f"wandb.api_key={HIDDEN}", "lr=3", "cache_keys=3"]),
        (["sh", "-c", "HF_TOKEN=abc python t.py --n=3"], ["sh", "-c", f"HF_TOKEN={HIDDEN} python t.py --n=3"]),
        (["sh", "-c", "A_PASSWORD='a b' x"], ["sh", "-c", f"A_PASSWORD={HIDDEN} x"]),
        (["--hub.token", "abc", "--tokens", "5"], ["--hub.token", HIDDEN, "--tokens", "5"]),
        (["-H", "Authorization: Bearer abcdefgh"], ["-H", f"Authorization: Bearer {HIDDEN}"]),
        (["pip", "sk-learn-contrib-estimators"], ["pip", "sk-learn-contrib-estimators"]),
        (["-o", "/home/zaphod/out"], ["-o", "~/out"]),
    ],
)
def test_command_lines(parts, expected):
    assert command(parts) == expected


def test_a_home_that_is_nobodys_names_nobody(monkeypatch):
    for name, value in {"HOME": "/tmp", "USER": "", "LOGNAME": ""}.items():
        monkeypatch.setenv(name, value)
    assert Hiding().text("/tmp/run /var/tmp/x /root/y") == "~/run /var/tmp/x ~/y"
    monkeypatch.setenv("HOME", "/")
    assert Hiding().text("/usr/lib") == "/usr/lib"


def test_full_paths_keep_paths_and_no_secrets():
    assert command(["/home/zaphod/t.py", "--token=abc"], full_paths=True) == ["/home/zaphod/t.py", f"--token={HIDDEN}"]
    assert recorded({"XLA_FLAGS": "--dump=/home/zaphod"}, {"A_KEY": "x"}, full_paths=True) == {
        "XLA_FLAGS": "--dump=/home/zaphod",
        "A_KEY": HIDDEN,
    }


def test_only_secrets_that_are_no_words_are_looked_for():
    variables = {
        "HF_TOKEN": KEY, "DB_PASSWORD": "training", "API_KEY": "12345678", "SSH_AUTH": "/tmp/agent.12345", "COLOUR": "f1l1er99",
    }  # fmt: skip
    parts = ["--password", "hunter2hunter2", f"token={KEY[::-1]}"]
    assert secrets(variables, parts) == [*sorted([KEY[::-1], KEY]), "hunter2hunter2"]


@pytest.fixture
def scrubbed(tmp_path):
    """Write files into a folder, scrub it, and return it."""

    def scrub(full_paths=False, **files):
        for name, content in files.items():
            path = tmp_path / name.replace("__", ".")
            path.write_bytes(content)
        Scrubber(full_paths, {"A_SECRET": KEY}, ["x"]).folder(tmp_path)
        return tmp_path

    return scrub


def test_texts_plain_and_packed(scrubbed):
    text = json.dumps({"file": "/home/zaphod/ä.py", "key": KEY, "log": f"a\n/home/zaphod/x {TOKEN}"})
    expected = text.replace("/home/zaphod", "~").replace(KEY, HIDDEN)
    folder = scrubbed(
        child__json=text.encode(), child__log=b"\xff " + text.encode(), trace__json__gz=gzip.compress(text.encode())
    )
    assert (folder / "child.json").read_text() == expected.replace(TOKEN, HIDDEN)
    assert (folder / "child.log").read_bytes() == b"\xff " + expected.replace(TOKEN, HIDDEN).encode()
    assert gzip.decompress((folder / "trace.json.gz").read_bytes()) == expected.encode()


def test_files_without_anything_private_stay_as_they_are(scrubbed):
    packed = gzip.compress(b'{"name": "/usr/lib"}', mtime=7)
    folder = scrubbed(a__json=b"{}", b__json__gz=packed, c__pb=b"\x00/usr", d__log=b"", e__parquet=b"PAR1 /home/zaphod/x")
    assert (folder / "b.json.gz").read_bytes() == packed
    assert (folder / "e.parquet").read_bytes() == b"PAR1 /home/zaphod/x", "tables of ours hold no text of others"
    assert sorted(os.listdir(folder)) == ["a.json", "b.json.gz", "c.pb", "d.log", "e.parquet"]


def test_nothing_moves_in_binary_files(scrubbed):
    texts = [b"/home/zaphod/proj/model.py", b"/scratch/zaphod/x", KEY.encode(), b"jit(f)/a/root/b"]
    content = b"".join(b"\x0a" + bytes([len(text)]) + text for text in texts)
    after = (scrubbed(operators__xplane__pb=content) / "operators.xplane.pb").read_bytes()
    expected = [b"~" + b"/" * 12 + b"proj/model.py", b"/scratch/~" + b"/" * 6 + b"x", b"x" * len(KEY), texts[3]]
    assert after == b"".join(b"\x0a" + bytes([len(text)]) + text for text in expected)
    assert os.path.normpath(expected[0]) == b"~/proj/model.py"


def test_databases(scrubbed, tmp_path):
    path = tmp_path / "nsys.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT); CREATE TABLE n (start INT, e INT)")
        texts = ["/home/zaphod/env/bin/python", "volta_sgemm", f"a {KEY}"]
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate(texts)))
        database.execute("INSERT INTO n VALUES (1, 2)")
        database.commit()
    scrubbed()
    assert b"zaphod" not in path.read_bytes()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT value FROM StringIds ORDER BY id").fetchall() == [
            ("~/env/bin/python",),
            ("volta_sgemm",),
            (f"a {HIDDEN}",),
        ]
        assert database.execute("SELECT * FROM n").fetchall() == [(1, 2)]


def test_damaged_files_hold_nothing_either(scrubbed):
    cut = gzip.compress(b"/home/zaphod/x" * 1000)[:-20]
    folder = scrubbed(trace__json__gz=cut, nsys__sqlite=b"SQLite format 3\x00\xff/home/zaphod/x" * 9)
    assert sorted(os.listdir(folder)) == ["nsys.sqlite"], "what is packed and cut short cannot be read by anybody"
    assert b"zaphod" not in (folder / "nsys.sqlite").read_bytes()


def test_full_paths_keep_the_files_paths(scrubbed):
    folder = scrubbed(full_paths=True, a__json=f"/home/zaphod/x {KEY}".encode(), b__pb=b"\x0e/home/zaphod/x")
    assert (folder / "a.json").read_text() == f"/home/zaphod/x {HIDDEN}"
    assert (folder / "b.pb").read_bytes() == b"\x0e/home/zaphod/x"


def test_links_are_left_alone(scrubbed, tmp_path):
    outside = tmp_path.parent / f"{tmp_path.name}-outside.json"
    outside.write_text("/home/zaphod/x")
    (tmp_path / "link.json").symlink_to(outside)
    scrubbed()
    assert outside.read_text() == "/home/zaphod/x"


def test_values_that_source_names_as_secret_are_left_out_and_source_stays_source():
    source = 'API_TOKEN = "Zq7rT2mLw9Xv4Bn8Kd3f"  # é\ndef train(n, password="hunter2Zx9Qw4"):\n    print("PASSWORD=errPw0rd7")\n'
    shown = Hiding().text(source)
    assert shown == (
        'API_TOKEN = "(not recorded)"  # é\ndef train(n, password="(not recorded)"):\n    print("PASSWORD=(not recorded)")\n'
    )
    assert Hiding().text(shown) == shown
    plain = "password = args.password\nkey = load_key(path)\nmax_tokens = 512\n"
    assert Hiding().text(plain) == plain
