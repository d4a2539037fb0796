"""Whether two recordings are of one program, what was changed in between, and what single recordings can tell."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest

from kernelscope.analysis.explain import abstention, changed_lines, noise, program, renames
from kernelscope.analysis.explain.model import Case
from kernelscope.analysis.recordings.run import Run
from tests.analysis.explain.causes.conftest import case, side, steps

SCRIPT = "import torch\n\nfor step in range(100):\n    loss = model(x)\n    loss.backward()\n"
FACTS = {
    "settings": {"threads": 2}, "machine": {"processor": "one", "allowed_threads": 2, "load_before": 0.1}, "mode": "train",
    "batch": 8, "profiled": ["python", "train.py", "--epochs", "1"], "main_source": "train.py", "recorder": "profile",
}  # fmt: skip


def sentence(*arguments):
    """The evidence that a change is for a cause; None where there is none."""
    named = changed_lines.named(*arguments)
    return named[1] if named else None


def made(name, text=SCRIPT, step_ns=10_000_000, foreign=0.0, **facts):
    main = facts.get("main_source", "train.py")
    found = side(name, clean=[steps(20, step_ns)], **{**FACTS, **facts})
    found.sources, found.foreign_cores = {main: text} if text else {}, foreign
    return found


def pair(a, b, rows=(("conv", "forward", "convolution forward", 5_000_000, 9_000_000),)) -> Case:
    result = case(list(rows), a, b)
    result.account.floor = noise.floor(a, b, 1)
    return result


def test_the_same_files_arguments_and_settings_are_the_same_program():
    assert program.same(pair(made("a"), made("b")))
    assert program.same(pair(made("a"), made("b", machine={**FACTS["machine"], "load_before": 1.9})))


@pytest.mark.parametrize(
    "text",
    [SCRIPT.replace("import torch", "import torch  # a comment"), SCRIPT.replace("\n\n", "\n\n\n\n")],
    ids=["comment", "blank"],
)
def test_comments_and_blank_lines_are_no_part_of_a_program(text):
    made_of = pair(made("a"), made("b", text))
    assert program.same(made_of)
    assert program.changes(made_of) == []


def test_a_copy_under_another_name_is_the_same_program():
    copy = made("b", main_source="train_v2.py", profiled=["python", "train_v2.py", "--epochs", "1"])
    assert program.same(pair(made("a"), copy))


@pytest.mark.parametrize(
    "facts",
    [
        {"settings": {"threads": 1}}, {"profiled": ["python", "train.py", "--epochs", "9"]}, {"batch": 16},
        {"machine": {"processor": "another"}}, {"text": SCRIPT.replace("model(x)", "model(x * 2)")}, {"text": ""},
        {"versions": {"torch": "3"}, "framework": "jax"},
    ],
    ids=["settings", "arguments", "batch", "machine", "source", "unknown source", "framework"],
)  # fmt: skip
def test_what_differs_makes_another_program(facts):
    assert not program.same(pair(made("a"), made("b", **facts)))


def test_text_that_is_no_python_is_compared_as_text():
    assert program.same(pair(made("a", "def ("), made("b", "def (")))
    assert not program.same(pair(made("a", "def ("), made("b", "def  (")))


def test_changes_are_lines_of_both_sides():
    text = SCRIPT.replace("    loss = model(x)\n", "    x = x.clone()\n    loss = model(x)\n")
    [change] = program.changes(pair(made("a"), made("b", text, main_source="other.py")))
    assert (change.file, change.a, change.b) == ("other.py", (4, []), (4, ["    x = x.clone()"]))
    case = pair(made("a"), made("b", text))
    case.changes = [row] = changed_lines.changed(case)
    assert (row["a_lines"], row["b_lines"], row["line"], row["text"]) == (None, [4, 4], 4, "x = x.clone()")
    assert row["delta_ns"] is None  # its lines were not timed
    assert sentence(case, {"r1": 1}) == "The only change of the program: train.py line 4 `x = x.clone()`."
    case.changes = [row, row]
    assert sentence(case, {"r1": 1}) is None  # no line is named that did not move
    assert sentence(case, {}) is None


@pytest.mark.parametrize(
    ("delta", "added", "said"),
    [
        (4, True, "train.py line 4 of b causes this work: undo it, or do once, before the loop, what is the same in each step"),
        (-4, True, "do in a what train.py line 4 of b does"),
        (4, False, "b lacks train.py line 4 of a: bring it back"),
        (
            -4,
            False,
            "train.py line 4 of a causes this work: undo it, or do once, before the loop, what is the same in each step",
        ),
    ],
)
def test_what_to_do_about_a_changed_line_names_it(delta, added, said):
    text = SCRIPT.replace("    loss = model(x)\n", "    x = x.clone()\n    loss = model(x)\n")
    case = pair(*((made("a"), made("b", text)) if added else (made("a", text), made("b"))))
    case.account = SimpleNamespace(wall=SimpleNamespace(delta_ns=delta, a_ns=5, b_ns=9), floor=case.account.floor)
    [row] = changed_lines.changed(case)
    assert changed_lines.remedy(case, row) == f"{said}; or count this as the price of the change"


def test_lines_that_are_gone_are_in_the_file_that_had_them():
    text = SCRIPT.replace("    loss = model(x)\n", "    x = x.clone()\n    loss = model(x)\n")
    [change] = program.changes(pair(made("a", text), made("b", SCRIPT, main_source="other.py")))
    assert (change.file, change.a, change.b[1]) == ("train.py", (4, ["    x = x.clone()"]), [])


def test_programs_of_two_frameworks_are_no_change_of_one():
    text = SCRIPT.replace("import torch", "import tensorflow")
    assert program.changes(pair(made("a", framework="pytorch"), made("b", text, framework="tensorflow"))) == []


@pytest.mark.parametrize(("b_ns", "said"), [(5_000_000, " (+4 ms a step)"), (50_000_000, ""), (1_000_001, "")])
def test_a_line_that_moved_more_than_a_step_has_no_time(b_ns, said):
    """The pass that times lines met something else then; steps here take 5 and 9 ms."""
    account = pair(made("a"), made("b")).account
    assert max(account.wall.a_ns, account.wall.b_ns) == 9_000_000
    assert changed_lines._moved((None, None), (1_000_000, b_ns), account, False) == said


def test_what_moves_by_a_line_is_one_change():
    before = "def step(x):\n    loss = model(x)\n    zero()\n    loss.backward()\n"
    after = "def step(x):\n    zero()\n    for part in x:\n        loss = model(part)\n        loss.backward()\n"
    [change] = program.changes(pair(made("a", before), made("b", after)))
    assert (change.a[0], len(change.a[1]), change.b[0], len(change.b[1])) == (2, 3, 2, 4)
    apart = "def step(x):\n    loss = net(x)\n    one()\n    two()\n    loss.backward()\n"
    far = apart.replace("net(x)", "net(x, 1)").replace("loss.backward()", "loss.backward(1)")
    assert len(program.changes(pair(made("a", apart), made("b", far)))) == 2


NAMED = """
class Net:
    def __init__(self, width):
        self.skip = Linear(width)

    def forward(self, x):
        total = self.skip(x)  # what is added
        return act(x + total)

losses = []
for x in data:
    losses.append(Net(3).forward(x))
print(f"mean {sum(losses):.3f}")
"""


def test_what_a_program_calls_its_own_things_is_no_change():
    names = (("skip", "shortcut"), ("total", "added"), ("losses", "curve"), ("width", "size"), ("  # what is added", ""))
    text = NAMED
    for old, new in names:
        text = text.replace(old, new)
    both = pair(made("a", NAMED), made("b", text))
    assert program.same(both)
    assert program.changes(both) == []
    assert renames.renamed(NAMED, text) == {"skip": "shortcut", "total": "added", "losses": "curve", "width": "size"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("act(x + total)", "other(x + total)"),  # somebody else's function
        ("self.skip(x)", "self.shortcut(x)"),  # which it does not bind
        ("losses = []", "curve = []"),  # of which the old name is still used
        ("Linear(width)", "Conv(width)"),
    ],
)
def test_other_names_are_changes(old, new):
    both = pair(made("a", NAMED), made("b", NAMED.replace(old, new)))
    assert renames.renamed(NAMED, NAMED.replace(old, new)) == {}
    assert not program.same(both)
    assert len(program.changes(both)) == 1


def test_beside_renames_what_else_changed_is_seen():
    text = NAMED.replace("skip", "shortcut").replace("act(x + total)", "act(act(x + total))")
    [change] = program.changes(pair(made("a", NAMED), made("b", text)))
    assert change.b[1] == ["        return act(act(x + total))"]
    assert change.a[1] == ["        return act(x + total)"]


def test_text_that_is_no_python_has_no_renames():
    assert renames.renamed("def (", "fed (") == {}
    assert renames.plain_lines("def (  # x", {"def": "fed"}) == ["def (  # x"]


NETWORK = """
class Block(nn.Module):
    def forward(self, x):
        return self.fc(x)
"""


def test_lines_of_a_modules_class_are_named_where_most_of_a_cause_is_in_its_layers():
    case = pair(made("a", NETWORK), made("b", NETWORK.replace("fc(x)", "fc(x.double())")))
    case.b.trace.info["modules"] = [{"name": "blocks.0", "type": "Block"}, {"name": "head", "type": "Linear"}]
    rows = [{"row": "r1", "layer": "blocks.0.fc"}, {"row": "r2", "layer": "head"}]
    case.account.rows = pd.DataFrame(rows).set_index("row", drop=False)
    case.changes = changed_lines.changed(case)
    [row] = case.changes
    assert (row["within"], row["in_model"]) == (["Block", "forward"], True)
    said = sentence(case, {"r1": 80, "r2": 20})
    assert said == "Changed: train.py line 4 `return self.fc(x.double())`, which is the code of blocks.0."
    assert "which is the code" not in str(sentence(case, {"r1": 20, "r2": 80}))


def test_of_several_classes_that_of_the_fewest_layers_is_named_with_all_its_lines():
    text = NETWORK.replace("        return self.fc(x)", "        x = self.norm(x)\n        y = x\n        return self.fc(y)")
    text += "\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return self.blocks(self.stem(x))\n"
    changed = text.replace("norm(x)", "mish(x)").replace("fc(y)", "mish(fc(y))").replace("stem(x)", "mish(x)")
    case = pair(made("a", text), made("b", changed))
    modules = [{"name": "Net", "type": "Net"}, {"name": "blocks.0", "type": "Block"}, {"name": "blocks.1", "type": "Block"}]
    case.b.trace.info["modules"] = modules
    rows = [{"row": "r1", "layer": "blocks.0"}, {"row": "r2", "layer": "blocks.1.fc"}, {"row": "r3", "layer": "stem"}]
    case.account.rows = pd.DataFrame(rows).set_index("row", drop=False)
    case.changes = changed_lines.changed(case)
    said = sentence(case, {"r1": 60, "r2": 30, "r3": 10})
    assert said.startswith("Changed: train.py line 4 `x = self.mish(x)`")
    assert "train.py line 6 `return self.mish(fc(y))`" in said
    assert "blocks(self.mish(x))" not in said
    assert said.endswith("which is the code of blocks.0 and blocks.1.")


def test_a_decorator_that_is_gone_is_named_with_eager_mode():
    before = SCRIPT + "\nSTEPS = 100\n\n@tf.function\ndef step(x):\n    return x\n"
    after = before.replace("@tf.function\n", "\n").replace("STEPS = 100", "STEPS = 50")
    case = pair(made("a", before), made("b", after))
    case.changes = changed_lines.changed(case)
    said = sentence(case, {"r1": 1}, "eager against graph")
    assert said == "Changed: train.py line 9 (of A, gone in B) `@tf.function`."


def test_the_lines_that_set_up_the_input_are_named_with_it():
    text = SCRIPT.replace("    loss = model(x)\n", "    x = tf.numpy_function(jitter, [x], tf.float32)\n    loss = model(x)\n")
    case = pair(made("a"), made("b", text + "\n\ndef jitter(x):\n    return x\n"))
    case.changes = changed_lines.changed(case)
    assert len(case.changes) == 2
    said = sentence(case, {"r1": 1}, "input pipeline")
    assert said == "Changed: train.py line 4 `x = tf.numpy_function(jitter, [x], tf.float32)`."
    assert sentence(case, {"r1": 1}, "python overhead") is None


def test_equal_programs_recorded_once_get_no_cause():
    why, what = abstention.reason(pair(made("a"), made("b", step_ns=14_000_000)), False)
    assert "the same program" in why
    assert "kernelscope profile --repeats 3 -o A -- python train.py" in what


def test_a_busy_machine_is_said():
    changed = SCRIPT.replace("model(x)", "model(x * 2)")
    why, _ = abstention.reason(pair(made("a"), made("b", changed, foreign=1.1)), False)
    assert "1.1 cores busy while b" in why
    assert noise.busy(made("b", foreign=0.5)) is None


def test_restarts_need_no_floor():
    assert noise.floor(made("a"), made("b"), 3) == 0.0
    assert noise.floor(made("a"), made("b"), 1) == noise.AS_IT_COMES
    assert noise.floor(made("a", options={"steady": True}), made("b", options={"steady": True}), 1) == noise.STEADY
    assert noise.floor(side("capture"), made("b"), 1) == 0.0


def test_intervals_reach_as_far_as_the_floor_and_the_windows_say():
    same, apart = steps(20, 1_000_000), steps(20, 1_000_000)
    apart.loc[apart["window"] == 1, "end_ns"] += 400_000
    assert noise.reach(150_000, same, same) == 150_000
    assert noise.reach(150_000, same, apart) > 200_000
    assert noise.widened((90, 110), 100, 50) == (50, 150)
    assert noise.widened((10, 110), 100, 50) == (10, 150)


def test_sources_are_read_from_the_run_folder_only(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"schema": "kernelscope/run/1", "framework": "pytorch", "passes": {}}))
    assert Run(tmp_path).sources() == (None, {})
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/0.py").write_text("print()\n")
    (tmp_path / "secret.py").write_text("x = 1\n")
    files = [{"path": "train.py", "file": "0.py"}, {"path": "evil.py", "file": "../secret.py"}, "odd"]
    (tmp_path / "sources/index.json").write_text(json.dumps({"main": "train.py", "files": files}))
    assert Run(tmp_path).sources() == ("train.py", {"train.py": "print()\n"})


def test_a_change_of_the_optimizer_does_not_make_the_step_wait_for_input():
    before, after = "optimizer = Adam(1e-3)\n", "optimizer = SGD(1e-2)\n"
    found = pair(made("a", SCRIPT + before), made("b", SCRIPT + after))
    found.changes = changed_lines.changed(found)
    assert changed_lines.elsewhere(found, "input pipeline")
    assert not changed_lines.elsewhere(found, "python overhead")
    assert sentence(found, {"r1": 4_000_000}, "input pipeline") is None
    assert sentence(found, {"r1": 4_000_000}, "other operators").startswith("The only change of the program: ")
    both = pair(made("a", SCRIPT + before), made("b", SCRIPT.replace("(x)", "(slow(x))") + after))
    both.changes = changed_lines.changed(both)
    assert not changed_lines.elsewhere(both, "input pipeline")
