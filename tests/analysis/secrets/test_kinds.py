"""Kinds of secrets that are recognised, each by one made up at random, and what looks like one and is none.

Shapes are those that the services document, or that their tokens begin with.
"""

from __future__ import annotations

import random
import string

import pytest

from kernelscope.analysis.secrets.screens import spans_of, suspicious, suspicious_values
from kernelscope.tracer.inside.secret_values import secret_option, spans

RANDOM = random.Random(3)


def an(count):
    return "".join(RANDOM.choice(string.ascii_letters + string.digits) for _ in range(count))


def hx(count):
    return "".join(RANDOM.choice("0123456789abcdef") for _ in range(count))


def up(count):
    return "".join(RANDOM.choice(string.ascii_uppercase + "234567") for _ in range(count))


def guid():
    return "-".join(map(hx, (8, 4, 4, 4, 12)))


KINDS = {
    "opt=": f"train.py --password=Hunter2-{an(5)}",
    "conn": "Server=db;User=sa;Password=S3cret!pw;Timeout=3",
    "yaml": "password: tr0ub4dor&3",
    "curl": "curl -u user:pa55w0rd https://x.y",
    "mysql": "mysql -uroot -pPa55word db",
    "sshpass": "sshpass -p hunter22 ssh x",
    "netrc": "machine api.x.y login me password abc123def",
    "slack": "https://hooks.slack.com/services/T00000000/B00000000/" + an(24),
    "telegram": "bot123456789:AA" + an(33),
    "discord": "https://discord.com/api/webhooks/123456789012345678/" + an(68),
    "do": "dop_v1_" + hx(64),
    "github": "ghp_" + an(36),
    "gitlab": "glpat-" + an(20),
    "hf": "hf_" + an(34),
    "aws": "AKIA" + up(16),
    "google": "AIza" + an(35),
    "slackt": "xoxb-" + "123456789012-" + an(24),
    "openai": "sk-" + an(48),
    "nv": "nvapi-" + an(64),
    "npm": "npm_" + an(36),
    "pypi": "pypi-" + an(60),
    "jwt": "eyJ" + an(20) + ".eyJ" + an(30) + "." + an(40),
    "azure": "AccountKey=" + an(86) + "==",
    "url": "postgres://u:p4ssw0rd@h/db",
    "auth": "Authorization: Bearer " + an(40),
    "atl": "ATATT3" + an(60),
    "nr": "NRAK-" + an(27).upper(),
    "graf": "glsa_" + an(32) + "_" + hx(8),
    "sentry": "sntrys_" + an(60),
    "dyn": "dt0c01." + up(24) + "." + up(64),
    "circle": "CCIPAT_" + an(22) + "_" + hx(40),
    "bk": "bkua_" + hx(40),
    "gem": "rubygems_" + hx(48),
    "nuget": "oy2" + an(43).lower(),
    "dop": "dp.pt." + an(43),
    "pul": "pul-" + hx(40),
    "ps": "pscale_tkn_" + an(43),
    "sb": "sbp_" + hx(40),
    "ls": "lsv2_pt_" + hx(32) + "_" + hx(10),
    "at": "pat" + an(14) + "." + hx(64),
    "lin": "lin_api_" + an(40),
    "fig": "figd_" + an(40),
    "pm": "PMAK-" + hx(24) + "-" + hx(34),
    "shp": "shpat_" + hx(32),
    "sq": "sq0atp-" + an(22),
    "ali": "LTAI" + an(20),
    "ts": "tskey-auth-" + an(12) + "-" + an(32),
    "tf": an(14) + ".atlasv1." + an(64),
    "env": "HF_TOKEN=" + an(20),
    "wandb": "WANDB_API_KEY=" + hx(40),
    "pk": "-----BEGIN RSA PRIVATE KEY-----\n" + an(300) + "\n-----END RSA PRIVATE KEY-----",
    "fo1": "fo1_" + an(43),
    "heroku": "HRKU-" + an(36),
    "sendinblue": "xkeysib-" + hx(64) + "-" + an(16),
    "notion": "ntn_" + an(46),
    "sk-ant": "sk-ant-api03-" + an(93),
    "groq": "gsk_" + an(52),
    "xai": "xai-" + an(80),
    "replicate": "r8_" + an(37),
    "databricks": "dapi" + hx(32),
    "vault": "hvs." + an(90),
    "stripe": "sk_live_" + an(24),
    "sendgrid": "SG." + an(22) + "." + an(43),
    "docker": "dckr_pat_" + an(27),
    "oauth": "ya29." + an(60),
    "goc": "GOCSPX-" + an(28),
    "xapp": "xapp-1-" + an(40),
    "artifactory": "AKCp" + an(69),
    "token_url": "https://x.y/?token=" + an(20),
    "sas": "?sig=" + an(43) + "%3D",
    "option2": "--api-key " + an(32),
    "json": '{"password": "hunter22"}',
    "pair": '{"name":"HF_TOKEN","value":"' + an(20) + '"}',
    "basic": "Authorization: Basic " + an(28) + "==",
    "github fine-grained": "github_pat_" + an(22) + "_" + an(59),
    "github server": "ghs_" + an(36),
    "github oauth": "gho_" + an(36),
    "gitlab deploy": "gldt-" + an(20),
    "gitlab runner": "glrt-" + an(20),
    "gitlab runner old": "GR1348941" + an(20),
    "openai project": "sk-proj-" + an(74),
    "perplexity": "pplx-" + an(48),
    "mailchimp": "MAILCHIMP_API_KEY=" + hx(32) + "-us12",
    "mailchimp bare": hx(32) + "-us12",
    "mailgun": "key-" + hx(32),
    "twilio": "SK" + hx(32),
    "facebook": "EAACEdEose0cBA" + an(100),
    "azure ad": an(3) + "8Q~" + an(34),
    "bitbucket": "ATBB" + an(32),
    "contentful": "CFPAT-" + an(43),
    "cloudflare ca": "v1.0-" + hx(24) + "-" + hx(146),
    "cloudflare env": "CLOUDFLARE_API_TOKEN=" + an(40),
    "dropbox": "sl." + an(135),
    "easypost": "EZAK" + an(54),
    "flutterwave": "FLWSECK-" + hx(32) + "-X",
    "grafana cloud": "glc_" + an(60),
    "vault batch": "hvb." + an(140),
    "prefect": "pnu_" + an(36),
    "readme": "rdme_" + hx(70),
    "shippo": "shippo_live_" + hx(40),
    "slack user": "xoxp-123456789012-123456789012-" + an(32),
    "sonar": "squ_" + hx(40),
    "sourcegraph": "sgp_" + hx(40),
    "stripe restricted": "rk_live_" + an(24),
    "typeform": "tfp_" + an(59),
    "age": "AGE-SECRET-KEY-1" + up(58).translate(str.maketrans("BIO", "QPZ")),
    "clojars": "CLOJARS_" + an(60).lower(),
    "doo": "doo_v1_" + hx(64),
    "openssh key": "-----BEGIN OPENSSH PRIVATE KEY-----\n" + an(300) + "\n-----END OPENSSH PRIVATE KEY-----",
    "pkcs8": '"private_key": "-----BEGIN PRIVATE KEY-----\\n' + an(300) + '\\n-----END PRIVATE KEY-----\\n"',
    "teams": f"https://contoso.webhook.office.com/webhookb2/{guid()}@{guid()}/IncomingWebhook/{hx(32)}/{guid()}",
    "pinecone": "pcsk_" + an(60),
    "kaggle": '{"username":"someone","key":"' + hx(32) + '"}',
    "aws secret": "aws_secret_access_key = " + an(40),
    "aws env": "AWS_SESSION_TOKEN=" + an(200),
    "pgpassword": "PGPASSWORD=hunter22",
    "redis": "redis://:s3cretpw@h:6379/0",
    "mongodb": "mongodb+srv://u:p4ssw0rd@cluster0.x.mongodb.net",
    "docker config": '{"auths":{"https://index.docker.io/v1/":{"auth":"' + an(30) + '=="}}}',
    "npmrc": "//registry.npmjs.org/:_authToken=" + an(36),
    "pip url": "https://__token__:" + an(20) + "@pypi.x.y/simple",
    "datadog": "DD_API_KEY=" + hx(32),
    "cohere": "CO_API_KEY=" + an(40),
    "mistral": "MISTRAL_API_KEY=" + an(32),
    "together": "tgp_v1_" + an(43),
    "fireworks": "fw_" + an(24),
    "zapier": "https://hooks.zapier.com/hooks/catch/1234567/" + an(7) + "/",
    "fastly header": "Fastly-Key: " + an(32),
    "x-api-key": "x-api-key: " + an(40),
    "cookie": "Cookie: sessionid=" + an(32),
    "wget": "wget --http-password=hunter22 https://x.y",
    "psql": "psql postgresql://u:pw12345@h:5432/db",
    "alertmanager": "smtp_auth_password: hunter22",
    "adobe": "p8e-" + an(32).lower(),
    "linkedin": "LINKEDIN_CLIENT_SECRET=" + an(16),
    "twitter": "AAAAAAAAAAAAAAAAAAAAA" + an(85),
    "duffel": "duffel_live_" + an(43),
    "infracost": "ico-" + an(32),
    "frameio": "fio-u-" + an(64),
    "scalingo": "tk-us-" + an(48),
    "planetscale pw": "pscale_pw_" + an(43),
    "yandex": "AQVN" + an(38),
    "heroku old": "HEROKU_API_KEY=" + guid(),
    "neon": "NEON_API_KEY=" + an(64),
    "comet": "COMET_API_KEY=" + an(25),
    "clearml": "CLEARML_API_SECRET_KEY=" + an(50),
    "git url": "https://oauth2:" + an(20) + "@gitlab.x/y.git",
    "ssh-askpass": "SSHPASS=hunter22",
    "ldap": "bind_password=hunter22",
    "mlflow": "MLFLOW_TRACKING_PASSWORD=hunter22",
    "wandb v1": "wandb_v1_" + an(77),
    "wandb login": "wandb login " + hx(40),
    "wandb relogin": "wandb login --relogin --host=https://w.x " + hx(40),
    "google refresh": "1//0" + an(40) + "-" + an(59),
    "gcs signed url": "https://storage.googleapis.com/b/o?X-Goog-Expires=3600&X-Goog-SignedHeaders=host&X-Goog-Signature="
    + hx(512),
    "fly": "FlyV1 fm2_" + an(60) + "+/" + an(60),
    "cerebras": "csk-" + an(48).lower(),
    "runpod": "rpa_" + up(46),
    "supabase": "sb_secret_" + an(22) + "_" + an(8),
    "vercel": "vcp_" + an(56),
    "crates.io": "cio" + an(32),
    "modal": "MODAL_TOKEN_ID=ak-" + an(22),
    "modal secret": "modal token set as-" + an(22),
    "openssl": "openssl enc -aes-256-cbc -pass pass:" + an(15),
    "openssl in a list": '["openssl", "rsa", "-passin", "pass:hunter22"]',
    "putty": "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPublic-Lines: 1\nAAAA\nPrivate-Lines: 2\n"
    + f"{an(64)}\n{an(43)}=\nPrivate-MAC: {hx(64)}",
    "chinese": "密码: " + an(9) + "7",
    "chinese, wide colon": "用户 me 密码\uff1a" + an(9) + "7",
    "chinese in json": '{"密码": "' + an(9) + "7" + '"}',
    "japanese": "パスワード: " + an(9) + "7",
    "korean": "비밀번호: " + an(9) + "7",
    "russian": "Пароль: " + an(9) + "7",
    "french": "mot de passe : " + an(9) + "7",
    "spanish": "contraseña=" + an(9) + "7",
    "portuguese": "Senha: " + an(9) + "7",
    "german": "Passwort: " + an(9) + "7",
    "aws temporary": "ASIA" + up(14) + "89",
    "oracle": f"jdbc:oracle:thin:scott/{an(12)}@//h:1521/s",
    "oracle in quotes": f'jdbc:oracle:oci:scott/"{an(12)}"@h',
    "pgpass": f"db.example.com:5432:mydb:joe:{an(11)}7k",
    "appSettings": f'<add key="ApiKey" value="{an(32)}"/>',
    "property": "<property name='db.password' value='hunter22'/>",
    "html": f"password=&quot;{an(20)}&quot;",
    "json in html": "{&quot;password&quot;: &quot;hunter22&quot;}",
    "yaml block": f"password: |\n  {an(20)}",
    "yaml folded": f"token: >-\n    {an(30)}",
    "sql user": "CREATE USER u IDENTIFIED BY 'hunter22'",
    "sql plugin": "alter user u identified with mysql_native_password by 'hunter22'",
    "sql role": "ALTER USER u WITH PASSWORD 'hunter22'",
    "kubeadm": f"kubeadm join 1.2.3.4:6443 --token abcdef.{hx(16)}",
    "shadow": f"root:$6$saltsalt${an(86)}:18000:0:99999:7:::",
    "shadow, rounds": f"$5$rounds=535000$saltsalt${an(43)}",
    "bcrypt": f"$2b$12${an(53)}",
    "yescrypt": f"$y$j9T$saltsaltsaltsalt${an(43)}",
    "argon2": f"$argon2id$v=19$m=65536,t=3,p=4${an(22)}${an(43)}",
    "odbc braces": "Driver={x};UID=u;PWD={S3cret!p@w};",
    "otpauth": f"otpauth://totp/x:joe?secret={up(32)}&issuer=x",
}


HARMLESS = [
    "kernel_key: aten::mm",
    "password: required",
    "token: Linear",
    "pad_token=0",
    "cublasGemm -p 3",
    "max_tokens: 2048",
    "password: string",
    "mysql_connector -port 3",
    "Password=;",
    "curl -u",
    "ncclKernel_AllReduce",
    "num_tokens=4096;x=1",
    "as-strided_copy_kernel_float16x4_v2",
    "ciocchi_kernel_of_some_name_1234567890",
    "cioaffinefusionforwardbackward12345",
    "as-implementedinthetraceviewer1",
    "a pass:2 of 3 -pass 2",
    "vcp_forward_kernel",
    "rpa_attention_kernel_" + "block" * 8,
    "file://1//0/trace.json",
    "密码: 请输入您的密码",
    "Passwort: bitte eingeben",
    "mot de passe: obligatoire",
    "пароль: ",
    "Private-Lines: 12",
    "wandb login failed",
    "RPA_ragged_paged_attention_p_64_bq_32_bkv_128",
    "ASIAPACIFICREGIONSALES",
    "jdbc:oracle:thin:scott/tiger",
    "trace.py:5432:module:function:message",
    "12:54:30:worker:started",
    '<param name="token" value="position_embeddings"/>',
    '<add key="Theme" value="dark2024"/>',
    "password=&quot;&quot;",
    "password: |\n  Enter the new one",
    "token: >\n  what the tokenizer calls a piece",
    "the layer identified by 'conv2d_1'",
    "IDENTIFIED BY '%s'",
    "with password '<password>'",
    "train.py --token linear.sixteenlettersok",
    "$6$ and $5$ of 12$",
    "f(x) = $2a$ + $1$",
    "Server={host};Uid={user1};Pwd={password1}",
    "password={args.password2}",
    "otpauth://totp/x?issuer=y",
    "token=layer1:forward:2",
    "cache_key=cmxyzq3v7k2lhb5tq4x6|zn2fmw7rd3yjs5pu2ka4vbe6",
    "max_tokens=2048;top_k=3",
    "token=attention_scores&mask=causal",
    "signature=" + "9f86d081884c7d65" * 4 + ":v1",
]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_found_and_screened_for(kind):
    text = KINDS[kind].encode()
    assert spans(text)
    assert suspicious(text)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_found_among_other_text(kind):
    text = f"step 3 of 4\n{KINDS[kind]}\nkernel gemm took 3 ms".encode()
    found = spans(text)
    assert found
    assert all(b"step 3" not in text[one.start : one.end] and b"took" not in text[one.start : one.end] for one in found)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_one_is_left_alone(text):
    assert spans(text.encode()) == []


LETTERS, SMALL, HEX = string.ascii_letters + string.digits, string.ascii_lowercase + string.digits, "0123456789abcdef"
DRAWN = {
    "access_token=": (24, LETTERS),
    "api_key=": (32, SMALL),
    "HF_TOKEN=": (24, LETTERS),
    '{"token": "': (30, LETTERS),
    "/mnt/x/token=": (24, LETTERS),
    'token":"': (24, LETTERS),
    "SECRET_KEY=": (50, SMALL + "!@#$%^&*(-_=+)"),
    "pwd=": (16, LETTERS),
    "PWD = ": (16, LETTERS),
    "pwd = '": (16, LETTERS),
    'DB_PWD = "': (16, LETTERS),
    "pass=": (16, LETTERS),
    "passwd=": (16, LETTERS),
    "Uid=a;Pwd=": (16, LETTERS),
    "GITHUB_PAT=": (24, LETTERS),
    "Authorization: ": (30, LETTERS),
    "{'Authorization': '": (30, LETTERS),
    '{"Authorization": "': (28, LETTERS),
    "authorization: bearer ": (40, LETTERS),
    "bearer ": (40, LETTERS),
    "X-Amz-Signature=": (64, HEX),
    "X-Goog-Signature=": (512, HEX),
    "Signature=": (344, LETTERS + "-_~"),
    "sig=": (43, LETTERS),
}


@pytest.mark.parametrize("before", DRAWN)
def test_what_is_drawn_at_random_is_found_but_for_one_in_200(before):
    length, alphabet = DRAWN[before]
    drawing = random.Random(before)
    values = ["".join(drawing.choice(alphabet) for _ in range(length)) for _ in range(200)]
    lines = [f"k {before}{value}".encode() for value in values]
    assert suspicious_values(lines) == list(range(200))
    text = b"\n".join(lines)
    found = {text[span.start : span.end].decode() for span in spans(text)}
    assert len(set(values) - found) <= 1


NAMES = [
    "token", "access_token", "refresh_token", "auth_token", "session_token", "private_token", "secret", "app_secret",
    "client_secret", "clientSecret", "consumer_secret", "api_key", "x-api-key", "apikey", "secret_key", "private_key",
    "password", "passwd", "DB_PASSWORD", "HF_TOKEN",
]  # fmt: skip
BEHIND = [
    "", "&grant_type=x", "&x", "&amp;b=1", ";c", "; c=d", ",f=g", ", lr=1", "|y", ":z", ">", "#q", "%26a=b", " lr=1", ")", "]",
]  # fmt: skip


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("name", NAMES)
def test_a_value_ends_where_something_else_begins_whatever_stands_around_it(name, behind):
    """In the name of a range, in a line and in JSON it is the same value, and as much of it is found."""
    drawing = random.Random(f"{name}{behind}")
    value = "".join(drawing.choice(LETTERS) for _ in range(28)) + "7Xk2"
    texts = [f"{before}{name}={value}{behind}".encode() for before in ("", "step 3\n", "k ", '{"name": "', "https://h/p?a=1&")]
    for text in texts:
        assert [value.encode() in text[one.start : one.end] for one in spans(text)] == [True]
    assert suspicious_values(texts) == list(range(len(texts)))
    assert {place: bool(found) for place, found in spans_of([f"{name}={value}{behind}".encode()]).items()} == {0: True}


@pytest.mark.parametrize("behind", BEHIND[1:5] + BEHIND[8:10])
def test_a_value_in_quotes_with_something_behind_it_is_overwritten_to_the_quotes(behind):
    value = f"{an(28)}7Xk2{behind}"
    text = f'{{"api_token": "{value}"}}'.encode()
    assert [text[one.start : one.end] for one in spans(text)] == [value.encode()]


@pytest.mark.parametrize(
    "text",
    [
        "pass=backward", "pass=forward2", "pass=FusedLayerNormKernel2Backward", "pass=XlaSelfAdjointEigV2Grad",
        "pass=volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "pass=_ZN5cutlass6KernelIN7cutlass4gemm6kernel4GemmEEvNT_6ParamsE",
        "bypass=Cijk_SB_GG_BiasS_HAS_ScaleAB_ScaleAlphaVec_PostGSU8_VW2", "pass=Cijk_Ailk_Bljk_SB_MT64x64x16_SN_1LDSB0_AFC1",
        "pass=" + "9f86d081884c7d65" * 2, "pwd=/home/user/x", "PWD=/root/work", "pwd = os.getcwd()", "pwd=$(pwd)",
        "pwd=exp_2024-11-29_run12_resnet50", "token=input_ids", "token=embed_tokens.weight", "token=GetFinalPathNameByHandleW",
        "bearer of bad news", "bearer authentication_middleware_handler", "Authorization: AWS4-HMAC-SHA256 x",
        "signature=void(int,float)", "signature=*fp32:16, *fp32:16, i32", "signature=" + "9f86d081884c7d65" * 4,
        "signature=_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
        "key=layer1.0.conv2.weight", "commit=2bae67380fa1c9d8e7b6a5f4e3d2c1b0a9f8e7d6", "sha256=" + "9f86d081884c7d65" * 4,
        "key=cmxyzq3v7k2lhb5tq4x6zn2fmw7rd3yjs5pu2ka4vbe6ngc7hxtq", "compat=sm80a1b2c3d4e5f6g7h8",
        "cache_key=cmxyzq3v7k2lhb5tq4x6zn2fmw7rd3yjs5pu2ka4vbe6ngc7hxtq", "pat=[a-z]+_[0-9]+kernel",
    ],
)  # fmt: skip
def test_names_paths_and_hashes_under_such_names_are_none(text):
    assert spans(text.encode()) == []


def test_names_that_say_little_are_no_reason_to_overwrite_whatever_follows():
    assert not [text for text in (b"BYPASS=2", b"PASS=backward", b"PWD=work", b"SIG=ab cd") if spans(text, thorough=True)]
    assert not secret_option(b"--pass")
    assert secret_option(b"--db_pass")


LOOSE = [
    '("api_key", "{}")', '["X-Api-Key", "{}"]', 'setattr(c, "api_key", "{}")', 'if token == "{}":', 'password != "{}"',
    'token = f"{}"', 'token += "{}"', 'token = ("{}")', 'token = (\n    "{}"\n)', 'password=SecretStr("{}")', 'token == b"{}"',
    'key = os.getenv("API_KEY") or "{}"', 'token = args.token or "{}"', "API key: {}", "Secret Key: {}", "your API key is {}",
    "--auth {}", 'passcode: "{}"', 'headers["Authorization"] = "Token {}"', '("Authorization", "Token {}")',
    '(\\"api_key\\", \\"{}\\")', 'auth="{}"',
]  # fmt: skip


@pytest.mark.parametrize("form", LOOSE)
@pytest.mark.parametrize(("length", "alphabet"), [(24, LETTERS), (40, HEX), (44, LETTERS + "-_")])
def test_pairs_comparisons_and_calls_are_found_but_for_one_in_100(form, length, alphabet):
    drawing = random.Random(f"{form}{length}")
    missed = 0
    for _ in range(100):
        value = "".join(drawing.choice(alphabet) for _ in range(length))
        text = ("k " + form.format(value)).encode()
        found = [text[span.start : span.end] for span in spans(text)]
        missed += found != [value.encode()]
    assert missed <= 1
    assert suspicious(text)


def test_keys_of_fernet_are_found():
    text = f'Fernet(b"{an(43)}=")'.encode()
    assert suspicious(text)
    assert [text[span.start : span.end] for span in spans(text)] == [text[9:53]]


@pytest.mark.parametrize(
    "text",
    [
        'if token == "<pad>":', '("key", "value")', 'token += " "', 'mode = ("train")', '("api_key", "your-api-key-here")',
        'key == "layer1.0.conv2.weight"', 'getattr(model, "token_type_embeddings")', '["token", "position_embeddings"]',
        'password = f"{user}:{word}"', 'if token == "model.layers.10.self_attn.q_proj.weight":', "API KEY: something here",
        'token = tokenizer.decode("position_embeddings_and_more")', 'pad_token == "9f86d081884c7d659f86d081884c7d65"',
        '("secret", "_ZN5cutlass6KernelIN7cutlass4gemm6kernel4GemmEEvNT_6ParamsE")', '("cache_key", "9f86d081884c7d659f86d081")',
        'token = ("FusedLayerNormKernel2BackwardInput")', "your token is FusedLayerNormKernelBackward", "Fernet(key)",
        "--auth basic_login_of_some_kind", "auth=requests.auth.HTTPBasicAuth", '("access_token", "meta-llama/Meta-Llama-3.1-8B")',
    ],
)  # fmt: skip
def test_code_that_compares_and_pairs_names_and_words_is_left_alone(text):
    assert spans(text.encode()) == []
