"""Secrets in JSON with escapes, and in JSON within JSON: overwritten, and JSON is left. None of the tokens was ever valid."""

import json

import pytest

from kernelscope.analysis.secrets import escapes
from kernelscope.analysis.secrets.redaction import redact
from kernelscope.analysis.secrets.screens import spans_of
from kernelscope.analysis.secrets.search import find

TOKEN = "gh" + "p_" + "".join(str(number) * 2 for number in range(18))


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "\\u0067%s"}', '{"name": "x \\\\u0067%s y"}', '["gh\\x70%s"]', '{"url": "https:\\/\\/u:%s@h\\/x"}',
        '{"a": "{\\"b\\": \\"{\\\\\\"c\\\\\\": \\\\\\"\\u0067%s\\\\\\"}\\"}"}',
        '{"a": "\\/\\/ \\u0067%s", "b": "\\"quoted\\" \\\\"}',
    ],
)  # fmt: skip
def test_tokens_with_escaped_letters_are_overwritten_and_json_stays_json(text, tmp_path):
    rest = TOKEN[3:] if "gh\\x70" in text else TOKEN if "https" in text else TOKEN[1:]
    source, target = tmp_path / "a.json", tmp_path / "b.json"
    source.write_text(text % rest)
    assert len(redact(source, target)) == 1
    assert rest not in target.read_text()
    assert len(target.read_text()) == len(source.read_text())
    if "x70" not in text:  # no escape of JSON's, but of Python's texts
        before, after = (json.loads(path.read_text()) for path in (source, target))
        assert before.keys() == after.keys()
        assert after.get("b") == before.get("b")


def test_cells_are_read_without_their_escapes_and_overwritten_where_these_stand():
    inner = b'{"username":"bob","key":"0123456789abcdef0123456789abcde7"}'
    cells = [b"gemm", b"[%s]" % json.dumps(inner.decode()).encode(), json.dumps(json.dumps(inner.decode())).encode(), b"C:\\new"]
    found = spans_of(cells)
    assert sorted(found) == [1, 2]
    assert [[cells[place][span.start : span.end] for span in found[place]] for place in (1, 2)] == [
        [b"0123456789abcdef0123456789abcde7"]
    ] * 2


def test_no_more_than_a_few_million_bytes_of_texts_within_texts_are_looked_through_and_the_rest_is_said(tmp_path):
    path = tmp_path / "a.json"
    filler = '"x\\"y",\n' * (1 << 20)  # 9 MB
    path.write_text('["{\\"username\\": \\"bob\\", \\"key\\": \\"0123456789abcdef0123456789abcde7\\"}",\n' + filler)
    found = find(path)
    assert found.total == 1
    assert found.unread.startswith("texts within texts after byte ")


def test_places_in_texts_without_their_escapes():
    text = b'"ab\\u0067\\/c\\"\\\\u0068\\u00e9"'
    plain = escapes.unescaped(text)
    assert plain.text == b'\nabg/c"\\u0068\xc3\xa9\n', "JSON within JSON, whose letter is one of the next view"
    assert [plain.origin(place) for place in range(7)] == [0, 1, 2, 3, 9, 11, 12]
    assert escapes.unescaped(plain.text).text == b"\nabg/c\nh\xc3\xa9\n"
    assert [plain.origin(place) for place in (13, 15, 16)] == [21, 27, 28]
    assert escapes.unescaped(b'{"a": "b"}') is None


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"a": "{\\"username\\": \\"bob\\", \\"key\\": \\"0123456789abcdef0123456789abcde7\\"}"}', "0123456789abcdef"),
        ('{"a": "{\\\\\\"password\\\\\\": \\\\\\"hunter2!\\\\\\"}", "b": "c"}', "hunter2!"),
        ('{"a": "\\u5bc6\\u7801\\uff1ahunter2!"}', "hunter2!"),
        ('{"a": "x\\r\\ncurl -u bob:hunter2! http://h", "b": "mysql -phunter2!", "c": "d"}', "hunter2!"),
        ('{"a": "login(password=\\"hunter2!\\")", "b": ["", "other"]}', "hunter2!"),
    ],
)
def test_json_within_json_is_found_and_redacted_and_stays_json(text, kept, tmp_path):
    source, target = tmp_path / "a.json", tmp_path / "b.json"
    source.write_text(text)
    assert find(source).total == len(redact(source, target)) > 0
    assert kept not in target.read_text()
    before, after = (json.loads(path.read_text()) for path in (source, target))
    assert before.keys() == after.keys()
    assert after.get("c") == before.get("c")


@pytest.mark.parametrize(
    "text",
    [
        'password = input("Password: ")',
        'getpass("Password: ") if x is None else ""',
        "input('Password: ') or 'x'",
        "Password: \"'",
    ],
)
@pytest.mark.parametrize("note", [12345, "Password:", ["", "a b c d e"]])
def test_a_prompt_in_json_is_no_secret(text, note, tmp_path):
    source, target = tmp_path / "a.json", tmp_path / "b.json"
    source.write_text(json.dumps({"name": text, "note": note, "more": [text, "conv2d_gemm", text]}))
    assert redact(source, target) == []
    assert target.read_bytes() == source.read_bytes()
