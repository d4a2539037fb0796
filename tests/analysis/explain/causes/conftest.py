"""Cases made by hand, of which a test knows every number."""

import pandas as pd
import pytest

from kernelscope.analysis.accounting.levels import KEYS
from kernelscope.analysis.explain.model import ROW_COLUMNS, Account, Case, Layer, Match, Side, Wall
from kernelscope.analysis.trace import Trace, conform

_CELLS = ("row", "side", *KEYS, "count", "duration_ns", "time_ns")


def steps(count, step_ns, start_ns=0, **columns):
    """Measured steps one after another; columns such as minor_faults have one value for all."""
    rows = [{"step": n, "window": n // 5, "warmup": False, "thread": 1, "start_ns": start_ns + n * step_ns,
             "end_ns": start_ns + (n + 1) * step_ns, **columns} for n in range(count)]  # fmt: skip
    return conform("steps", pd.DataFrame(rows))


def side(name, framework="pytorch", clean=(), clean_ns=None, trace=None, **facts):
    """A side that states these facts; version 1 unless told otherwise."""
    facts = {"framework": framework, "version": "1", **facts}
    empty = pd.DataFrame()
    clean = list(clean)
    if clean and clean_ns is None:
        durations = pd.concat(clean)
        clean_ns = int((durations["end_ns"] - durations["start_ns"]).median())
    return Side(name=name, path=name, trace=trace or Trace(), windows=empty, cells=empty, clean=clean, clean_ns=clean_ns,
                layers=[], events=pd.Series(dtype=float), facts=facts)  # fmt: skip


def case(rows, a, b, instrumentation_ns=0, cells=()):
    """A case of rows (layer, phase, cell, ns of A, ns of B), each with `significant` as a sixth where it is not True."""
    values = [
        {"row": f"r{number}", "layer": layer, "layer_a": layer, "layer_b": layer, "phase": phase, "cell": cell, "a_ns": a_ns,
         "b_ns": b_ns, "delta_ns": b_ns - a_ns, "significant": significant[0] if significant else True, "a_count": 1.0,
         "b_count": 1.0}
        for number, (layer, phase, cell, a_ns, b_ns, *significant) in enumerate(rows, start=1)
    ]  # fmt: skip
    table = pd.DataFrame(values, columns=list(ROW_COLUMNS))
    for name in ("a_ns", "b_ns", "delta_ns"):
        table[name] = table[name].astype("int64")
    table["significant"] = table["significant"].astype("boolean")
    table.index = pd.Index(table["row"], name="row_id")
    wall = Wall(int(table["a_ns"].sum()), int(table["b_ns"].sum()) + instrumentation_ns, None)
    made = pd.DataFrame([{**dict.fromkeys(_CELLS), **cell} for cell in cells], columns=list(_CELLS))
    made = made.astype(dict.fromkeys(("m", "n", "k"), "Int64"))
    account = Account(wall=wall, rows=table, cells=made, instrumentation_ns=instrumentation_ns, removed_ns={"a": 0, "b": 0},
                      recorded_ns={"a": wall.a_ns, "b": wall.b_ns}, samples=None, by_restart=None, restarts=1)  # fmt: skip
    return Case(a, b, [], account, {})


def kernel(name, kind, ns, count=1.0, **keys):
    """A kernel's cell: `count` executions a step, with `ns` of it; keys are those of the partition."""
    return {"kernel": name, "kind": kind, "time_ns": ns, "duration_ns": float(ns), "count": count, **keys}


def kernels_case(groups, a=None, b=None):
    """A case of what kernels do: groups are (layer, phase, kernels of A, kernels of B, host's ns of A, host's ns of B).

    Rows are numbered in order: those of a group by kind, then its host's. The host's ns may be left out: then there is no row.
    """
    a, b = a or side("A"), b or side("B")
    rows, cells = [], []
    for layer, phase, of_a, of_b, *host in groups:
        for kind in dict.fromkeys(one["kind"] for one in [*of_a, *of_b]):
            sums = [sum(one["time_ns"] for one in made if one["kind"] == kind) for made in (of_a, of_b)]
            rows.append((layer, phase, kind, *sums))
            cells += [{**one, "side": name, "row": f"r{len(rows)}"} for name, made in (("a", of_a), ("b", of_b))
                      for one in made if one["kind"] == kind]  # fmt: skip
        if host:
            rows.append((layer, phase, "(host: in operators)", *host))
            cells += [{"side": name, "row": f"r{len(rows)}", "cause": "in operators", "count": 1.0, "time_ns": ns}
                      for name, ns in zip("ab", host, strict=True)]  # fmt: skip
    made = case(rows, a, b, cells=cells)
    names = [name for name in dict.fromkeys(layer for layer, *_ in groups) if not name.startswith("(")]
    for order, name in enumerate(names):
        made.matches.append(Match((name,), (name,), 1.0, "name"))
        a.layers.append(Layer(name, order))
        b.layers.append(Layer(name, order))
    return made


@pytest.fixture(scope="session")
def make_kernel():
    """The function that makes a kernel's cell."""
    return kernel


@pytest.fixture(scope="session")
def make_kernels_case():
    """The function that makes a case of what kernels do."""
    return kernels_case


@pytest.fixture(scope="session")
def make_steps():
    """The function that makes steps."""
    return steps


@pytest.fixture(scope="session")
def make_side():
    """The function that makes a side."""
    return side


@pytest.fixture(scope="session")
def make_case():
    """The function that makes a case of rows and two sides."""
    return case


@pytest.fixture(scope="session")
def swapped():
    """The function that gives the same case with A and B the other way round."""

    def swap(made):
        rows = made.rows
        listed = [(r.layer, r.phase, r.cell, r.b_ns, r.a_ns, r.significant) for r in rows.itertuples()]
        cells = [{**cell, "side": "b" if cell["side"] == "a" else "a"} for cell in made.account.cells.to_dict("records")]
        turned = case(listed, made.b, made.a, -made.account.instrumentation_ns, cells)
        turned.matches.extend(made.matches)
        return turned

    return swap


@pytest.fixture(scope="session")
def suspected():
    """The function that runs a family's rules on a case."""

    def run(family, made):
        return [suspicion for rule in family.RULES for suspicion in rule(made)]

    return run
