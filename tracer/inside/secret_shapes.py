"""How tokens, keys and passwords look, whatever they are called: for command lines that are recorded, and for captures of others.

The syntax is common to re and RE2. Heuristics, all of them: see `analysis.secrets.patterns` for what else is looked at there.
"""

# What it is and how it looks; a group named v is the secret where it is not all of it.
SHAPES = (
    ("GitHub token", r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,}"),
    ("GitLab token", r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[A-Za-z0-9_-]{20,}"),
    ("Hugging Face token", r"hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z0-9]{30,}"),
    ("AWS access key", r"(?:AKIA|ASIA)[A-Z2-7]{16}"),
    ("Google API key", r"AIza[A-Za-z0-9_-]{35}"),
    ("Google OAuth token", r"ya29\.[A-Za-z0-9_-]{30,}|GOCSPX-[A-Za-z0-9_-]{24,}"),
    ("Slack token", r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}"),
    ("OpenAI, Anthropic or similar key", r"sk-[A-Za-z0-9_-]{20,}|gsk_[A-Za-z0-9]{40,}|(?:xai|pplx)-[A-Za-z0-9]{40,}"),
    ("NVIDIA key", r"nvapi-[A-Za-z0-9_-]{40,}"),
    ("package registry token", r"npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{40,}|dckr_pat_[A-Za-z0-9_-]{20,}"),
    ("Replicate, Databricks or Vault token", r"r8_[A-Za-z0-9]{37}|dapi[0-9a-f]{32}|hv[sb]\.[A-Za-z0-9_-]{24,}"),
    ("payment or mail key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{20,}|SG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"),
    ("JSON web token", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    ("Azure account key", r"(?i:AccountKey|SharedAccessKey)=(?P<v>[A-Za-z0-9+/]{40,}={0,2})"),
    ("password in a URL", r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'\\<>?#]{0,64}:(?P<v>[^\s/@\"'\\<>]{3,})@"),
    (
        "token in a URL",
        r"[?&](?i:(?:access_|auth_|id_)?token|api_?key|sig|signature|X-Amz-Signature|password)=(?P<v>[^&\s\"'\\<>#;]{8,})",
    ),
    (
        "authorization header",
        r"(?i:authorization)(?:\\?[\"'])?\s{0,3}[:=]\s{0,3}(?:\\?[\"'])?(?i:bearer|basic|token)\s"
        r"(?P<v>[A-Za-z0-9+/=._~-]{8,})",
    ),
)  # fmt: skip
