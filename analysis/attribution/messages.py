"""The bytes that a collective moves and its number of ranks, from PyTorch's operator around its launch; and bandwidths.

Sizes and bandwidths are those of nccl-tests (NVIDIA/nccl-tests doc/PERFORMANCE.md): S is the size on all ranks together after an
all-gather and before a reduce-scatter, and else the size that a rank gives. Algorithm bandwidth is S over the transfer time. Bus
bandwidth is that times the share of S that each link carries, so that it can be compared with the link's bandwidth.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.files import json_text
from kernelscope.analysis.kernels import aten
from kernelscope.analysis.kernels.work.amounts import ELEMENT_BYTES
from kernelscope.analysis.trace import Trace, intervals

# torch/csrc/distributed/c10d/ParamCommsUtils.hpp: the inputs, and as the last argument the size of the group
OPERATOR = "record_param_comms"
_PROBLEM = r"^(?P<given>\d+):(?P<received>\d+) on (?P<members>\d+) ranks(?:: (?P<group>.+))?$"


def messages(trace: Trace, kernels: pd.DataFrame, operation: pd.Series) -> pd.DataFrame:
    """Return bytes (S), members (number of ranks) and group (which ranks) of communication kernels; null if unknown.

    Aligned with the kernels. operation: each kernel's, such as all-reduce. In newer traces the kernels themselves have the sizes.
    """
    own = _of_problems(kernels, operation)
    by_operators = _of_operators(trace, kernels, operation)
    return own.assign(**{name: own[name].fillna(by_operators[name]) for name in ("bytes", "members")})


def _of_problems(kernels: pd.DataFrame, operation: pd.Series) -> pd.DataFrame:
    """Return bytes, members and group from the kernels' problems, as the reader of Kineto writes them."""
    texts = kernels["problem"] if "problem" in kernels else pd.Series(pd.NA, index=kernels.index)
    found = texts.astype("string").str.extract(_PROBLEM)
    given, received, members = (pd.to_numeric(found[name]).astype("Int64") for name in ("given", "received", "members"))
    elements = given.where((operation != "all-gather").to_numpy(bool), received)
    types = kernels["dtype"].astype("string") if "dtype" in kernels else pd.Series(pd.NA, index=kernels.index, dtype="string")
    size = types.map(ELEMENT_BYTES.get).astype("Int64")
    return pd.DataFrame({"bytes": elements * size, "members": members, "group": found["group"]})


def _of_operators(trace: Trace, kernels: pd.DataFrame, operation: pd.Series) -> pd.DataFrame:
    """Return bytes and members from the operators around the kernels' launches."""
    nothing = pd.DataFrame({"bytes": pd.NA, "members": pd.NA}, index=kernels.index, dtype="Int64")
    operators = trace.operators[(trace.operators["name"] == OPERATOR).fillna(False).to_numpy(bool)]
    if operators.empty or "launch_ns" not in kernels or kernels["launch_ns"].isna().all():
        return nothing
    launched = kernels["launch_ns"].notna().to_numpy(bool)
    mine = kernels[launched]
    row = intervals.innermost(
        *intervals.spans(operators), mine["launch_thread"].fillna(-1).to_numpy(np.int64), mine["launch_ns"].to_numpy(np.int64)
    )
    inside = row >= 0
    inputs = operators.iloc[row[inside]][["shapes", "types", "arguments"]].astype("string")
    table = pd.DataFrame(
        [_message(*texts) for texts in inputs.fillna("").itertuples(index=False, name=None)],
        columns=["elements", "size", "members"], index=mine.index[inside],
    ).astype("Int64")  # fmt: skip
    # kernels that send and receive have the type int8, whatever they move, so the tensors' type comes first
    size = table["size"].fillna(mine["dtype"][inside].astype("string").map(ELEMENT_BYTES.get).astype("Int64"))
    given = table["elements"] * size
    whole = given.where((operation[table.index] != "all-gather").to_numpy(bool), given * table["members"])
    return nothing.assign(bytes=whole.reindex(kernels.index), members=table["members"].reindex(kernels.index))


def _message(shapes: str, types: str, arguments: str) -> tuple[int | None, int | None, int | None]:
    """Return the elements that a rank gives, the bytes of one, and the group's number of ranks; None each if unknown."""
    listed = json_text.listed(arguments)
    last = listed[-1] if listed else None
    members = int(last) if isinstance(last, int | str) and str(last).isascii() and str(last).isdigit() else None
    elements = sum(_elements(one) for one in json_text.listed(shapes))
    kind = aten.dtype(types)
    return elements or None, ELEMENT_BYTES.get(kind) if kind else None, members or None


def _elements(shape: object) -> int:
    """Return the number of elements of one or several tensors: [4, 8] has 32, [[4, 8], [2]] has 34; [] is no tensor."""
    if not isinstance(shape, list) or not shape:
        return 0
    if all(isinstance(size, int) and size >= 0 for size in shape):
        return int(np.prod([int(size) for size in shape], dtype=object))
    return sum(_elements(one) for one in shape)


def bus_factor(operation: str, members: int) -> float:
    """Return the factor from algorithm to bus bandwidth: the share of S that a link carries."""
    if operation == "all-reduce":
        return 2 * (members - 1) / members
    return (members - 1) / members if operation in ("reduce-scatter", "all-gather", "all-to-all") else 1.0


def bandwidths(table: pd.DataFrame) -> pd.DataFrame:
    """Return algorithm_gb_s and bus_gb_s (1e9 bytes a second) of rows with operation, bytes, members and transfer_ns.

    Null if size or group are unknown, or if the transfer is too short for the clocks.
    """
    known = table["bytes"].notna() & table["members"].notna() & (table["transfer_ns"] > 0)
    ratio: npt.NDArray[np.float64] = (table["bytes"].astype("Float64") / table["transfer_ns"]).to_numpy(float, na_value=np.nan)
    factors = [
        bus_factor(operation, members) if good else np.nan
        for operation, members, good in zip(table["operation"], table["members"], known, strict=True)
    ]
    algorithm = np.where(known.to_numpy(bool), ratio, np.nan)
    return pd.DataFrame({"algorithm_gb_s": algorithm, "bus_gb_s": algorithm * np.array(factors)}, index=table.index)
