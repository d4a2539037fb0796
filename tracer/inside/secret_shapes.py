"""Patterns of tokens, keys and passwords, whatever their names: for recorded command lines and for captures of other tools.

The syntax is common to re and RE2. All are heuristics; `tracer.inside.secret_values` applies further conditions.
"""

# Kind and pattern; a group named v is the secret if it is not the whole match.
SHAPES = (
    ("GitHub token", r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,}"),
    ("GitLab token", r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[A-Za-z0-9_-]{20,}|GR1348941[A-Za-z0-9_-]{20,}"),
    ("Hugging Face token", r"hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z0-9]{30,}"),
    ("AWS access key", r"(?:AKIA|ASIA)[A-Z0-9]{16}"),
    ("AWS secret key", r"aws_secret_access_key[\"' ]{0,3}[=: ][\"' ]{0,3}(?P<v>[A-Za-z0-9/+]{40})"),
    ("package registry token", r"_authToken=(?P<v>[^\s\"']{8,})"),
    ("Google API key", r"AIza[A-Za-z0-9_-]{35}"),
    ("Google OAuth token", r"ya29\.[A-Za-z0-9_-]{30,}|GOCSPX-[A-Za-z0-9_-]{24,}|1//0[A-Za-z0-9_-]{40,}"),
    ("Slack token", r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}"),
    ("OpenAI, Anthropic or similar key",
     r"sk-[A-Za-z0-9_-]{20,}|gsk_[A-Za-z0-9]{40,}|(?:xai|pplx|csk)-[A-Za-z0-9]{40,}|fw_[A-Za-z0-9]{24}"),
    ("NVIDIA key", r"nvapi-[A-Za-z0-9_-]{40,}"),
    ("package registry token", r"npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{40,}|dckr_pat_[A-Za-z0-9_-]{20,}"),
    ("Replicate, Databricks or Vault token", r"r8_[A-Za-z0-9]{37}|dapi[0-9a-f]{32}|hv[sb]\.[A-Za-z0-9_-]{24,}"),
    ("payment or mail key",
     r"[sr]k_(?:live|test)_[A-Za-z0-9]{20,}|SG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}|key-[0-9a-f]{32}|[0-9a-f]{32}-us[0-9]{1,2}"
     r"|SK[0-9a-f]{32}|EZ[AT]K[A-Za-z0-9]{54}|FLWSECK(?:_TEST)?-[0-9a-f]{32}-X|(?:shippo|duffel)_(?:live|test)_[A-Za-z0-9_-]{40,}"),
    ("DigitalOcean, Fly, Heroku or Vercel token",
     r"do[por]_v1_[a-f0-9]{64}|fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/=_-]{60,}|HRKU-[A-Za-z0-9_-]{30,}|vc[aciprk]_[A-Za-z0-9]{48,}"),
    ("Atlassian or Bitbucket token", r"AT(?:ATT3|CTT3|BB)[A-Za-z0-9_=-]{24,}"),
    ("token of a monitoring service",
     r"NR(?:AK|JS|II)-[A-Za-z0-9_-]{20,}|glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|glc_[A-Za-z0-9+/=]{32,}"
     r"|sntry[su]_[A-Za-z0-9+/=_-]{40,}|dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("token of a build service", r"CCIPAT_[A-Za-z0-9]{20,}_[0-9a-f]{40}|bkua_[0-9a-f]{40}|rubygems_[0-9a-f]{48}|oy2[a-z0-9]{43}"
     r"|AKCp[A-Za-z0-9]{60,}|dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9._-]{40,}|pul-[0-9a-f]{40}|nfp_[A-Za-z0-9]{36,}"
     r"|sq[apu]_[0-9a-f]{40}|sgp_(?:[0-9a-f]{16}_)?[0-9a-f]{40}|CLOJARS_[a-z0-9]{60}|rdme_[a-z0-9]{70}|tk-us-[A-Za-z0-9_-]{48}"),
    ("token of a data or model service",
     r"pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_.=-]{32,}|sbp_[0-9a-f]{40}|lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"
     r"|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|tfp_[A-Za-z0-9_.=-]{40,}|pnu_[A-Za-z0-9]{36}|ico-[A-Za-z0-9]{32}"
     r"|pcsk_[A-Za-z0-9_]{40,}|tgp_v1_[A-Za-z0-9_-]{40,}|CFPAT-[A-Za-z0-9_-]{43}|rpa_[A-Za-z0-9]{40,}|sb_secret_[A-Za-z0-9_-]{24,}|sl\.[A-Za-z0-9_-]{130,}"),
    ("token of a work or design service",
     r"lin_api_[A-Za-z0-9]{40}|ntn_[A-Za-z0-9]{40,}|figd_[A-Za-z0-9_-]{40,}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}"
     r"|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|whsec_[A-Za-z0-9+/=]{32,}|fio-u-[A-Za-z0-9_-]{64}|p8e-[a-z0-9]{32}"
     r"|A{21}[A-Za-z0-9%]{60,}|EAACEdEose0cBA[A-Za-z0-9]{20,}|xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("key of a cloud", r"LTAI[A-Za-z0-9]{16,20}|AKID[A-Za-z0-9]{32}|tskey-[a-z]+-[A-Za-z0-9]{10,}-[A-Za-z0-9]{20,}"
     r"|AGE-SECRET-KEY-1[0-9A-Z]{58}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}|ops_eyJ[A-Za-z0-9+/=]{100,}"
     r"|[A-Za-z0-9_~.]{3}8Q~[A-Za-z0-9_~.-]{34}|v1\.0-[0-9a-f]{24}-[0-9a-f]{146}|AQVN[A-Za-z0-9_-]{35,38}"),
    ("token of a bot",
     r"(?:bot)?[0-9]{8,10}:AA[A-Za-z0-9_-]{33}|[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    ("token of crates.io or Modal", r"\b(?:cio[A-Za-z0-9]{32}|a[ks]-[A-Za-z0-9]{22})\b"),
    ("key of Fernet", r"Fernet\(b?\\?[\"'](?P<v>[A-Za-z0-9_-]{43}=)"),
    ("key of Weights & Biases", r"wandb_v1_[A-Za-z0-9_-]{40,}"),
    ("key of Weights & Biases", r"\bwandb\s{1,4}login\s[^\n\x00|;&]{0,80}?(?P<v>[0-9a-f]{40})\b"),
    ("key of Weights & Biases", r"wandb\.login\([^)\n\x00]{0,80}?[\"'](?P<v>[0-9a-f]{40})\\?[\"']"),
    ("webhook URL", r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<v>[A-Za-z0-9/_+-]{20,})"),
    ("webhook URL", r"hooks\.zapier\.com/hooks/catch/[0-9]{4,}/(?P<v>[A-Za-z0-9]{5,})"),
    ("webhook URL", r"[A-Za-z0-9-]{1,40}\.webhook\.office\.com/webhookb2/(?P<v>[A-Za-z0-9@/-]{80,})"),
    ("webhook URL", r"discord(?:app)?\.com/api/webhooks/[0-9]{15,}/(?P<v>[A-Za-z0-9_-]{50,})"),
    ("login of Kaggle or a container registry",
     r"\"username\"\s{0,3}:\s{0,3}\"[^\"\s]{1,64}\"\s{0,3},\s{0,3}\"key\"\s{0,3}:\s{0,3}\"(?P<v>[0-9a-f]{32})\""),
    ("login of Kaggle or a container registry", r"\"auth\"\s{0,3}:\s{0,3}\"(?P<v>[A-Za-z0-9+/]{16,}={0,2})\""),
    ("session cookie", r"\b(?:[Ss]et-)?[Cc]ookie: ?[A-Za-z0-9_.-]{1,64}=(?P<v>[A-Za-z0-9%_.-]{16,})"),
    ("JSON web token", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    ("key of Kubernetes", r"client-key-data\\?[\"']?\s{0,3}:\s{0,3}\\?[\"']?(?P<v>[A-Za-z0-9+/]{40,}={0,2})"),
    ("Azure account key", r"(?i:AccountKey|SharedAccessKey)=(?P<v>[A-Za-z0-9+/]{40,}={0,2})"),
    ("password in a URL", r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'\\<>?#]{0,64}:(?P<v>[^\s/\"'\\<>]{3,})@"),
    (
        "token in a URL",
        r"[?&](?i:(?:access_|auth_|id_)?token|api_?key|sig|signature|X-(?:Amz|Goog)-Signature|password)=(?P<v>[^&\s\"'\\<>#;]{8,})",
    ),
    ("password on a command line",
     r"\bcurl\s[^\n\x00]{0,200}?(?:-[a-zA-Z]{0,5}u|--user)[ =]?[\"']?[^\s:\"']{1,64}:(?P<v>[^\s\"'\\\x00]{3,})"),
    ("value of an environment variable",
     r"(?:putenv|setenv|setdefault|getenv|environ\.get|getattr)\((?:[A-Za-z_.]{1,40},)?\s{0,8}\\?[\"'][A-Za-z0-9_]{0,40}(?i:TOKEN|SECRET|PASSWORD|_KEY)\\?[\"'],\s{0,8}\\?[\"']"
     r"(?P<v>[^\\\"'\n\x00]{4,})"),
    ("password on a command line",
     r"\bmysql(?:dump|admin|import|show)?\s[^\n\x00|;&]{0,200}?-p[\"']?(?P<v>[^\s\x00\"'\\-][^\s\x00\"'\\]{2,})"),
    ("default of a secret option",
     r"--[A-Za-z0-9_-]{0,40}(?:token|secret|password|api-key)\\?[\"'],[^)\n\x00]{0,120}default=\\?[\"'](?P<v>[^\\\"'\n\x00]{4,})"),
    ("password of a call",
     r"\bset_(?i:password|passwd|passphrase|secret|token|api_key)\(\\?[\"'](?P<v>[^\\\"'\n\x00]{6,})\\?[\"']"),
    ("password of a login",
     r"(?:\bauth ?= ?|HTTP(?:Basic|Digest)Auth|\.login)\(\\?[\"'][^\\\"'\n\x00]{1,64}\\?[\"'], ?\\?[\"']"
     r"(?P<v>[^\\\"'\n\x00]{4,})"),
    ("password on a command line",
     r"\b(?:docker|podman|skopeo|helm|az|oras)\s{1,4}(?:registry\s{1,4})?login\s[^\n\x00|;&]{0,100}-p"
     r"[ =]?[\"']?(?P<v>[^\s\x00\"'\\-][^\s\x00\"'\\]{2,})"),
    ("token in a URL", r"https?://(?P<v>[A-Za-z0-9_]{20,})@"),
    ("authorization header", r"\bBearer (?P<v>[A-Za-z0-9._~+/-]{20,}={0,2})"),
    ("bearer token", r"\b(?i:bearer) (?P<v>[A-Za-z0-9._~+/-]{20,}={0,2})"),
    ("key of Django",
     r"(?i:SECRET_KEY)(?:\\?[\"'])?\s{0,3}[=:]\s{0,3}(?:\\?[\"'])?(?P<v>(?:django-insecure-)?[a-z0-9!@#$%^&*()_=+-]{50,})"),
    ("password in XML", r"<(?i:password)(?:\s[^<>]{1,80})?>(?P<v>[^<\s]{4,})</"),
    ("password on a command line",
     r"\b(?:ldap(?:search|add|modify|delete|whoami|passwd)\s(?:[^\n\x00|;&]{0,200}?\s)?-w|(?:un)?zip\s(?:[^\n\x00|;&]{0,200}?\s)?-P"
     r"|openssl\s{1,4}enc\s(?:[^\n\x00|;&]{0,200}?\s)?-k|redis-cli\s(?:[^\n\x00|;&]{0,200}?\s)?-a|sqlcmd\s(?:[^\n\x00|;&]{0,200}?\s)?-P)"
     r"\s{0,4}\\?[\"']?(?P<v>[^\s\x00\"'\\-][^\s\x00\"'\\]{3,})"),
    ("password on a command line", r"\bsshpass\s{1,4}-p[ =]?[\"']?(?P<v>[^\s\x00\"'\\]{3,})"),
    ("password on a command line", r"-pass(?:in|out)?(?:\\?[\"'])?[ ,=]{1,4}(?:\\?[\"'])?pass:(?P<v>[^\s\x00\"'\\]{3,})"),
    ("private key of PuTTY",
     r"Private-Lines: [0-9]{1,3}(?:\\{1,7}[nr]|[\r\n])+(?P<v>[A-Za-z0-9+/=]{8,}(?:(?:\\{1,7}[nr]|[\r\n])+[A-Za-z0-9+/=]{8,})*)"),
    ("password in another language",
     r"(?:密码|密碼|口令|パスワード|비밀번호|пароль|Пароль|[Mm]ot de passe|[Cc]ontraseña|[Ss]enha|[Pp]asswort"
     r"|[Kk]ennwort|[Ww]achtwoord)\\?[\"']?\s{0,3}(?:=|:|：)\s{0,3}\\?[\"']?(?P<v>[^\s\x00\"'\\,;<>(){}]{6,})"),
    ("password of Oracle", r"jdbc:oracle:[a-z0-9]{2,5}:[^\s/:@\"'\\]{1,40}/\\?\"?(?P<v>[^\s/\"'\\<>@]{3,})\\?\"?@"),
    ("password of PostgreSQL", r":(?:54[0-9]{2}|6432):[^\s:\"'\\]{1,40}:[^\s:\"'\\]{1,40}:(?P<v>[^\s:\"'\\]{6,})"),
    ("password of ODBC", r"(?i:PWD|PASSWORD)=\{(?P<v>[^{}\s\"'\\\x00]{6,})\}"),
    ("password of SQL",
     r"\b(?:IDENTIFIED|(?i:user)\s{1,4}\S{1,40}\s{1,4}identified)\s{1,4}(?:(?i:WITH)\s{1,4}\S{1,40}\s{1,4})?(?i:BY|AS)\s{1,4}"
     r"\\?'(?P<v>[^\s'\\\x00]{4,})\\?'"),
    ("password of SQL",
     r"\b(?i:WITH|ENCRYPTED|(?:USER|ROLE)\s{1,4}\S{1,40})\s{1,4}(?i:PASSWORD)\s{1,4}\\?'(?P<v>[^\s'\\\x00]{4,})\\?'"),
    ("token of kubeadm", r"--token(?:\\?[\"'])?[ ,=]{1,4}(?:\\?[\"'])?(?P<v>[a-z0-9]{6}\.[a-z0-9]{16})\b"),
    ("key of one-time passwords", r"otpauth://[^\s\"'\\<>]{1,100}?[?&]secret=(?P<v>[A-Za-z2-7]{16,})"),
    ("hash of a password", r"\$(?:[156]|apr1)\$(?P<v>(?:rounds=[0-9]{4,9}\$)?[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{22,})"),
    ("hash of a password", r"\$2[abxy]?\$(?P<v>[0-9]{2}\$[A-Za-z0-9./]{53})"),
    ("hash of a password", r"\$g?y\$(?P<v>[A-Za-z0-9./]{1,8}\$[A-Za-z0-9./]{1,40}\$[A-Za-z0-9./]{43})"),
    ("hash of a password", r"\$argon2[id]{1,2}\$v=(?P<v>[mtp=0-9,$]{8,40}\$[A-Za-z0-9+/]{8,}\$[A-Za-z0-9+/]{20,})"),
    ("password of netrc", r"\bmachine\s{1,8}\S{1,128}\s{1,8}login\s{1,8}\S{1,64}\s{1,8}password\s{1,8}(?P<v>[^\s\"'\\]{3,})"),
    (
        "authorization header",
        r"(?i:authorization)(?:\\?[\"']\]?)?\s{0,3}[:=,]\s{0,3}(?:\\?[\"'])?(?i:bearer|basic|token)\s"
        r"(?P<v>[A-Za-z0-9+/=._~-]{8,})",
    ),
)  # fmt: skip
