"""Short names of kernels: without return type, namespaces of implementations, template arguments and parameters.

What a general kernel computes stands in its template arguments: PyTorch's elementwise_kernel (MulFunctor).
"""

from __future__ import annotations

import re

_LONGEST = 60
_SPLIT = re.compile(r"split_?k", re.IGNORECASE)
_GENERAL = re.compile(r"elementwise_kernel|reduce_kernel|multi_tensor_apply_kernel|foreach|cutlass::Kernel\d?$")
_FUNCTOR = re.compile(
    r"\b(\w*(?:Functor\w*|_kernel_cuda|_cuda_kernel|_kernel_impl|KernelImpl|copy_device_to_device|Ops|cutlass_\w{6,60}))\b"
)
_WRAPPERS = {"BinaryFunctor", "UnaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "func_wrapper_t", "ReduceOp"}
_TENSILE = re.compile(r"(?:Custom_)?Cijk_\w+?_MT\d+x\d+x\d+")
# what cuDNN's generator makes: the direction and the instruction stand in template arguments
_XMMA = re.compile(
    r"xmma_cudnn::\S*?implicit_gemm::(?P<way>(?:strided_)?[dw]?f?(?:prop|grad)\w*?)::.*?_(?P<type>\w+?)_traits", re.DOTALL
)
_RETURN = re.compile(r"^(?:void|std::enable_if<.{0,300}?>::type) (?=\S)")
_TEMPLATE = re.compile(r"<[^<>]*>")


def short(name: object) -> str:
    """Return a kernel's short name: without its return type, template arguments and parameters.

    Of a general kernel, such as PyTorch's elementwise ones, with what it computes: elementwise_kernel (MulFunctor).
    """
    plain = _plain(name)
    result = [one for one in _FUNCTOR.findall(str(name)[:2000]) if one not in _WRAPPERS and one != plain]
    return f"{plain} ({result[-1]})" if result and _GENERAL.search(plain) else plain


def _plain(name: object) -> str:
    if generated := _XMMA.search(str(name)[:2000]):
        return f"xmma {generated['way'].replace('_indexed', '')} ({generated['type']})"
    if tensile := _TENSILE.match(str(name)):
        return tensile[0]
    plain = _RETURN.sub("", str(name).replace("(anonymous namespace)::", "").replace("<unnamed>::", ""))
    text = plain.split("(", 1)[0] or plain
    for _ in range(6):
        shorter = _TEMPLATE.sub("", text)
        if shorter == text:
            break
        text = shorter
    text = text.split("<", 1)[0].removeprefix("at::native::").strip() or str(name)[:_LONGEST]
    if len(text) <= _LONGEST:
        return text
    return text[:_LONGEST] + ("… split-k" if _SPLIT.search(text[_LONGEST:]) else "…")  # which others of a size are not
