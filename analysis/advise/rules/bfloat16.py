"""Products in bfloat16 on devices whose tensor cores do not have it: the library computes them in float32, slowly."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.device import datasheets
from kernelscope.analysis.kernels.lookup import look

# In cuBLAS, kernels taken from MAGMA convert each element and multiply in float32: 6.4 to 7.5 TFLOP/s were reported on a device
# of Turing, and 47 to 58 in float16. On devices with tensor cores for bfloat16 they compute few products, of odd sizes.
_EMULATED = r"(?i)magma_\w*gemmEx\w*<[^>]*(?:bfloat16|bf16)"
_AMPERE = r"(?:^|[_/ ])(?:sm(?:8|9|10|12)\d|ampere|hopper)_|\b(?:cutlass_[89]\d|nvjet)_"  # kernels of devices that have bfloat16
# Of the time, what remains on tensor cores, as kernels reach only a part of their peak. GPT-2 and a decoder in float32 on an
# H200 and an H100 keep 20% (TF32) and 23% (bfloat16) of their products' time, a decoder from TF32 to bfloat16 30% (docs/gpu)
REACHED = 0.25
_REMEDIES = {
    "pytorch": "torch.autocast(device_type='cuda', dtype=torch.float16) around forward and loss, with torch.amp.GradScaler",
    "jax": "compute in float16 with a scaled loss, and keep parameters in float32",
    "": "compute in float16 with a scaled loss, and accumulate in float32",
}


def emulated(subject: Subject) -> pd.DataFrame:
    """Return the rows of products in bfloat16 that a device without bfloat16 computes in float32; none on other devices."""
    rows = subject.kernels()
    mine = rows[rows["name"].astype("string").str.contains(_EMULATED).fillna(False).to_numpy(bool)]
    return mine.iloc[:0] if mine.empty or _has_bfloat16(subject, rows) else mine


def _has_bfloat16(subject: Subject, rows: pd.DataFrame) -> bool:
    """Return whether the device has bfloat16 on tensor cores, by its data sheet, or else by the names of kernels."""
    sheet = datasheets.lookup(subject.hardware)
    if sheet:
        return bool(sheet.tensor.get("bf16"))
    names = rows["name"].dropna().astype("string")
    by_name = any(found.dtype == "bf16" and found.tensor_core for found in map(look, names))
    return by_name or bool(names.str.contains(_AMPERE).any())


def without_tensor_cores(subject: Subject) -> list[Advice]:
    """Products are computed in bfloat16, and the device has no tensor cores for it."""
    rows = emulated(subject)
    sheet = datasheets.lookup(subject.hardware)
    if rows.empty or (sheet and not sheet.tensor):
        return []
    ns = words.time_of(rows)
    return [
        Advice(
            "tensor cores",
            "products in bfloat16 run without tensor cores",
            ns * (1 - REACHED),
            "on tensor cores at least a quarter of the time is assumed to remain"
            + (
                ""
                if sheet
                else "; devices of Volta and Turing (V100, T4, RTX 20) have some for float16, GTX and older ones do not"
            ),
            [
                f"Such products: {words.share(subject, ns)} {subject.per}, {words.kernels(rows)}. They compute in float32; "
                "libraries take them where tensor cores have no bfloat16, as before Ampere."
            ],
            words.text(subject, _REMEDIES),
            "https://docs.pytorch.org/docs/stable/amp.html" if subject.framework == "pytorch" else "",
            words.ids(rows),
            modelled=sheet is not None,
        )
    ]


RULES: tuple[Rule, ...] = (without_tensor_cores,)
