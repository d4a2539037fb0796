"""Primitives of oneDNN that a program runs after a product, although the product could do their work."""

from __future__ import annotations

import numpy as np

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.trace import MAIN

_ELEMENTWISE = r"^(?:eltwise|binary)\b"
_LINK = "https://uxlfoundation.github.io/oneDNN/dev_guide_attributes_post_ops.html"


def apart(subject: Subject) -> list[Advice]:
    """A program of no framework computes activations by primitives of their own, after products in oneDNN.

    Only inference: a gradient may need what the activation reads.
    """
    rows = subject.kernels()
    rows = rows[(rows["library"] == "onednn").fillna(False).to_numpy(bool)]
    small = rows[rows["name"].astype("string").str.contains(_ELEMENTWISE).fillna(False).to_numpy(bool)]
    products = float(rows.loc[rows["kind"].isin(list(MAIN)).to_numpy(bool), "count"].sum())
    if subject.framework or small.empty or (subject.rows["phase"] == "backward").any():
        return []
    ns, number = words.time_of(small), float(small["count"].sum())
    return [
        Advice(
            "fusion",
            "activations run apart from the products before them, through memory",
            ns * float(np.minimum(products / number, 1.0)),
            "all of it, if each follows a product: there it works on results that are still in registers",
            [f"Such primitives take {words.share(subject, ns)} {subject.per}: {words.kernels(small)}."],
            "append them to the product's attributes (dnnl::post_ops: append_eltwise, append_binary); frameworks do so when they "
            "compile or freeze a model",
            _LINK,
            words.ids(small),
        )
    ]


RULES: tuple[Rule, ...] = (apart,)
