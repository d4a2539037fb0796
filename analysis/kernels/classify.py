"""The kind of an operator from its type's name, for ATen, TensorFlow, MXNet and CNTK, forward and backward.

Rules are tried in order and the first match counts, so special names come before general ones. They see names as words:
`simplify` turns _MklNativeFusedConv2D into "conv2d", aten::tanh_backward and TanhGrad into "tanh backward", Times483 into
"times".
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

import pandas as pd

UNKNOWN = "unknown"


class OperatorRule(NamedTuple):
    """Operators whose simplified name matches `pattern` are of `kind`. `example` is one as its framework writes it."""

    pattern: str
    kind: str
    example: str


_RULES = (
    # a whole update in one operator, or operators that little else than an optimizer uses
    (r"^optimizer step\b", "optimizer", "Optimizer.step#SGD.step"),
    (r"\bapply\b(?! rotary)", "optimizer", "ResourceApplyKerasMomentum"),
    (r"(sgd|nag|adam\w?|ada\w+|rmsprop\w*|rmspropalex|ft[rm]l|lamb|lars|signum)\b.*\bupdate\b", "optimizer", "sgd_mom_update"),
    (r"^(sgd|adam\w?|adagrad)$", "optimizer", "aten::_fused_adam_"),
    (r"^foreach (norm|max)\b", "reduction", "aten::_foreach_norm"),
    (r"^foreach\b", "optimizer", "aten::_foreach_add_"),
    (r"^assign (add|sub)\b", "optimizer", "AssignAddVariableOp"),
    # products inside attention carry both names
    (r"attention|\bselfatt\b|\bencdec\b|\bsdpa\b", "attention", "aten::_scaled_dot_product_flash_attention"),
    # weights are packed before the product or the convolution runs
    (r"\b(q?linear|q?conv\w*)\b.*\b(pre|un)pack\b|\breorder\b.*\bweight\b", "layout", "quantized::conv2d_prepack"),
    # one operator for both gradients of a convolution counts as the weights', which it computes even for a first layer
    (r"conv.*\b(backprop|backward|grad) input\b", "convolution data gradient", "Conv2DBackpropInput"),
    (r"conv.*\b(backprop filter|(backward|grad) weights?)\b", "convolution weight gradient", "Conv2DBackpropFilter"),
    (r"conv.*\bbackward\b", "convolution weight gradient", "aten::convolution_backward"),
    (r"\b(de)?conv(olution)?\b|\b(depthwise )?q?conv(olution)?[123]d\b|^conv(?!ert)", "convolution forward", "_FusedConv2D"),
    (r"\bparam concat\b", "copy", "_rnn_param_concat"),
    (r"rnn|lstm|\bgru\b", "recurrent", "aten::mkldnn_rnn_layer_backward"),
    (r"soft ?(max|min)|cross entropy|log ?sum ?exp", "softmax", "SparseSoftmaxCrossEntropyWithLogits"),
    (r"normaliz|\b(batch|layer|group|instance|rms|weight) ?norm\b|\blrn\b", "normalisation", "FusedBatchNormGradV3"),
    (r"\bpooled emb", "embedding", "fbgemm::permute_pooled_embs"),
    (r"pool(?!.*dataset)", "pooling", "MaxPoolGrad"),
    # drawing the mask takes dropout's time; its gradient only multiplies
    (r"\bdropout backward\b", "elementwise", "_backward_Dropout"),
    (r"\bdropout\b|random|bernoulli|multinomial|^sample\b|\brand(n|int|perm)?\b", "random", "aten::bernoulli_"),
    (
        r"^(uniform(?! (re|de)?quantize)|normal|exponential|truncated normal)\b|^rng\b|^threefry|^philox",
        "random",
        "aten::normal_",
    ),
    (r"mat ?mul|fully connected|inner product|gemm", "gemm", "FullyConnected"),
    (r"^(mkldnn )?linear( backward| pointwise( binary)?)?$|^qlinear pointwise\b", "gemm", "mkldnn::_linear_pointwise"),
    # of quantised weights, with what follows the product in the name
    (r"^q?linear( (dynamic|fp(16)?|(leaky )?relu|tanh|clamp|run|unpacked|weight))+$", "gemm", "quantized::linear_dynamic"),
    (r"^linear with input\b", "gemm", "quantized::linear_with_input_q_dq_qweight_dequant_output_fp32"),
    (r"\b(b?addb?mm|b?mm|addmv|mv|addr|ger|outer|v?dot|einsum|tensordot|syrk|trmm)\b", "gemm", "aten::addmm"),
    (r"^(transpose )?times$", "gemm", "TransposeTimes"),
    (
        r"\ball ?(reduce|gather|to ?all)\b|\breduce scatter\b|nccl|gloo|^collective\b|^(push|pull)\b|^cross replica\b"
        r"|^(unreduced )?p(sum|max|min|permute|broadcast|send|recv)\b",
        "communication",
        "c10d::allreduce_",
    ),
    (r"^xla (local )?(launch|run)\b", "fused", "XlaLaunch"),
    (r"^bias add backward\b", "reduction", "BiasAddGrad"),
    (r"^(nll loss|pick|classification error|squared error|mse loss|l2loss|hardmax)\b", "reduction", "aten::nll_loss_forward"),
    (r"^reduce precision\b|^(bitcast )?convert\b", "cast", "convert_element_type"),
    (
        r"\breduce\b|^reduce|\barg ?(max|min|sort)\b|^(approx )?top ?k|^in top ?k|^(dense )?bincount|^m?sort\b|^cum(max|min)",
        "reduction",
        "ReduceElements",
    ),
    (r"^(nan)?(sum|mean|median|prod|max|min|a(max|min|minmax)|norm|var|std|cumsum|cumprod|all|any)\b", "reduction", "Sum"),
    (
        r"^linalg (vector |matrix )?norm\b|^(nan)?quantile\b|^(count nonzero|kthvalue|mode|histc|logcumsumexp)\b|^histogram"
        r"|^(unique|search ?sorted|bucketize|isin)\b|\b[cp]?dist\b|^(frobenius|euclidean) norm\b",
        "reduction",
        "aten::linalg_norm",
    ),
    (r"\b(ctc|multi(label)? margin|margin ranking) loss\b", "reduction", "aten::_ctc_loss"),
    (r"\brotary\b|\brope\b", "elementwise", "_C::rotary_embedding"),
    (r"\bsegment (sum|mean|max|min|prod)\b", "embedding", "UnsortedSegmentSum"),
    (r"embedding(?!.* loss)|^(tensor |ragged )?(gather|scatter)\b", "embedding", "ResourceGather"),
    (r"^(take|index select|(unsafe )?(masked )?index|lookup table|one ?hot|masked (select|scatter))\b", "embedding", "take"),
    (r"\b(leaky |p|r|c)?relu\b|\b(hard |hard)?(sigmoid|tanh)\b|\b[sc]?elu\b|gelu|silu|swish|mish", "activation", "TanhGrad"),
    (r"^relu\d?grad$|^(hard|soft) ?shrink|^glu\b|^logistic$", "activation", "aten::glu"),
    (r"^activation\b|softplus|softsign|rectified linear|^threshold\b", "activation", "_backward_Activation"),
    (r"\bcast\b|quantize|^to copy$", "cast", "Cast"),
    # views in PyTorch, see _ATEN_VIEWS; the other frameworks move the data
    (r"^(transpose|swap ?ax[ei]s|permute|conjugate transpose)\b", "layout", "TransposeDimensions"),
    (r"\b(depth|space) ?to ?(depth|space)\b|(un)?shuffle|^im2col|^col2im", "layout", "SpaceToDepth"),
    (r"^(mkl )?to (tf|mkldnn|dense)\b|\breorder\b|input conversion\b", "layout", "_MklToTf"),
    (r"\bcopy|^clone|^contiguous|^(cross )?device copy|^(item|local scalar dense)$", "copy", "aten::copy_"),
    (r"^(slice|strided slice|splice|concat\w*|cat|(un)?stack|unbind|split|row stack|(un)?pack|pad)\b", "copy", "ConcatV2"),
    (
        r"^(tile|repeat|reverse|flip|roll|crop|select backward|narrow|tensor (array|list)|broadcast (to|in dim))\b",
        "copy",
        "TensorListStack",
    ),
    (
        r"^(past value|future value|snapshot|send|recv|nonzero|argwhere|unfold backward|device put|to cpu|pin memory)\b",
        "copy",
        "PastValue",
    ),
    (
        r"^(mirror|constant|reflection|replication) pad|^(space to batch|batch to space|dynamic (update )?slice)\b|^rev$"
        r"|^(tril|triu|diag|diagflat)\b",
        "copy",
        "aten::triu",
    ),
    (
        r"^(matrix|diagonal|select|slice|as strided) (diag|band|set|part|backward|scatter)\b|^chunk cat\b|^(h|v|d)stack\b",
        "copy",
        "aten::diagonal_backward",
    ),
    (r"^(reshape|flatten|squeeze|unsqueeze|expand dims|identity)\b", "copy", "_backward_reshape"),
    (r"^read variable\b|^(variable )?shape\b", "copy", "ReadVariableOp"),
    (
        r"^(new )?(fill|zeros?|ones|full|zeros like|set value|assign|arange|range|lin ?space|log ?space|eye|iota)\b",
        "copy",
        "AssignVariableOp",
    ),
    # arithmetic of equal shapes, broadcast, or with a number
    (r"^(element )?(add|sub|mul|div|minus|plus|times|divide|multiply|subtract|bias add|rsub)\b", "elementwise", "ElementTimes"),
    (r"^r?(maximum|minimum|mod|floor mod|floor div|real div|div no nan|pow|power|hypot)\b", "elementwise", "_rpower_scalar"),
    (r"^((not )?equal|greater|lesser|less|logical|bitwise|where|select|eq|ne|lt|le|gt|ge)\b", "elementwise", "GreaterEqual"),
    (
        r"^(neg\w*|abs|r?sqrt|r?cbrt|square|expm?|log|log1p|sign|sgn|reciprocal|inv|erf(c|inv| inv)?|nan to num)\b",
        "elementwise",
        "aten::sqrt",
    ),
    (
        r"^(lgamma|digamma|polygamma|i?gamma\w*|bessel|special|sinc|zeta|ndtri?|logit|xlog1?py|xdivy|logaddexp)\b",
        "elementwise",
        "aten::special_erfcx",
    ),
    (
        r"^is (finite|inf|nan)\b|^is(close|finite|inf|nan|neginf|posinf)\b|^(and|or|xor|not|rem)$|^(left |right )?shift\b",
        "elementwise",
        "aten::isnan",
    ),
    (
        r"^(remainder|fmod|fmax|fmin|truncate? (div|mod)|floordiv|float power|integer pow|heaviside|ldexp|frac|gcd|lcm)\b",
        "elementwise",
        "aten::remainder",
    ),
    (
        r"^(complex|conj|real|imag|angle|polar|view as)\b.*(physical|abs)|^(complex|imag|angle|polar)\b|^amp (foreach|update)\b",
        "elementwise",
        "aten::angle",
    ),
    (r"\b(r|i|c|h)?fft(2|n|[123]d)?\b|^r?fft\b|^i?stft\b", "elementwise", "aten::_fft_r2c"),
    (r"^(arc\w+|a?sinh?|a?cosh?|a?tanh?|ceil|floor|round|rint|trunc|clip|clamp)\b", "elementwise", "aten::clamp_min"),
    (
        r"^(addcmul|addcdiv|lerp|masked (fill|scale)|accumulate|smooth l1|huber|soft margin|squared difference)\b",
        "elementwise",
        "aten::addcdiv_",
    ),
    (
        r"^(up ?sampl\w+|resize (bilinear|nearest|bicubic|area)|interpolate|bilinear|(cudnn )?grid sampler)\b",
        "elementwise",
        "aten::upsample_nearest2d",
    ),
)
RULES = tuple(OperatorRule(*rule) for rule in _RULES)

# ATen operators of these names return another view of the same memory; other frameworks move data
_VIEW_NAMES = (
    "broadcast_to", "flatten", "narrow", "permute", "reshape", "reshape_as", "select", "slice", "split", "split_with_sizes",
    "squeeze", "squeeze_", "swapaxes", "transpose", "transpose_", "unbind", "unsqueeze", "unsqueeze_", "_reshape_alias",
)  # fmt: skip
_ATEN_VIEWS = frozenset(f"aten::{name}" for name in _VIEW_NAMES)

_NAMESPACE = re.compile(r"^(?:autograd::engine::evaluate_function: )?(?:\w+::)*")
_WORD_STARTS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NUMBER = re.compile(r"(?<=[A-Za-z_])\d+$")  # number of an autograd node, or of a node that CNTK named itself
_NOISE = re.compile(r"\b(mkl|native|fused|resource|sparse|np|npi|npx|contrib|broadcast(?! to| in dim)|elemwise|eager|v\d*)\b")


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the rules' patterns and kinds, compiled on first use: few captures of GPUs name operators."""
    return tuple((re.compile(rule.pattern), rule.kind) for rule in RULES)


def operator_kind(name: str, phase: str | None = None) -> str:
    """Return the kind (one of analysis.trace.KINDS) of an operator type; "unknown" for views and for names without a rule.

    phase: where it ran, if known. Frameworks that use one operator name for both directions (CNTK) need it to tell a
    convolution from its gradients. Arithmetic in the optimizer's phase is of the kind optimizer, as it is where one operator
    does the update.
    """
    kind = _kind(name)
    if phase == "backward" and kind == "convolution forward":
        return "convolution weight gradient"
    if phase == "optimizer" and kind in ("elementwise", "reduction"):
        return "optimizer"
    return kind


def kinds(names: pd.Series, phases: pd.Series | None = None) -> pd.Series:
    """Return the kinds of many operators, aligned with `names`; each distinct (name, phase) is looked up once."""
    pairs = pd.DataFrame({"name": names.astype("object"), "phase": None if phases is None else phases.astype("object")})
    pairs = pairs.where(pairs.notna(), None)
    codes, distinct = pd.factorize(pd.MultiIndex.from_frame(pairs))
    result = [UNKNOWN if name is None else operator_kind(name, phase) for name, phase in map(_given, distinct)]
    return pd.Series(result, dtype="string").take(codes).set_axis(names.index)


def simplify(name: str) -> str:
    """Return the name as the rules see it: lower-case words without namespace, number and variant; "backward" comes last."""
    bare = _NUMBER.sub("", _NAMESPACE.sub("", name.strip(), count=1)).replace("ReLU", "Relu")
    text = re.sub(r"[^a-z0-9]+", " ", _WORD_STARTS.sub(" ", bare).lower())
    words = _NOISE.sub(" ", text).split()
    if words and words[-1] == "grad":
        words[-1] = "backward"
    if words and words[0] == "backward":
        words = [*words[1:], "backward"]
    return " ".join(words)


def _given(pair: tuple[object, object]) -> tuple[str | None, str | None]:
    name, phase = (None if pd.isna(value) else str(value) for value in pair)  # type: ignore[call-overload]
    return name, phase


@lru_cache(maxsize=65536)
def _kind(name: str) -> str:
    if name in _ATEN_VIEWS:
        return UNKNOWN
    if name.startswith("c10d::"):  # PyTorch's collectives; reduce_ and scatter_ mean something else elsewhere
        return "communication"
    if name.startswith("[") and name.endswith("]"):  # several operators that MXNet executed as one
        parts = {_kind(part.strip()) for part in name[1:-1].split(",")}
        return parts.pop() if len(parts) == 1 else UNKNOWN
    simple = simplify(name)
    return next((kind for pattern, kind in _compiled() if pattern.search(simple)), UNKNOWN)
