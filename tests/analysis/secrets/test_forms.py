"""Names and values in the forms of command lines, settings, source and tables: what is found, and what names something else."""

from __future__ import annotations

import csv
import io
import json
import random
import string

import pytest

from kernelscope.analysis.secrets.redaction import redact
from kernelscope.analysis.secrets.screens import spans_of, suspicious_values
from kernelscope.tracer.inside.secret_values import spans

LETTERS = string.ascii_letters + string.digits
FORMS = [
    "<api_key>%s</api_key>", "<client_secret>%s</client_secret>", '#define API_KEY "%s"', '#define DB_PASSWORD "%s"',
    "SET API_TOKEN %s", "setenv GITHUB_TOKEN %s", "api_key\t%s", "password\t%s", "HF_TOKEN\t%s", "password->%s",
    "api_key->%s", "PASSWORD1=%s", "DB_PASSWORD2=%s", "PASSWORD1: %s", '{"password1": "%s"}', "API_KEY2=%s", "my.api.key=%s",
    "app.api.key=%s", "azure.api.key: %s", "unzip -P %s a.zip", "ldapsearch -w %s -D cn=x", "openssl enc -k %s", 'pwd=f"%s"',
    'd.get("GITHUB_PAT") or "%s"', "PASSWORD=\n%s", "k API_KEY1=%s", "export GITLAB_PASSWORD2=%s", '{"auth_token2": "%s"}',
    "<accessKey>%s</accessKey>", "<ns:clientSecret>%s</ns:clientSecret>", "<apiKey>%s<\\/apiKey>",
    "&lt;password&gt;%s&lt;/password&gt;", '<string name="api_key">%s</string>', "| HF_TOKEN | %s |", "HF_TOKEN    %s",
    "ENV HF_TOKEN %s", "ARG API_KEY %s", 'SetEnv API_SECRET "%s"', 'set(API_KEY "%s")', 'constexpr auto API_TOKEN{"%s"};',
    'val apiKey: String = "%s"', 'let api_key: &str = "%s";', "wandb.api.key=%s", "--password2 %s",
    "redis-cli -h h -a %s ping", "podman login -u x -p %s r.io", "HF_TOKEN,%s", "vault_password: !vault %s",
    '"{""a"": ""{\\""token\\"": \\""%s\\""}"""',
    '"{""a"": ""{\\""b\\"": \\""{\\\\\\""token\\\\\\"": \\\\\\""%s\\\\\\""}\\""}"""', '{"args": {"token": ["%s"]}}',
    '{"headers": {"x-api-key": ["%s"]}}', 'setx HF_TOKEN "%s"', "setx HF_TOKEN %s", "HF_TOKEN ?= %s", "hf_token: !!str %s",
    "hf_token: &anchor %s", "- name: HF_TOKEN\n  value: %s", 'api_key = """%s"""', '<entry key="password">%s</entry>',
    '<property name="api_key">%s</property>', '<password type="plain">%s</password>', "api_key;%s", "api_key|%s",
    '"token";"%s"', 'System.setProperty("api.key", "%s")', "password2=%s", "pass_phrase=%s",
]  # fmt: skip
FOUND_BEFORE = [
    "<password>%s</password>", "api_key_2=%s", "API_TOKEN_1=%s", "spring.datasource.password=%s", "Pwd={%s};",
    "Server=h;Uid=u;Pwd={%s};", "password={%s}", 'static const char *api_key = "%s";', 'const std::string kApiKey = "%s";',
    'String apiKey = "%s";', "api_key => '%s'", ':api_key => "%s"', "$password = '%s';", 'api_key := "%s"', 'token = "%s"',
    "password = %s", 'client-secret: "%s"', "hf.token=%s", "trainer.logger.wandb_api_key=%s", "--hub_token=%s",
    "-DAPI_KEY=%s", "-e HF_TOKEN=%s", "curl -H 'X-Auth-Token: %s' https://h", "X-Vault-Token: %s", "PRIVATE-TOKEN: %s",
    "Ocp-Apim-Subscription-Key: %s", "Authorization: token %s", "https://h/p?api-key=%s&x=1", "https://h/p?access_token=%s",
    "https://h/p#access_token=%s", "wss://h/ws?auth=%s", "nvtx push: login(api_key='%s')", 'range_push("token=%s")',
    '{"name": "API_TOKEN", "value": "%s"}', '{"key": "HF_TOKEN", "value": "%s"}', '"HF_TOKEN","%s"', "'HF_TOKEN': r'%s'",
    "os.environ['HF_TOKEN'] = '%s'", 'os.environ.setdefault("HF_TOKEN", "%s")', 'login(token="%s", add_to_git=True)',
    "huggingface-cli login --token %s", "token is %s", "token: '%s' # comment", "sessionToken=%s", 'refreshToken":"%s"',
    "id_token=%s", "encryption_key=%s", "signing_key: %s", "ENCRYPTION_KEY=%s", "master_key = '%s'", "sshKeyPassphrase: %s",
    '{"a": "{\\"token\\": \\"%s\\"}"}', "iter 3 (api_key=%s)", "step[token=%s]", "step{token=%s}",
    "{\"args\": {\"kwargs\": \"{'api_key': '%s'}\"}}", '{"Authorization": ["Bearer %s"]}',
    '{"headers": [["X-Api-Key", "%s"]]}', "Namespace(lr=0.1, hf_token='%s', n=3)", "Config(api_key='%s')",
    "dataclass: Args(token='%s')", "args: --lr 0.1 --wandb_key %s", "args=['--wandb-key', '%s']", "args=('--token=%s',)",
    '"--api_key=%s"', "srun --export=ALL,HF_TOKEN=%s python t.py", "env HF_TOKEN=%s python t.py",
    'docker run -e HF_TOKEN="%s" x', "docker run --env HF_TOKEN=%s x",
    "kubectl create secret generic s --from-literal=password=%s", "helm install --set auth.password=%s",
    "helm --set-string apiKey=%s", 'git config http.extraheader "AUTHORIZATION: bearer %s"',
    "pip install --index-url https://u:%s@h/simple", 'export "API_KEY"="%s"', 'declare -x HF_TOKEN="%s"',
    '$env:HF_TOKEN = "%s"', '$Env:API_KEY="%s"', "set HF_TOKEN=%s", "HF_TOKEN := %s", "- HF_TOKEN=%s",
    'api-key = "%s" # comment', '"password" : "%s"', '<add name="ApiKey" value="%s" />',
    '<Parameter Name="Token" Value="%s"/>', '<input type="hidden" name="csrf_token" value="%s">',
    "Proxy-Authorization: Basic %s", "X-Api-Token: %s", "api-key: %s", "Token: %s", "https://h/v1/%%3Ftoken%%3D%s",
    "https://h/p?client_secret=%s", "https://h/p?apikey=%s", "https://h/p?auth_token=%s", "ftp://u:%s@h",
    "sqlite+pysqlcipher://:%s@/x.db", "amqps://u:%s@h/v", 'auth_token="%s",', "this.apiKey = '%s';",
    'private static final String API_KEY = "%s";', 'let token = Some("%s");', 'token: Some("%s".to_string())',
    'os.Setenv("API_KEY", "%s")', 'process.env.API_KEY || "%s"', "process.env.API_KEY ?? '%s'", 'ENV["API_KEY"] ||= "%s"',
    'putenv("API_KEY=%s")', 'std::getenv("K"); token = "%s"', 'client = OpenAI(api_key="%s")', 'client.api_key="%s"',
    "headers={'Authorization': 'Bearer %s'}", "auth=('u', '%s')", "db_passwd: %s", "dbPass=%s", 'userPwd: "%s"', "PASSWD=%s",
    "RABBITMQ_DEFAULT_PASS=%s", "MYSQL_PWD=%s", "POSTGRES_PASSWORD_1: %s",
]  # fmt: skip
HARMLESS = [
    "forward_pass=ResNet50", "backward_pass=BertLayer12", "first_pass=conv2d_1x1", "render_pass=Shadow2048",
    "config_key=SM90_TMA_WGMMA_14x28x56", "config_key=BLOCK_M_128_N_64", "block_key=c669239c010473adafd194ef73d0f32d",
    "plan_key=f7bdbf0177f7ee62", "config_key=9c084147a0d806f9", "compile_key=9c084147a0d806f9", "tuning_key=gemm_128x128x64",
    "shape_key=f16_8x1024x4096", "op_key=conv2d_3x3_s2", "node_key=layer12_attn0", "cache_key=f7bdbf0177f7ee62",
    "kernel_key=f7bdbf0177f7ee62", "public_key_token=b77a5c561934e089",
    "Version=4.0.0.0, Culture=neutral, PublicKeyToken=b77a5c561934e089", "FORWARD_PASS=ResNet50", "opt_pass: FuseConvBn2d",
    "pass_1=Fusion2x", "pass2=fuse_conv_bn_v2", "first-pass=conv2d_1x1", "lowering.pass=Tile32x32",
    "<token>input_ids</token>", "std::vector<Token>x12", "Map<Key,Token>::iterator1", "Token->next_token1",
    "token\tcount\tshare", "token    Linear_layer_of_model_12", "password\tpolicy\t1", "set token embedding_dim 12",
    "set password policy", "SET PASSWORD FOR 'x'@'h'", "env TOKENIZERS_PARALLELISM false", "#define MAX_TOKENS 4096",
    "#define PASS_1 fuse", "#define SECRET_SAUCE 1", "| token | count | share |", "| eos_token | <|endoftext|> | 2 |",
    "d_token1=layer12_attention_0", "token1=Linear", "token2: conv2d_1x1_s2_p0_f16", "api.key_value_cache=4096x128",
    "kv.cache.key=layer0.attn.k_proj", "model.layers.0.self_attn.key=64x64x128", "attention.key: [2, 16, 128, 64]",
    "key=value", "query_key_value", "query_key=2x16x128x64", "access.key_frames=12", "<key>AMDGPU_gfx90a_sramecc</key>",
    "kernel<Token>(float*, int)", "secret->run(12)", "PASSWORD=", "HF_TOKEN=\nCUDA_VISIBLE_DEVICES=0",
    "API_KEY=\nLD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu", "guid={3F2504E0-4F89-11D3-9A0C-0305E82C3301}",
    "session_key=sm_90a_128x256x64_warpspecialized", "access_token_ids=[1,2,3]", "unzip -p a.zip", "zip -r out.zip dir",
    "openssl enc -aes-256-cbc -in a", "sort_key2=abc123def456abc123def4", "cache_key1=f7bdbf0177f7ee62f7bdbf0177f7ee62",
    "pad_token_1=f7bdbf0177", "pattern_pat=[0-9]+x[0-9]+", "regex_pat=conv2d_bn_relu_v2_fused",
    "signature2=9f86d081884c7d659f86d081884c7d65",
    "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_tn",
    "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_nn_align8>(T1::Params)",
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1_SN_1LDSB0_APM1_ABV0_ACED0_AF0EM8_AF1EM1",
    "triton_per_fused__log_softmax_nll_loss_forward_5", "token_dispatcher=MoEAllGatherTokenDispatcher", "auth=FusedAdamW",
    "commit 2bae67380fa1c9d8e7b6a5f4e3d2c1b0a9f8e7d6",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "torch==2.5.1+cu124.with.pypi.cudnn",
    "NGC_VERSION=24.10-py3", "/tmp/torchinductor_x/ab/cabc3f2k7q2lhb5tq4x6zn2fmw7rd3yjs5pu2ka4vbe6ngc7hxtq.py",
    "libtorch_cuda-3f2a9b8c.so", "GPU-3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::half_t>>", "secret: none",
    "api_key: null", "token_type=Bearer", '"access_token": null', '"tokenizer": "GPT2TokenizerFast12"',
    "--max-new-tokens 512", "--token-budget 8192", "sampling_key=PRNGKey(42)", "rng_key=0x9f86d081884c7d65",
    "dropout_rng_key=[1832780943, 270669613]", "CONFIG_KEY=BLOCK_SIZE_M_128_BLOCK_N_256",
    "nccl_token=AllReduce_Sum_f32_Ring_LL128", "token_hash=9f86d081884c7d65", "mpi.pass=allreduce16MB", "user_pass=required",
    "old_pass=Conv2dBackward", "new_pass=FusedConv2dBnRelu", "<pass>fwd2bwd</pass>", "<password></password>",
    '<xs:element name="password" type="xs:string"/>', "&lt;token&gt;layer12&lt;/token&gt;", "secret_key is required",
    'token "attention_scores_of_the_layer_12"', 'set(CMAKE_PASS "RelWithDebInfo")', "constexpr int token{128}",
    'PASSWORD=f"{user}:{word}"', 'void gemm_kernel<float, 128, Token>("x")', "kernel(token) 128x128x64_f16",
    "std::map<std::string, Secret>::find(12)", "at::native::index_put_with_sort_kernel<OpaqueType<4>>",
    "key,count\nlayer1.conv1.weight_and_something_12,3", "token,id\nGPT2Tokenizer_fast_12_abcdef,4",
    "Token, 3f2504e0-4f89-11d3-9a0c-0305e82c3301x", "access_key,matmul_128x128x64_f16_f32_tn",
    "token  GetFinalPathNameByHandleW", "token    9", "secret    santa", "| api_key | your-api-key-goes-here-please |",
    "| password | string | required |", "API_KEY     string    the key of the service",
    "password  must_have_at_least_20_characters_2", "--token TOKEN   Hugging Face token (default: HF_TOKEN)",
    "--api-key API_KEY    key_of_the_service_v2_or_none", "token->GetTokenInformationEx2(12)",
    "secret->compute_shared_v2_of_kernel", 'token(\\"attention_scores_of_the_layer\\")', "#define TOKEN_H",
    "#define SECRET_KEY_LENGTH 32", "#define API_KEY NULL", "#define MAX_PASSWORD 128",
    "#define ACCESS_TOKEN access_token_v2", "ENV PATH /usr/bin", 'ENV TORCH_CUDA_ARCH_LIST "8.0 9.0"', "ARG GIT_TOKEN",
    "set TOKEN_LIMIT 4096", "SET SESSION_TOKEN DEFAULT", "env GIT_AUTH never", "unzip -P", "zip -P password",
    "sqlcmd -P $PASSWORD", "ldapsearch -w $PW", "redis-cli -a $REDIS_PASS ping", "azimuth login -p 12",
    "az login -p ${SECRET}", "openssl enc -k $KEY", "ldapsearch -x -W -D cn=x", "api.key.count=4096x128x64",
    "access.key: required", "account.key=layer12", "auth.key = config.auth_key_of_service", "password1: required",
    "secret2=none", "token12=Embedding2", "tokens1: 2048x128x64", "<key>sm_90a</key>", "<apiKey>none</apiKey>",
    "<token>layer.12.attention</token>", "<Token>GPT2TokenizerFast12</Token>",
    "<public_key_token>b77a5c561934e089</public_key_token>", "PublicKeyToken=31bf3856ad364e35, ProcessorArchitecture=MSIL",
    'publicKeyToken="6595b64144ccf1df"', "db_pass=required", "user_pass: true", "forward_pass2=ResNet50v2_conv4_block6",
    'backward_pass: "BertLayer12.attention.self"', "decode_pass=paged_attention_v2_bf16_128",
    "prefill_pass=FlashAttention2_Fwd_128x64", "my_pass=Conv2d_BatchNorm2d_ReLU",
    "graph_key=f7bdbf0177f7ee62f7bdbf0177f7ee62", 'plan_key: "cublasLt_algo_24_tile_20_stages_15"', "cfg_key=abc",
    "jit_key=sha256_9f86d081884c7d659a2feaa0c55ad015", "trace_key=0x7f8e9d0c1b2a3948", "group_key2=9f86d081884c7d65",
    "config-key: 9f86d081884c7d659f86d081884c7d65", '{"token": {"id": 12, "text": "hello"}}',
    '{"api_key": {"type": "string", "format": "password"}}', '{"secret": ["a", "b"]}', '"auth": "none"',
    'pat: "[0-9a-f]{8}-[0-9a-f]{4}"', "search_pat=conv2d_bn_relu_x2_fused", "git_pat=none",
    "UUID=3f2504e0-4f89-11d3-9a0c-0305e82c3301", '"{""token"": ""Linear"", ""n"": ""3""}"',
    '"{""a"": ""{\\""token\\"": \\""\\"", \\""user\\"": \\""somebody2else\\""}""}"',
    '"{""a"": ""{\\""password\\"": \\""\\"", \\""user\\"": \\""somebody2else\\""}""}"',
    '{"a": "say password: \\"", "b": "conv2d_gemm"}', '{"a": "password=\\"\\"", "b": "conv2d_gemm12"}',
    'password: string = ""', 'let token: &str = "";', 'token: str = "conv2d"', 'pwd=f"{root}/x"', 'token = f"layer_{i}"',
    'password = f"{a}"',
]  # fmt: skip


def drawn(drawing, length=24):
    """Return letters and digits at random, four digits at least."""
    digits = drawing.sample(range(length), 4)
    return "".join(drawing.choice(string.digits if place in digits else LETTERS) for place in range(length))


@pytest.mark.parametrize("form", [*FORMS, *FOUND_BEFORE])
def test_what_is_drawn_at_random_is_found_in_each_form_and_nothing_around_it(form):
    drawing = random.Random(form)
    values = [drawn(drawing).encode() for _ in range(25)]
    texts = [form.encode().replace(b"%s", value).replace(b"%%", b"%") for value in values]
    assert suspicious_values(texts) == list(range(25))
    assert set(spans_of(texts)) == set(range(25))
    for value, text in zip(values[:5], texts, strict=False):
        assert [text[span.start : span.end] for span in spans(text)] == [value]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_stands_in_these_forms_and_is_no_secret_is_left_alone(text):
    assert spans(text.encode()) == []


@pytest.mark.parametrize("name", ["forward_pass", "backward_pass", "plan_key", "config_key", "block_key", "compile_key"])
def test_names_of_passes_and_tables_hide_no_known_token(name):
    token = "gh" + "p_" + drawn(random.Random(name), 36)
    text = f"{name}={token}".encode()
    assert [text[span.start : span.end].decode() for span in spans(text)] == [token]


@pytest.mark.parametrize("name", ["FTP_PASS", "smtp_pass", "db.pass", "user_pass", "RABBITMQ_DEFAULT_PASS"])
def test_passwords_that_are_called_passes_stay_passwords(name):
    assert spans(f"{name}=hunter2Zx".encode())


@pytest.mark.parametrize("name", ["token", "password", "api_key", "client_secret"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_json_in_json_in_csv_is_redacted_and_stays_both(name, depth, tmp_path):
    value = drawn(random.Random(f"{name}{depth}"), 30)
    content: object = {name: value, "n": 3}
    for _ in range(depth):
        content = {"a": json.dumps(content)}
    written = io.StringIO()
    csv.writer(written).writerows([["1", json.dumps(content), "gemm"], ["2", "relu", '{"token": ""}']])
    source, target = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_text(written.getvalue())
    assert redact(source, target)
    assert value not in target.read_text()
    after = list(csv.reader(io.StringIO(target.read_text())))
    assert after[1] == ["2", "relu", '{"token": ""}']
    inner = json.loads(after[0][1])
    for _ in range(depth):
        inner = json.loads(inner["a"])
    assert inner == {name: "x" * 30, "n": 3}
