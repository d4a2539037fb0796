"""Python functions in XLA's profiles (JAX's and TensorFlow's python_tracer_level=1).

The profiler names a function "$file.py:line name" and a C function "$module name". The file has no folder, so only its name
tells whether it is the program's: _NAMES lists the files that JAX, TensorFlow, Keras and NumPy run in each step, besides
Python's own. A file of the program with one of these names, such as core.py, counts as the framework's, and its time goes to
its caller.
"""

from __future__ import annotations

import re
import sys

import numpy as np
import pandas as pd

from kernelscope.analysis.formats import python_functions
from kernelscope.analysis.formats.python_functions import FRAMEWORK, PROGRAM, Place
from kernelscope.analysis.formats.xplane import columns
from kernelscope.analysis.trace import conform

MISSING = "the profile holds no Python functions: record it with python_tracer_level=1 (jax.profiler's default)"

_SIGN = r"\$"
_FUNCTION = re.compile(r"\$(?P<file>[^:]+):(?P<line>\d{1,9}) (?P<name>.+)", re.DOTALL)
_TYPED_IN = re.compile(r"<(?:stdin|ipython-input)")
_OPERATIONS = re.compile(r".*_(?:ops|op|grad)(?:_impl|_v\d)?")  # TensorFlow's, such as gen_math_ops.py
_NAMES = """
    _methods _ufunc_config abstract_arrays ad ad_checkpoint ad_util api api_util array array_api_metadata array_constructors
    array_creation array_function_dispatch array_methods arrayprint atomic_function backprop base_layer basearray batching
    blocked_sampler buffer_callback cache_key callback callback_list checkify compilation_cache compilation_cache_interface
    compile_utils compiler compute_on concrete_function config constant_op context convolution core custom_api_util
    custom_batching custom_derivatives custom_partitioning custom_partitioning_sharding_rule data_adapter debugging
    def_function deprecations discharge dispatch distribute_lib distribute_utils dlpack dtypes effects einsum epoch_iterator
    error_check eval_jaxpr execute ffi fft flatten_util fromnumeric frozen_dict func_graph function_base function_utils
    functions hashable_array hijax imperative_grad index_tricks indexed_slices initializers jaxpr_util keras_tensor lapack
    lax lax_numpy lax_reference layout lazy_loader linalg linear_util literals logging_config lru_cache mesh mesh_utils
    mirrored_strategy mlir monitoring multiarray named_sharding nest numeric numerictypes op_def_library op_shardings
    overrides partial_eval partition_spec pickle_util pjit pmap polymorphic_function polynomial pretty_printer profiler
    progbar pxla random reductions remat scalar_types scaled_dot setops shape_base shard_alike shard_map sharding
    sharding_impls slicing sorting source_info_util sourcemap stages tape tensor_contractions tensor_conversion
    tensor_conversion_registry tensor_shape tf_contextlib tf_dataset_adapter tf_decorator tf_stack tf_utils tpu_custom_call
    trace_type_builder traceable_stack traceback_util traceback_utils tracing_compilation tree_util typing ufunc_api ufuncs
    util variable_scope vectorize window_functions windowed_reductions xla_bridge xla_metadata xla_metadata_lib
    xla_transform
"""
_FILES = frozenset(_NAMES.split())


def are(events: pd.DataFrame) -> columns.Flags:
    """Return which of a host's events are Python functions."""
    return columns.matching(events["name"], _SIGN)


def host_lines(hosts: list[pd.DataFrame], steps: pd.DataFrame, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return the functions of the loop's thread as the table `host_lines`; empty if none were recorded."""
    parts = [events.loc[are(events), ["name", "start_ns", "duration_ns", "line_id"]] for events in hosts]
    rows = columns.joined(parts)
    if rows.empty:
        return conform("host_lines", pd.DataFrame())
    thread = rows["line_id"].to_numpy()
    loop = int(steps["thread"].iloc[0]) if len(steps) else -1
    if loop not in thread:
        loop = python_functions.longest_thread(rows, thread, np.ones(len(rows), dtype=bool))
    columns.count(diagnostics, "functions of other threads not read", int((thread != loop).sum()))
    return python_functions.host_lines(rows[thread == loop], loop, _place_of)


def _place_of(name: str) -> Place | None:
    """Return the place that a name describes; None for C functions."""
    match = _FUNCTION.fullmatch(name)
    if match is None:
        return None
    file = match["file"]
    stem = file.removesuffix(".py")
    known = stem in _FILES or stem in sys.stdlib_module_names or _OPERATIONS.fullmatch(stem)
    inside = known or (file.startswith("<") and not _TYPED_IN.match(file))
    return Place(file, match["name"], int(match["line"]), FRAMEWORK if inside else PROGRAM)
