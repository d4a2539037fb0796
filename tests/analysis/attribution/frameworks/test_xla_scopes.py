"""Layers of networks that nobody knows: paths from scopes, and what the flow of data tells of the rest; programs made by hand."""

import pytest

from kernelscope.analysis.attribution.frameworks.xla_names import ProgramNames
from kernelscope.analysis.attribution.frameworks.xla_scopes import Name, Scopes, parsed
from tests.analysis.attribution.frameworks.test_jax import program

P = ("p_0", "parameter", "params['w']", ())


@pytest.mark.parametrize(
    ("op_name", "expected"),
    [
        ("jit(step)/transpose(jvp(Net))/Block_0/Dense_0/dot_general", Name("step", ("Net", "Block_0", "Dense_0"), True, True)),
        ("jit(step)/jvp(net/fc1)/while/body/closed_call/add", Name("step", ("net", "fc1"), True, False)),
        ("jit(step)/jit(main)/jvp(Net)/jit(relu)/max", Name("step", ("Net",), True, False)),
        ("jit(step)/while/body/body/add", Name("step", ("body",), False, False)),  # a layer in a loop
        ("jit(step)/cond/branch_1_fun/A/mul", Name("step", ("A",), False, False)),
        ("jit(f)/vmap(Net)/Dense_0/add", Name("f", ("Net", "Dense_0"), False, False)),
        ("jit(f)/A/...ij,jk->...ik/dot_general", Name("f", ("A",), False, False)),
        ("jit(f)/transpose(jvp(checkpoint))/rematted_computation/A/tanh", Name("f", ("A",), True, True)),
        ("jit(f)/jvp()/add", Name("f", (), True, False)),
        ("jit(f)/Net/head/eqx.nn.MLP/layers.0/eqx.nn.Linear/dot_general", Name("f", ("Net", "head", "layers.0"), False, False)),
        ("jit(f)/eqx.nn.MLP/eqx.nn.Linear/add", Name("f", ("eqx.nn.MLP", "eqx.nn.Linear"), False, False)),  # nothing says where
        ("params['Dense_0']['kernel']", Name(None, (), False, False)),
        ("reduce_max", Name(None, (), False, False)),
        ("", Name(None, (), False, False)),
        ("a(((/b", Name(None, (), False, False)),  # brackets that nobody closes
    ],
)
def test_names_are_taken_apart(op_name, expected):
    assert parsed(op_name) == expected


def places(made, functions=None):
    """Return (layer, phase, method) of every instruction by name."""
    names = ProgramNames(made, Scopes([made], {"step": False} if functions is None else functions))
    found = {one.name: names.operation(one.name) for one in made.instructions.values()}
    return {name: (one.layer, one.phase, one.attribution) for name, one in found.items()}


def test_the_models_own_name_is_left_out_of_paths():
    made = program(
        ("a", "dot", "jit(step)/jvp(Net)/Block_0/Dense_0/dot_general", ()),
        ("b", "add", "jit(step)/jvp(Net)/add", ("a",)),
        ("c", "dot", "jit(step)/transpose(jvp(Net))/head/dot_general", ("b",)),
        ("d", "add", "jit(step)/sgd/add", ("c",)),  # a scope that is the optimizer's by name
    )
    found = places(made)
    assert found["a"] == ("Block_0.Dense_0", "forward", "operator name")
    assert found["b"] == ("Net", "forward", "operator name")
    assert found["c"] == ("head", "backward", "operator name")
    assert found["d"] == (None, "optimizer", "operator name")


def test_of_several_models_each_keeps_its_name():
    made = program(
        ("a", "dot", "jit(step)/jvp(Generator)/Dense_0/dot_general", ()),
        ("b", "dot", "jit(step)/jvp(Critic)/Dense_0/dot_general", ("a",)),
    )
    assert [place[0] for place in places(made).values()] == ["Generator.Dense_0", "Critic.Dense_0"]


def test_what_has_no_scope_is_told_by_its_data():
    made = program(
        P,
        ("scaled", "multiply", "jit(step)/mul", ("p_0",)),  # used by the model
        ("before", "add", "jit(step)/jvp()/add", ("scaled",)),
        ("model", "dot", "jit(step)/jvp(Net)/dot_general", ("before",)),
        ("logarithm", "log", "jit(step)/jvp()/log", ("model",)),
        ("seed", "broadcast", "jit(step)/transpose(jvp())/broadcast", ("logarithm",)),
        ("gradient", "dot", "jit(step)/transpose(jvp(Net))/dot_general", ("seed", "before")),
        ("inputs", "negate", "jit(step)/transpose(jvp())/neg", ("gradient",)),
        ("rate", "power", "jit(step)/pow", ("p_0",)),  # for the update only
        ("product", "multiply", "jit(step)/mul", ("rate", "gradient")),
        ("update", "subtract", "jit(step)/sub", ("p_0", "product")),
        ("made", "copy", "", ("update",)),
        ("accuracy", "reduce", "jit(step)/reduce_sum", ("model",)),
    )
    found = places(made)
    opaque = ("step", "forward", "operator name")
    assert found["scaled"] == found["before"] == found["accuracy"] == opaque
    assert found["logarithm"] == ("loss", "forward", "graph order")
    assert found["seed"] == ("loss", "backward", "graph order")
    assert found["gradient"] == ("Net", "backward", "operator name")
    assert found["inputs"] == ("step", "backward", "operator name")
    assert found["rate"] == found["product"] == found["update"] == (None, "optimizer", "graph order")
    assert found["made"] == (None, "optimizer", "graph order")


def test_without_any_scope_the_function_is_the_layer():
    made = program(
        P,
        ("forward", "dot", "jit(step)/jvp()/dot_general", ("p_0",)),
        ("back", "dot", "jit(step)/transpose(jvp())/dot_general", ("forward",)),
        ("update", "subtract", "jit(step)/sub", ("back",)),
    )
    found = places(made)
    assert found["forward"] == ("step", "forward", "operator name")
    assert found["back"] == ("step", "backward", "operator name")
    assert found["update"] == (None, "optimizer", "graph order")


def test_data_are_followed_through_fusions_and_loops():
    made = program(
        P,
        ("loop", "while", "jit(step)/transpose(jvp())/while", ("p_0",), ("body",)),
        ("fused", "fusion", "jit(step)/add", ("p_0", "loop"), ("inner",)),
        body=[("b_0", "parameter", "", ()), ("g", "dot", "jit(step)/transpose(jvp())/while/body/dot_general", ("b_0",))],
        inner=[
            ("i_0", "parameter", "", ()),
            ("i_1", "parameter", "", ()),
            ("apart", "multiply", "jit(step)/mul", ("i_0",)),
            ("sum", "add", "jit(step)/add", ("apart", "i_1")),
        ],
    )
    found = places(made)
    assert found["g"][:2] == ("step", "backward")
    assert found["fused"][:2] == found["sum"][:2] == found["apart"][:2] == (None, "optimizer")


def test_a_function_that_only_updates_and_functions_of_jax_itself():
    made = program(P, ("update", "subtract", "jit(apply)/sub", ("p_0",)))
    assert places(made, {"apply": True})["update"] == (None, "optimizer", "operator name")
    assert places(made, {"apply": False})["update"] == ("apply", "forward", "operator name")
    assert places(made, {})["update"] == (None, None, "none")


def test_names_that_leave_out_transformations():
    """JAX before 0.5 or so: what has no scope bears no sign of being differentiated."""
    made = program(
        P,
        ("prepared", "multiply", "jit(step)/jit(main)/mul", ("p_0",)),
        ("model", "dot", "jit(step)/jit(main)/jvp(Net)/dot_general", ("prepared",)),
        ("logarithm", "log", "jit(step)/jit(main)/log", ("model",)),
        ("gradient", "dot", "jit(step)/jit(main)/transpose(jvp(Net))/dot_general", ("logarithm",)),
        ("update", "subtract", "jit(step)/jit(main)/sub", ("gradient",)),
        ("accuracy", "reduce", "jit(step)/jit(main)/reduce_sum", ("model",)),
    )
    found = places(made)
    assert found["prepared"] == found["accuracy"] == ("step", "other", "operator name")
    assert found["logarithm"] == ("loss", "other", "graph order")
    assert found["update"] == (None, "optimizer", "graph order")
    plain = program(
        P,
        ("forward", "dot", "jit(step)/jit(main)/dot_general", ("p_0",)),
        ("rectified", "maximum", "jit(step)/jit(main)/jvp(jit(relu))/max", ("forward",)),
        ("choice", "select", "jit(step)/jit(main)/transpose(jvp(jit(relu)))/select_n", ("rectified",)),
        ("back", "dot", "jit(step)/jit(main)/dot_general", ("choice",)),
        ("update", "subtract", "jit(step)/jit(main)/sub", ("back",)),
    )
    found = places(plain)
    assert {found[name] for name in ("forward", "back", "update")} == {("step", "other", "operator name")}
    assert found["rectified"] == ("step", "forward", "operator name")
    assert found["choice"] == ("step", "backward", "operator name")
