"""Tests of what profiles a script, with stand-ins for libraries: run under Python 3.6 and by pytest."""

import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

from kernelscope.tracer import inside
from kernelscope.tracer.inside import own
from kernelscope.tracer.inside.frameworks.compilations import Compilations
from kernelscope.tracer.inside.frameworks.jax.scopes import Scopes
from kernelscope.tracer.inside.profiling import reserve
from kernelscope.tracer.inside.profiling.inputs import Inputs
from kernelscope.tracer.inside.ranges import Recorder

_STARTING = """
import sys, types
for name, path in (("kernelscope", []), ("kernelscope.tracer", [sys.argv[1]])):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = path
before = set(sys.modules)
from kernelscope.tracer.inside import annotations, frameworks
from kernelscope.tracer.inside.profiling import imports
print(" ".join({"typing", "json", "ctypes", "kernelscope.tracer.inside.ranges"} & (set(sys.modules) - before)))
"""


class StartTest(unittest.TestCase):
    """What every process pays that a profiled script starts."""

    def test_little_is_loaded_until_a_framework_is(self):
        """The annotations, the watcher of imports and the frameworks' descriptors need none of these."""
        place = os.path.dirname(os.path.dirname(inside.__file__))
        found = subprocess.check_output([sys.executable, "-S", "-E", "-c", _STARTING, place])
        self.assertEqual(found.strip(), b"")


class OwnTest(unittest.TestCase):
    """What the recorder calls is not what a program has put in its place."""

    def test_functions_of_ours_call_each_other(self):
        """Also os.makedirs, which calls other functions of its module, and os.path.relpath."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        refused = mock.Mock(side_effect=AssertionError)
        replaced = mock.patch.object(os.path, "join", refused), mock.patch("builtins.open", refused)
        with mock.patch.object(os, "mkdir", refused), replaced[0], replaced[1]:
            own.os.makedirs(own.os.path.join(folder, "a", "b"))
            own.open(own.os.path.join(folder, "a", "b", "file"), "w").close()
            found = [files for _, _, files in own.os.walk(folder)]
            self.assertEqual(own.os.path.relpath(folder + "/a", folder), "a")
        self.assertEqual(found, [[], [], ["file"]])
        self.assertIsNot(own.os, os)
        self.assertIs(own.os.environ, os.environ)

    def test_a_reserve_closes_only_its_own(self):
        """A number that the program has given to a file of its own stays open."""
        self.addCleanup(own.spare.clear)
        kept = reserve.Reserve(tempfile.gettempdir())
        kept.fill()
        self.assertEqual(len(kept._held), reserve.COUNT)
        number = kept._held[-1]
        with open(os.devnull) as null:
            os.dup2(null.fileno(), number)
        kept.release()
        os.close(number)
        self.assertFalse(kept.spare())


class InputsTest(unittest.TestCase):
    """Ranges around the making of batches, by stand-ins for PyTorch's classes."""

    def setUp(self):
        class Loader(object):
            _index_sampler = types.SimpleNamespace(batch_size=32)
            _num_workers = 0

            def __next__(self):
                return [Own()[0] for _ in range(3)]

        class Dataset(object):
            pass

        class Own(Dataset):
            def __getitem__(self, index):
                return index

        self.loader, self.own, self.before = Loader(), Own(), Loader.__next__
        modules = {"torch.utils.data.dataloader": types.SimpleNamespace(_BaseDataLoaderIter=Loader)}
        modules["torch.utils.data.dataset"] = types.SimpleNamespace(Dataset=Dataset)
        patched = mock.patch.dict(sys.modules, modules)
        patched.start()
        self.addCleanup(patched.stop)
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.recorder = Recorder(folder, layers=True)
        self.inputs = Inputs(self.recorder)
        self.inputs.attach()
        self.recorder.begin_step()

    def test_a_batch_is_one_range_whatever_it_is_made_of(self):
        """A data set's items within it have none of their own; called by itself an item has."""
        self.assertEqual(next(self.loader), [0, 0, 0])
        self.assertEqual(self.own[5], 5)
        self.recorder.end_step()
        found = [row for row in self.recorder.ranges() if row[3] == "data"]
        self.assertEqual([(row[4], row[5], row[6]) for row in found], [("data", None, "data")] * 2)
        self.assertEqual((self.inputs.batch, self.inputs.workers), (32, False))

    def test_the_samples_of_a_step_are_those_of_its_batches(self):
        """What an adapter concludes counts if it is a multiple of the DataLoader's batches, and what it states counts always."""
        cases = ((None, None, 32), (128, "calls", 128), (40, "calls", 32), (40, None, 40))
        next(self.loader)
        for step, source, batch in cases:
            report = {"batch": step, "batch_source": source}
            self.assertEqual(self.inputs.batch_of_step(report), {"batch": batch, "batch_source": None})
        without = Inputs(self.recorder).batch_of_step
        self.assertEqual(without({"batch": 40, "batch_source": "calls"}), {"batch": 40, "batch_source": "calls"})
        self.assertEqual(without({"batch": None, "batch_source": "calls"}), {"batch": None, "batch_source": None})

    def test_what_is_called_meanwhile_knows_that_it_is_input(self):
        """And only then."""
        self.assertFalse(self.recorder.loading())
        number = self.recorder.push("data", "data", None, "data")
        self.recorder.push("annotation", "augment")
        self.assertTrue(self.recorder.loading())
        self.recorder.close(number)
        self.assertFalse(self.recorder.loading())

    def test_all_is_as_it_was_when_it_is_over(self):
        """The classes have their own methods again."""
        self.inputs.detach()
        self.assertIs(type(self.loader).__next__, self.before)
        self.assertNotIn("__wrapped__", vars(type(self.own).__getitem__))


class _Tree(object):
    """Takes dictionaries and lists apart, as jax.tree_util does."""

    @staticmethod
    def tree_flatten_with_path(value, path=()):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
        if items is None:
            return [(path, value)], None
        return [leaf for key, one in items for leaf in _Tree.tree_flatten_with_path(one, (*path, key))[0]], None

    @staticmethod
    def keystr(path):
        return "".join("[%r]" % (key,) for key in path)


class _Array(object):
    def __init__(self, *shape, **keywords):
        self.shape, self.dtype = shape, keywords.get("dtype", "float32")


class CompilationsTest(unittest.TestCase):
    """Why a function is compiled anew."""

    def setUp(self):
        self.compilations = Compilations(types.SimpleNamespace(tree_util=_Tree))
        self.number = 0

    def function(self, static=()):
        """Return what stands for a compiled function, a new one each time, of one piece of code."""

        def step(weights, x, scale=1.0):
            return weights

        self.number += 1
        return types.SimpleNamespace(
            compiles=True, key=1, number=self.number, name="step", function=step, static=frozenset(static)
        )

    def call(self, calls, *arguments, **keywords):
        """Compile in a call of a function; return the reason and the example that are the newest."""
        mark = self.compilations.mark()
        self.compilations.happened("jit(step)", [calls])
        self.compilations.explain(calls, calls.function, arguments, keywords)
        found = self.compilations.since(mark)
        self.assertEqual(found["count"], 1)
        [one] = found["functions"]
        self.assertEqual((one["name"], one["count"]), ("step", 1))
        return one["kind"], one["why"], one["example"]

    def test_the_argument_is_named_whose_shape_or_type_changes(self):
        """With its path, and what it was before."""
        step = self.function()
        self.assertEqual(self.call(step, {"w": _Array(4, 4)}, _Array(31, 4))[0], "first")
        found = self.call(step, {"w": _Array(4, 4)}, _Array(32, 4), scale=7)
        self.assertEqual(found[0], "structure")  # one argument more
        found = self.call(step, {"w": _Array(4, 4)}, _Array(33, 4), scale=8)
        self.assertEqual(found, ("shape", "the shape of x changes", "float32[33,4] after float32[32,4]"))
        found = self.call(step, {"w": _Array(4, 4, dtype="int8")}, _Array(33, 4), scale=9)
        self.assertEqual(found, ("type", "the type of weights['w'] changes", "int8[4,4] after float32[4,4]"))

    def test_a_value_tells_only_where_the_argument_is_static(self):
        """Others are no reason to compile."""
        step, plain = self.function(static=["scale"]), self.function()
        self.call(step, _Array(1), _Array(1), scale=1.0)
        found = self.call(step, _Array(1), _Array(1), scale=2.0)
        self.assertEqual(found, ("static value", "the static value of scale changes", "2.0 after 1.0"))
        self.call(plain, _Array(1), _Array(1), scale=1.0)
        self.assertEqual(self.call(plain, _Array(1), _Array(1), scale=2.0)[0], "unknown")

    def test_a_function_that_is_made_anew_is_another_one(self):
        """Whatever its arguments are."""
        self.call(self.function(), _Array(1), _Array(1))
        self.assertEqual(self.call(self.function(), _Array(1), _Array(2))[0], "new")

    def test_operations_outside_of_compiled_functions_are_called_one_by_one(self):
        """Each counts by its own name."""
        mark = self.compilations.mark()
        self.compilations.happened("jit(multiply)", [])
        [one] = self.compilations.since(mark)["functions"]
        self.assertEqual((one["name"], one["kind"]), ("multiply", "eager"))

    def test_arguments_that_cannot_be_looked_at_do_not_reach_the_script(self):
        """The reason is unknown then."""

        class Hostile(object):
            @property
            def shape(self):
                raise RuntimeError

        step = self.function()
        self.assertEqual(self.call(step, Hostile(), 1)[0], "unknown")


class ScopesTest(unittest.TestCase):
    """Scopes around modules while a function is traced."""

    def setUp(self):
        self.open, self.seen, self.tracing = [], [], True

    def named_scope(self, name):
        """Stand for jax.named_scope."""
        scope = mock.MagicMock()
        scope.__enter__.side_effect = lambda: self.open.append(name)
        scope.__exit__.side_effect = lambda *_: self.open.pop() and None
        return scope

    def model(self):
        """Return a model of stand-ins for modules, and its class."""
        test = self

        class Module(object):
            pass

        class Layer(Module):
            def __call__(self):
                test.seen.append("/".join(test.open))

        class Wide(Layer):
            def __call__(self):
                super(Wide, self).__call__()

        class Net(Module):
            def __init__(self):
                self.stem, self.blocks, self.heads = Wide(), [Layer(), Layer()], {"a": Layer()}
                self.own = self

            def __call__(self):
                for layer in [self.stem, *self.blocks, self.heads["a"], Layer()]:
                    layer()

        scopes = Scopes(types.SimpleNamespace(named_scope=self.named_scope), lambda: self.tracing)
        scopes.know(Module)
        scopes.find()
        scopes.find()
        return Net()

    def test_each_module_has_its_path_in_the_model(self):
        """Also in lists and dictionaries; one that is made meanwhile has its class; a base's call is the same call."""
        self.model()()
        self.assertEqual(self.seen, ["Net/stem", "Net/blocks.0", "Net/blocks.1", "Net/heads.a", "Net/Layer"])
        self.assertEqual(self.open, [])

    def test_outside_of_tracing_nothing_is_opened(self):
        """Calls only go on."""
        self.tracing = False
        self.model()()
        self.assertEqual(self.seen, [""] * 5)


if __name__ == "__main__":
    unittest.main()
