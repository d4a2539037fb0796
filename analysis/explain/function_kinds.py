"""What a function of Python does, as far as its name in a profile tells (formats.cprofile): loads data, waits, or sleeps.

What to do about it is the same as for lines of a program (line_profiles.kinds).
"""

from __future__ import annotations

import re
from dataclasses import replace

from kernelscope.analysis.explain.line_profiles import kinds
from kernelscope.analysis.explain.line_profiles.kinds import Kind

_LINES = re.compile(r"\bline(?=s?\b)")
_WAIT_NS = 10_000  # a call on a tensor of the host takes less


def _of(name: str, pattern: str = "", least_ns: int = 0) -> Kind:
    """Return a kind of lines in the words of functions."""
    one = next(one for one in kinds.KINDS if one.name == name)
    what, limit = (_LINES.sub("function", text) for text in (one.what, one.limit))
    return replace(one, pattern=pattern, what=what, limit=limit, least=1, least_ns=least_ns)


# Methods that make one sample of a data set; not those of tables, tensors and lists of layers
SAMPLE = r": __getitem__(?: at line \d+)?$"
NO_SAMPLE = r"(?:^|/)(?:pandas|numpy|nn|core)/|(?:^|/)(?:frame|series|indexing|base|range|container|_?tensor)\.py: "
LOADER = _of("data loader", r"(?:^|/)(?:dataloader|fetch|collate)\.py: |: (?:default_)?collate(?:_fn)?$")
OTHERS = Kind(
    "other processes",
    r"^poll of select\.|^select\.\w+$|^(?:recv|recv_into|recvmsg|accept) of _socket\.|^acquire of _thread\.|^posix\.waitpid$",
    "waits for other processes or threads",
    "see what these do meanwhile: cProfile shows one thread of one process alone (py-spy --subprocesses sees all). Workers of a "
    "data loader that deliver too slowly: more of them, less work in each __getitem__, and persistent_workers=True against "
    "their start in each epoch",
    "the whole wait, if what is waited for takes no time",
)
DEVICE = _of(
    "waiting for the device",
    r"^(?:item|cpu|tolist|numpy|synchronize) of torch\._C\.|^torch\._C\._cuda_synchronize$|(?:^|[ .])synchronize$",
    _WAIT_NS,
)
WAITS = (_of("sleep", r"^time\.sleep$"), DEVICE, OTHERS)  # by their own time
FRAMEWORK = r"^torch\.|\bof torch\._C\b|^(?:conv[123]d|conv_transpose[123]d|matmul|linear)$|^_?pywrap_t\w+\.TF\w*Execute"


def wait_of(name: str, count: float, own_ns: float) -> Kind | None:
    """Return for what a function waits that is called so often and takes so long itself; None if its name does not tell."""
    return next((one for one in WAITS if re.search(one.pattern, name) and own_ns >= one.least_ns * count), None)
