"""What is recorded: programs as users write them, the changes that people make to them, and what each change is to be called.

The programs and the changes were written without a look at what finds them. `causes` are the names of which one is to come first.
"""

from __future__ import annotations

from dataclasses import dataclass

import plants

PROGRAMS = {
    **dict.fromkeys(("torch_images", "torch_wordlm", "torch_encoder", "torch_vae", "torch_gan"), "pytorch"),
    **dict.fromkeys(("keras_fit", "tf_loop"), "tensorflow"),
    **dict.fromkeys(("jax_cnn", "flax_encoder"), "jax"),
    "mxnet_gluon": "mxnet",
    **dict.fromkeys(("pair_cnn_gru_torch", "pair_encoder_torch"), "pytorch"),
    **dict.fromkeys(("pair_cnn_gru_keras", "pair_encoder_keras"), "tensorflow"),
}
# Programs as one who knows the framework writes them; there is nothing to advise
TUNED = {
    **dict.fromkeys(("tuned_mlp_torch", "tuned_convolutions_torch", "tuned_encoder_torch"), "pytorch"),
    "tuned_mlp_jax": "jax",
    "tuned_mlp_tf": "tensorflow",
    "tuned_mlp_mxnet": "mxnet",
}
PROGRAMS |= TUNED
# As many steps as the passes need, and some more for those that are warming up
ARGUMENTS = {
    **dict.fromkeys(("torch_images", "torch_wordlm", "torch_encoder", "jax_cnn", "pair_encoder_torch"), ("--steps", "180")),
    **dict.fromkeys(("torch_vae", "flax_encoder", *TUNED), ("180",)),
    "torch_gan": ("--niter", "180"),
    "keras_fit": ("--epochs", "2"),
    "mxnet_gluon": ("--num-steps", "180"),
    "pair_cnn_gru_torch": ("--epochs", "3"),
}
PACKAGES = {"jax": ("flax==0.12.8", "optax==0.2.8")}  # beside those of `kernelscope env`
REPEATED = ("torch_images", "torch_wordlm", "torch_encoder", "torch_gan", "keras_fit", "tf_loop", "jax_cnn", "mxnet_gluon")
PAIRS = (("pair_cnn_gru_torch", "pair_cnn_gru_keras"), ("pair_encoder_torch", "pair_encoder_keras"))


@dataclass(frozen=True)
class Change:
    """A change of a program: texts and what stands in their place. causes: empty where it changes no times."""

    name: str
    program: str
    what: str
    replace: tuple[tuple[str, str], ...]
    causes: tuple[str, ...] = ()


_LINES, _INPUT, _CHAIN = "changed lines", "input pipeline", "unfused elementwise chain"
_COMPILED, _EAGER, _MORE, _LAYERS = "compilation in each step", "eager against graph", "more work", "other layers"
# Work that the script's own lines do beside the model is the changed lines', by whatever kernels
CAUSES = {
    "images_loop_augment": (_LINES, _INPUT),
    "images_elastic_dataset": (_INPUT,),
    "images_own_batchnorm": (_CHAIN,),
    "images_layout_mix": ("layout conversions", "extra copies"),
    "images_double_backward_pass": (_LINES, _MORE),
    "wordlm_row_clipping": (_LINES,),
    "wordlm_norm_report": (_LINES, "synchronisation"),
    "wordlm_anomaly": ("execution settings",),
    "wordlm_softmax_by_hand": (_CHAIN, _LINES, "another function"),
    "encoder_naive_attention": ("attention in parts",),
    "encoder_gelu_by_hand": (_CHAIN,),
    "encoder_checkpointing": ("recomputation",),
    "encoder_loop_optimizer": ("optimizer implementation", _LINES),
    "encoder_eval_every_step": (_LINES, _MORE),
    "vae_double_layer": ("precision",),
    "vae_one_thread": ("thread count",),
    "vae_loss_per_sample": (_LINES, _CHAIN),
    "vae_small_batches": ("smaller batches",),
    "vae_batch_last": ("layout conversions", "extra copies"),
    "gan_no_onednn": ("library switched off",),
    "gan_checkpoint_every_step": (_LINES,),
    "gan_retain_graph": (_LINES, _MORE),
    "keras_eager": (_EAGER,),
    "keras_py_function": (_INPUT,),
    "keras_validate_each_batch": (_LINES,),
    "keras_more_layers": (_LAYERS, _MORE),
    "tf_numpy_function_map": (_INPUT,),
    "tf_monte_carlo_forward": (_MORE, _LINES),
    "tf_retrace": (_COMPILED,),
    "tf_second_gru": (_LAYERS, _MORE),
    "jax_no_jit": (_EAGER,),
    "jax_new_lambda": (_COMPILED,),
    "jax_host_statistics": (_LINES, "synchronisation"),
    "jax_slow_generator": (_INPUT, _LINES),
    "flax_static_argument": (_COMPILED,),
    "flax_eval_every_step": (_LINES, _MORE),
    "flax_more_blocks": (_LAYERS, _MORE),
    "mxnet_no_hybridize": (_EAGER,),
    "mxnet_heavy_transform": (_INPUT, _LINES),
    "mxnet_asnumpy_statistics": (_LINES, "synchronisation"),
}
# Of changes that leave a fault in one recording: the topics of advice of which one is to be among the first two
_PYTHON, _SAMPLES, _DISPATCH = "python", "loop over samples", "dispatch"
ADVICE = {
    "images_loop_augment": (_SAMPLES, _INPUT),
    "images_elastic_dataset": (_INPUT,),
    "images_own_batchnorm": ("fusion",),
    "images_layout_mix": ("fusion", "layout"),
    "wordlm_row_clipping": (_PYTHON,),
    "wordlm_anomaly": ("debugging mode",),
    "wordlm_softmax_by_hand": ("fusion",),
    "encoder_naive_attention": ("attention", _DISPATCH),
    "encoder_gelu_by_hand": ("fusion",),
    "encoder_checkpointing": ("recomputation",),
    "encoder_loop_optimizer": ("optimizer",),
    "vae_double_layer": ("double precision",),
    "vae_one_thread": ("threads",),
    "vae_loss_per_sample": (_SAMPLES, _PYTHON),
    "vae_batch_last": ("layout", "fusion"),
    "gan_no_onednn": ("oneDNN",),
    "gan_checkpoint_every_step": (_PYTHON,),
    "keras_eager": (_DISPATCH,),
    "keras_py_function": (_INPUT,),
    "tf_numpy_function_map": (_INPUT,),
    "tf_retrace": ("compilation",),
    "jax_no_jit": (_DISPATCH,),
    "jax_new_lambda": ("compilation",),
    "jax_host_statistics": (_PYTHON,),
    "jax_slow_generator": (_PYTHON, _INPUT),
    "flax_static_argument": ("compilation",),
    "mxnet_no_hybridize": (_DISPATCH,),
    "mxnet_heavy_transform": (_INPUT,),
    "mxnet_asnumpy_statistics": (_PYTHON, "synchronisation"),
}

# Faults that are settings of the program or its framework, which hold for all of its lines
SETTINGS = (
    "wordlm_anomaly", "vae_one_thread", "gan_no_onednn", "keras_eager", "jax_no_jit", "mxnet_no_hybridize", "images_layout_mix",
    "encoder_checkpointing", "vae_double_layer", "vae_batch_last",
)  # fmt: skip


def _change(entry: dict[str, object]) -> Change:
    name, replace = str(entry["name"]), tuple((str(old), str(new)) for old, new in entry["replace"])  # type: ignore[attr-defined]
    return Change(name, str(entry["program"]).removesuffix(".py"), str(entry["what"]), replace, CAUSES.get(name, ()))


PLANTS = tuple(_change(entry) for entry in plants.PLANTS if entry["name"] in CAUSES)
CONTROLS = tuple(_change(entry) for entry in plants.CONTROLS)
