"""What counts as a secret, what does not, and where it is said to be. Tokens are made here: none of them was ever valid."""

import base64
import hashlib
import json
import random
import re
import string
from unittest import mock

import pytest

from kernelscope.analysis.secrets import screens as secret_screens
from kernelscope.tracer.inside import disclosure, secret_values
from kernelscope.tracer.inside.secret_shapes import SHAPES

LETTERS = string.ascii_letters + string.digits


def drawn(length, alphabet=LETTERS, seed=0):
    """Return text drawn at random, with a digit at least, as tokens have."""
    rng = random.Random(f"{seed}{length}")
    return "".join(rng.choice(alphabet) for _ in range(length - 2)) + ("4f" if "f" in alphabet else "27")


HEX = "0123456789abcdef"
TOKENS = {
    "GitHub token": ["gh" + "p_" + drawn(36), "gh" + "o_" + drawn(36), "github" + "_pat_" + drawn(22) + "_" + drawn(59)],
    "Hugging Face token": ["h" + "f_" + drawn(34)],
    "AWS access key": ["AK" + "IA" + drawn(16, string.ascii_uppercase)],
    "Google API key": ["AI" + "za" + drawn(35)],
    "Slack token": ["xo" + "xb-" + drawn(12, string.digits) + "-" + drawn(24)],
    "OpenAI, Anthropic or similar key": ["s" + "k-ant-api03-" + drawn(90), "s" + "k-" + drawn(48), "s" + "k-proj-" + drawn(60)],
    "NVIDIA key": ["nv" + "api-" + drawn(64)],
    "GitLab token": ["gl" + "pat-" + drawn(20)],
    "package registry token": ["np" + "m_" + drawn(36), "py" + "pi-" + drawn(100)],
    "JSON web token": ["ey" + "J" + drawn(30) + "." + "ey" + "J" + drawn(60) + "." + drawn(43)],
}  # fmt: skip
ALL = [(what, token) for what, tokens in TOKENS.items() for token in tokens]


def found(text, thorough=False):
    """Return what `spans` finds in a text, as (what, value) pairs, and that the screens would have let it through."""
    raw = text.encode()
    spans = secret_values.spans(raw, thorough)
    result = [(span.what, raw[span.start : span.end].decode()) for span in spans]
    for few in (0, len(raw) + 1):  # by RE2, and by Python's patterns before it is imported
        with mock.patch.object(secret_screens, "_FEW", few):
            among = secret_screens.spans_of([b"", raw, b"a"], thorough)
        assert {place: found for place, found in among.items() if found} == ({1: spans} if spans else {})
    if result:
        assert secret_screens.suspicious(raw) == [(0, len(raw))]
        assert secret_screens.suspicious_values([b"", raw]) == [1]
    return result


@pytest.mark.parametrize(("what", "token"), ALL)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "a {} b",
        '{{"args": {{"x": "{}"}}}}',
        "url=https://h/{}/x",
        "url=https://h/x?u=a%2F{}&b",
        "line\\n{}\\nline",
        "\\u0000{}\\u0000",
        "\\b{}\\f{{",
        "\x1b[31m{}\x1b[0m",
        "\\u001b[1;31m{}\\u001b[0m",
    ],
)
def test_tokens_are_told_by_shape(what, token, around):
    assert found(around.format(token)) == [(what, token)]


@pytest.mark.parametrize("before", ["k_", "k", "7"])
@pytest.mark.parametrize(("what", "token"), [(what, token) for what, token in ALL if not token.startswith("sk-")])
def test_tokens_that_begin_like_no_word_count_behind_a_letter_too(what, token, before):
    assert found(f"{before}{token} x") == [(what, token)]


def test_a_token_of_letters_alone_counts_behind_a_letter_where_they_are_no_words():
    token = "hf_" + "tEkUdfMIzcpVMwqDPAjdOcZFvniUKiOYAg"
    assert found(f"gemm_{token} x") == [("Hugging Face token", token)]
    assert found("gemm_hf_attention_forward_with_many_words_and_more") == []
    assert found("gemm_hf_AttentionForwardWithManyWordsAndMoreOfThem") == []


@pytest.mark.parametrize(("what", "token"), ALL)
def test_overwritten_tokens_are_none(what, token):
    head = token[:5]
    assert found(head + "x" * (len(token) - 5)) == []
    assert found(f"HF_TOKEN={'*' * len(token)}") == []


@pytest.mark.parametrize(
    ("text", "what", "value"),
    [
        ("WANDB_API_KEY={h40}", "value of WANDB_API_KEY", "{h40}"),
        ("export JUPYTER_TOKEN='{h48}'", "value of JUPYTER_TOKEN", "{h48}"),
        ("JPY_API_TOKEN={h48}\nPATH=/usr/bin", "value of JPY_API_TOKEN", "{h48}"),
        ("http://localhost:8888/lab?token={h48}&x=1", "token in a URL", "{h48}"),
        ('"HF_TOKEN": "{t30}",', "value of HF_TOKEN", "{t30}"),
        ("'KAGGLE_KEY': '{h32}'", "value of KAGGLE_KEY", "{h32}"),
        ("AWS_SECRET_ACCESS_KEY={t40}", "value of AWS_SECRET_ACCESS_KEY", "{t40}"),
        ("MYSQL_PASSWORD=hunter2", "value of MYSQL_PASSWORD", "hunter2"),
        ("PGPASSWORD=hunter2", "value of PGPASSWORD", "hunter2"),
        ('login(user="a", password="hunter2!")', "value of password", "hunter2!"),
        ("train.py --password hunter2 --steps 3", "value of password", "hunter2"),
        ('["train.py", "--api-key", "{h40}"]', "value of api-key", "{h40}"),
        ('{{"name": "WANDB_KEY", "value": "{h40}"}}', "value of WANDB_KEY", "{h40}"),
        ('x \\"HF_TOKEN\\": \\"{t30}\\" y', "value of HF_TOKEN", "{t30}"),
        ("a\\nMY_TOKEN={t30}\\nb", "value of MY_TOKEN", "{t30}"),
        ("https://user:hunter2@example.org/x", "password in a URL", "hunter2"),
        ("postgres://u:p%40ss@db:5432/x", "password in a URL", "p%40ss"),
        ("ftp://u:Sek@rit9Pass@h/x", "password in a URL", "Sek@rit9Pass"),
        ("amqp://u:hunter2@one/x,amqp://v:w@two/", "password in a URL", "hunter2"),
        ('1,"login(password=""hunter2!"")",3', "value of password", "hunter2!"),
        ('"{{""HF_TOKEN"": ""{t30}""}}",3', "value of HF_TOKEN", "{t30}"),
        ('os.environ["API_TOKEN"] = "{t30}"', "value of API_TOKEN", "{t30}"),
        ('os.putenv("API_TOKEN", "hunter2!")', "value of an environment variable", "hunter2!"),
        ("export password=dJjM4tAORP82", "value of password", "dJjM4tAORP82"),
        ("k_10 passwd: bJjM4tAORP82", "value of passwd", "bJjM4tAORP82"),
        ('password: str = "hunter2!"', "value of password", "hunter2!"),
        ('if (password := "hunter2!"):', "value of password", "hunter2!"),
        ('api_key="kWoehMzxCPKq"', "value of api_key", "kWoehMzxCPKq"),
        ('os.getenv("API_KEY", "hunter2!")', "value of an environment variable", "hunter2!"),
        ('getattr(args, "password", "hunter2!")', "value of an environment variable", "hunter2!"),
        ('parser.add_argument("--api-key", type=str, default="hunter2!")', "default of a secret option", "hunter2!"),
        ('requests.get(url, auth=("bob", "hunter2!"))', "password of a login", "hunter2!"),
        ("docker login -u bob -p hunter2! registry", "password on a command line", "hunter2!"),
        ("curl -su bob:hunter2! http://h", "password on a command line", "hunter2!"),
        ("git clone https://{t30}@github.com/x/y", "token in a URL", "{t30}"),
        ("<password>hunter2!</password>", "password in XML", "hunter2!"),
        ("user=bob password=7wF5GFb5BC003 host=db", "value of password", "7wF5GFb5BC003"),
        ("client_secret=7wF5GFb5BC003", "value of client_secret", "7wF5GFb5BC003"),
        ('"token": "7wF5GFb5BC003"', "value of token", "7wF5GFb5BC003"),
        ("AWS_SECRET_ACCESS_KEY=/cde9dCFGdsG3QK77J2z0v0iD4hwnzy5VK9XcvjQ", "value of AWS_SECRET_ACCESS_KEY",
         "/cde9dCFGdsG3QK77J2z0v0iD4hwnzy5VK9XcvjQ"),
        ("https://h/a?sig=%2BK7j2Lm9QxZr4T8&x=1", "token in a URL", "%2BK7j2Lm9QxZr4T8"),
        ("\x1b[31mPGPASSWORD=hunter2\x1b[0m", "value of PGPASSWORD", "hunter2"),
        ("\x1b[31mcurl -u bob:hunter2! http://x\x1b[0m", "password on a command line", "hunter2!"),
        ("a\\r\\nmysql -p'hunter2!' db", "password on a command line", "hunter2!"),
        ('"x": "\\u2192sshpass -p hunter2!", "y": 1', "password on a command line", "hunter2!"),
        ("wandb.login(relogin=True, key='{h40}')", "key of Weights & Biases", "{h40}"),
        ("Authorization: Bearer {t30}", "authorization header", "{t30}"),
        ('x.set_password("Vq81kd93Lmf")', "password of a call", "Vq81kd93Lmf"),
        ('"client-key-data": "{t86}=="', "key of Kubernetes", "{t86}=="),
        ("    client-key-data: {t86}==\n", "key of Kubernetes", "{t86}=="),
        ("AccountName=a;AccountKey={t86}==;", "Azure account key", "{t86}=="),
        ("SNAP_COOKIE={t44}", "value of SNAP_COOKIE", "{t44}"),
        ("PMI_SHARED_SECRET=16413278650927431785", "value of PMI_SHARED_SECRET", "16413278650927431785"),
        ("tokenizer = load(name, token=\"{t37}\")", "value of token", "{t37}"),
    ],
)  # fmt: skip
def test_values_are_told_by_name(text, what, value):
    known = {f"h{n}": drawn(n, HEX) for n in (32, 40, 48)} | {f"t{n}": drawn(n) for n in (30, 37, 40, 44, 86)}
    assert found(text.format(**known)) == [(what, value.format(**known))]


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=32", "num_tokens: 4096", "token_embedding=12345678901234567890ab", '"eos_token": "<|endoftext|>"',
        "pad_token_id=0", '"bos_token": "<s>"', "MAX_TOKEN=100000000000", "TOKENIZERS_PARALLELISM=false",
        "tokenizer=GPT2TokenizerFast", "token = self.tokenizer.next_token()", "for token in tokens: pass", "secret=None",
        "HF_TOKEN=", "HF_TOKEN=''", 'HF_API_KEY=""', "API_KEY=None", "MY_SECRET=dummy",
        "GOOGLE_APPLICATION_CREDENTIALS=/home/u/key.json", "SSH_AUTH_SOCK=/tmp/ssh-x/agent.1",
        "SSH_PUBLIC_KEY=ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ", "PWD=/root/abc123def456ghi7", "OLDPWD=/root/abc123def456ghi7",
        "SNAP_INSTANCE_KEY=", "sort_key=abc123def456abc123def4", "cache_key: f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5",
        "token=token, endpoint=endpoint", "void at::native::sort_by_key_kernel<float, long>",
        "sk-learn-contrib-estimators-and-transformers", "mask-rcnn-R-50-FPN-x101-32x8d",
        "hf_model_forward_with_cache_and_attention_mask", "https://github.com/a/b@v1.2.3",
        "http://localhost:8888/?token=xxxxxxxxxxxxxxxxxx", "https://user:$PASSWORD@host/", "https://user:***@host/",
        'password="********"', "HF_TOKEN=REDACTED", "HF_TOKEN=<hidden>", "HF_TOKEN=$OTHER", "_ZN2at6native13hf_kernelE",
        "std::pair<key, token>::operator=(abc)", "Password: ", "dispatch_key=CUDA", "cudaStreamWaitEvent_v3020",
        "volta_sgemm_128x64_nn", "api_key=your_api_key",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOC\n-----END PUBLIC KEY-----",
        "primary_key: a1b2c3d4e5f6a7b8c9d0", "detokenize=12abc34def56ghi78jkl", "token: 1234567890",
        'password = input("Password: ")', 'password = getpass.getpass("Password: ") if x is None else ""',
        'passwd = click.prompt("Password: ", hide_input=True)', "fused_key=triton_poi_fused_12d34d_0d1d2d3de",
        'cls_token="vit_base_patch16_224_in21k"', "access_key=matmul_128x128x64_f16_f32", "http://127.0.0.1:8080@2x.png",
        "sk-learn-pipeline-transform-2024-stage-1", 'token="FusedLayerNormKernel"', 'secret_key="GraphConvolutionLayer2"',
        "password = load_password()", "password = args.password", 'password = os.environ["PW"]', "self.password = password",
        "SSL_KEY=/etc/ssl/private/3f2a9b8c7d6e5f4a", "token = tokenizer.next_token(ids)", 'api_key="(not recorded)"',
        "image_token=3f2a9b8c7d6e5f4a", "task-3f2504e04f8911d39a0c0305e82c3301", "_ZN5shf_9kernelILi128ELi64EEEvPfS1_ii4a5b6c7",
        '{"password":"","user":"somebody else"}', 'connect(password="", user="somebody")', '{"password": "", "user": "somebody"}',
    ],
)  # fmt: skip
def test_what_is_no_secret(text):
    assert found(text) == []


def test_no_pattern_outgrows_the_memory_of_what_searches():
    """RE2's automaton of a longer one does, and is a hundred times as slow; which no test of results would see."""
    longest = max(len(shape) for _, shape in SHAPES)
    assert all(len(pattern) < secret_screens._MOST + longest for pattern in secret_screens._SCREEN)


def test_no_screen_begins_at_each_letter_of_base64_and_counts_from_there():
    """RE2's automaton would outgrow its memory in such texts, too: 60 MB of base64 took 150 s."""
    for pattern in secret_screens._SHAPED:
        assert not re.search(r"(?:^|\|)(?:\[[A-Z]+\])?\[[^]]+\]\{[0-9]", pattern)
        assert not re.search(r"\{[0-9]+,[0-9]{2,}\}", pattern)


@pytest.mark.parametrize("beginning", ["-----BEGIN PRIVATE KEY-----\n", "eyJ", "password: ", "sk-", "--token "])
def test_beginnings_that_repeat_for_long_are_looked_at_once(beginning):
    """If each of them were followed to the end of the text, this would take minutes."""
    text = (beginning * (400_000 // len(beginning))).encode()
    assert secret_values.spans(text) == []
    secret_values.begins_like_one([text])


def test_private_keys():
    lines = "\n".join(drawn(64, LETTERS + "+/", seed) for seed in range(25))
    for kind in ("RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""):
        begin, end = f"-----BEGIN {kind}PRI" + "VATE KEY-----", f"-----END {kind}PRI" + "VATE KEY-----"
        key = f"{begin}\n{lines}\n{end}"
        assert found(f"before\n{key}\nafter") == [("private key", key)]
        escaped = json.dumps(key)[1:-1]
        assert found(f'{{"key": "{escaped}"}}') == [("private key", escaped)]
        assert found(key.replace(lines, "x" * len(lines))) == []


@pytest.mark.parametrize("separator", ["\x00", ";"])
def test_environments_hold_values_with_spaces(separator):
    text = separator.join(
        ["HOME=/root", "DB_PASSWORD=correct horse, battery", "SHELL=/bin/sh", "A=1", "HF_TOKEN=", "LAST_SECRET=ab cd9 ef"]
    )
    assert found(text + separator) == [
        ("value of DB_PASSWORD", "correct horse, battery"),
        ("value of LAST_SECRET", "ab cd9 ef"),
    ] or found(text) == [("value of DB_PASSWORD", "correct horse, battery")]
    assert ("value of LAST_SECRET", "ab cd9 ef") in found(text, thorough=True)


def test_thorough_takes_harmless_values_of_environment_variables():
    assert found("A_TOKEN=ab MODAL_TASK_SECRET=dummy", thorough=True) == [
        ("value of A_TOKEN", "ab"),
        ("value of MODAL_TASK_SECRET", "dummy"),
    ]
    assert found("HF_TOKEN=xxxx X_TOKEN= Y_TOKEN=/a/path USE_TOKEN=1", thorough=True) == []


_KEY = [base64.b64encode(hashlib.sha512(bytes([number])).digest())[:64].decode() for number in range(12)] + ["Q0x3dA=="]
_TEXT = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(_KEY) + "\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize("around", ['K = """%s"""\nx = "other"\n', "K = (\n%s)\nx = 'other'\n"])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_private_key_in_a_list_of_lines_is_found_and_the_list_stays_one(around, indent):
    """As source is kept: a line of the program is a text of its own, and may be one of Python's that are joined."""
    joined = "".join(f'    "{line}\\n"\n' for line in _TEXT.split("\n"))
    source = around % (_TEXT if '"""' in around else joined)
    written = json.dumps({"source": [line + "\n" for line in source.split("\n")], "after": "a text"}, indent=indent)
    content = bytearray(written.encode())
    for span in secret_values.spans(bytes(content)):
        content[span.start : span.end] = b"x" * (span.end - span.start)
    read = json.loads(content)
    assert not any(line in str(read) for line in _KEY)
    assert len(read["source"]) == len(source.split("\n"))
    assert (read["after"], read["source"][-2]) == ("a text", source.split("\n")[-2] + "\n")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('passwd = b"Jx7Bytes9Pw"', "Jx7Bytes9Pw"),
        ("A100 password=Hunter1", "Hunter1"),
        ("op_https://bob:s3cr3tPw77@host.io/x", "s3cr3tPw77"),
        ("1https://bob:s3cr3tPw79@host.io/x", "s3cr3tPw79"),
        ("x=1&password%3Dhunter28zz", "hunter28zz"),
    ],
)
def test_values_are_found_in_these_forms(text, secret):
    assert [text[span.start : span.end] for span in secret_values.spans(text.encode())] == [secret]


@pytest.mark.parametrize(
    "text", ["forward_pass=conv1d x", "password=layer y", "max_password_len=12345a", "password = self.word1"]
)
def test_values_like_these_are_none(text):
    assert not secret_values.spans(text.encode())


def test_source_is_written_without_secrets_and_with_all_of_its_lines():
    source = f'import x\nK = """{_TEXT}"""\ntoken = "ghp_{"a1B2" * 9}"\nmodel(x)\n'
    written = disclosure.source(source)
    assert not any(line in written for line in [*_KEY, "ghp_"])
    assert written.count("\n") == source.count("\n")
    assert written.split("\n")[-2] == "model(x)"
