"""Names whose values are secret, and how certain that is."""

import re

# Ends of names whose values are secret. Weak words count only if the value looks random.
_LOGIN = r"PASSW(?:OR)?D|PASS[_-]?PHRASE|PASSCODE|[_.-]PWD|[_.-]PASS|SSHPASS"  # of a password
_STRONG = rf"TOKEN|SECRET|{_LOGIN}|CREDENTIALS?|(?:API|ACCESS|SECRET|PRIVATE|AUTH|ACCOUNT)[ _.-]?KEY"
_WEAK = r"TOKENS|SECRETS|API[_-]?KEYS|[_-]KEY|COOKIE|SNAP_CONTEXT|[_-]AUTH|[_-]PAT"
# Words that also name folders, passes, patterns and hashes: only long random values count.
UNSURE = r"PWD|PASS|PAT|BEARER|AUTHORIZATION|AUTH|SIGNATURE|SIG"
NUMBER = "(?:_?[0-9]{1,2}|_(?i:B64|BASE64))?"  # DB_PASSWORD2=, API_TOKEN_1=
SURE_WORD, WORD = rf"(?i:{_STRONG}|{_WEAK}){NUMBER}", rf"(?i:{_STRONG}|{_WEAK}|{UNSURE}){NUMBER}"
NAME = re.compile(rb"[A-Za-z0-9_.-]{0,64}?%s\Z" % WORD.encode())
SURE_NAME = re.compile(rb"%s\Z" % SURE_WORD.encode())
STRONG_NAME = re.compile(rb"(?i:%s)%s\Z" % (_STRONG.encode(), NUMBER.encode()))
UNSURE_NAME = re.compile(rb"(?:^|[_.-]|(?<=[a-z])(?=[A-Z]))(?i:%s)%s\Z" % (UNSURE.encode(), NUMBER.encode()))
HASH_NAME = re.compile(rb"(?i:(?<!amz-)(?<!goog-)signature|sig|pass)(?:_?[0-9]{1,2})?\Z")  # names of hashes, too
PASSWORD_NAME = re.compile(rb"(?i:%s)(?:_?[0-9]{1,2})?\Z" % _LOGIN.encode())
# passes of compilers and layers, and the words that make it a password
_PASS = re.compile(rb"(?i:(?:^|[_.-])([A-Za-z0-9]+)[_.-]pass)(?:_?[0-9]{1,2})?\Z")
_PASSES = (
    rb"(?:forward|backward|fwd|bwd|first|second|third|last|next|final|single|double|multi|one|two|per|each|full|partial|warmup|"
    rb"render|shadow|depth|geometry|lighting|compute|optimization|optimizer|opt|fusion|fuse|compile|compiler|lowering|graph|llvm|"
    rb"mlir|hlo|ir|analysis|transform|tiling|vectorize|quant|quantization|prune|prefill|decode|train|training|eval|inference|"
    rb"prologue|epilogue|low|high|band|reduce|scan|sort|merge|split)[_.-]pass"
)
_PASS_OF_LOGIN = frozenset(
    b"user usr db database admin root smtp mail email imap pop pop3 ftp sftp ssh ssl mysql pg postgres postgresql mongo mongodb "
    b"redis rabbit rabbitmq ldap bind proxy http https basic auth login account key keystore truststore cert sudo wifi vnc rdp "
    b"vpn git github gitlab docker registry nexus artifactory api app client server service svc host remote oracle mssql sql sa "
    b"kafka sasl jdbc odbc web wp minio s3 elastic influx zip backup sender".split()
)
# tokens of language models, keys of tables and caches, and .NET's PublicKeyToken are no secrets
OTHER_NAME = re.compile(
    rb"(?i:(?:(?:^|[_.-])(?:eos|bos|pad|unk|mask|sep|cls|image|video|audio|vision|special|next|prev|max|min|num|per|new|stop|start|end|begin|"
    rb"input|output|prompt|total|n|current|last|first|boi|eoi|fim|draft)|public[_-]?key)[_-]?tokens?"
    rb"|(?:public|cache|hash|kernel|graph|compile|code|sort|dispatch|autotune|primary|foreign|partition|hot|host|dict|group)[_-]?key"
    rb"|(?:^|[_.-])(?:config|plan|block|tuning|tune|shape|op|layer|param|tensor|module|bucket|shard|lookup|index|fusion|jit|memo|rng|prng|"
    rb"problem|trace|dedup)[_-]key"
    rb"|(?:^|[_.-])%s)(?:_?[0-9]{1,2})?\Z" % _PASSES
)


def maybe_a_pass(name: bytes) -> bool:
    """Return whether a name may mean a pass over something: my_pass, but not db_pass, nor FTP_PASS in capitals."""
    found = _PASS.search(name)
    return found is not None and name.upper() != name and found[1].lower() not in _PASS_OF_LOGIN
