"""Tests of the code inside a framework that need nothing but Python's own library: run under Python 3.6 and by pytest."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from kernelscope.tracer.inside import child, choices, clock, disclosure, memory, nvtx, plan, remedies, steady
from kernelscope.tracer.inside.ranges import Recorder, native_thread_id

PROGRAM = """
import ctypes, os, sys
from kernelscope.tracer.inside.streams import StreamCapture
capture = StreamCapture(sys.argv[1])
libc = ctypes.CDLL(None)
print("from python")
libc.printf(b"onednn_verbose,one\\n")
os.write(capture.marker_fd, b"@kernelscope 1 B x\\n")
libc.printf(b"onednn_verbose,two\\n")
os.write(2, b"to stderr\\n")
sys.stderr.write("python's stderr\\n")
"""


def rows(folder, name):
    """Return the objects of a JSON Lines file."""
    with open(os.path.join(folder, name)) as file:
        return [json.loads(line) for line in file]


class RemedyTest(unittest.TestCase):
    """What frameworks say of devices, as they say it, and what is said to do."""

    def test_known_faults_have_a_remedy_of_their_own(self):
        """In one line, which names the fault in the framework's words."""
        for message, fault, remedy in (
            ("OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 14.6 GiB",
             "Tried to allocate 20.00 GiB", "smaller --batch"),
            ("ResourceExhaustedError: Graph execution error:\n\nOOM when allocating tensor with shape[1000000,784]\n\t [[x]]",
             "OOM when allocating tensor", "smaller --batch"),
            ("MXNetError: Traceback (most recent call last):\n  File x\nMXNetError: cudaMalloc retry failed: out of memory",
             "cudaMalloc retry failed", "smaller --batch"),
            ("RuntimeError: CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors might be",
             "no kernel image", "no code for this GPU"),
            ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", "too old", "update the driver"),
            ("RuntimeError: No CUDA GPUs are available", "No CUDA GPUs", "--device cpu"),
            ("RuntimeError: CUDA error: unspecified launch failure", "unspecified", "CUDA_LAUNCH_BLOCKING=1"),
            ("NVMLError_GpuIsLost: GPU is lost", "GPU is lost", "Xid"),
            ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", "busy", "another process"),
        ):  # fmt: skip
            told = remedies.remedied(message)
            self.assertNotIn("\n", told)
            self.assertIn(fault, told)
            self.assertIn("; ", told)
            self.assertIn(remedy, told.split("; ", 1)[1])

    def test_other_errors_are_as_they_are(self):
        """Their first line, and nothing made up."""
        self.assertEqual(remedies.remedied("ValueError: 3\nmore"), "ValueError: 3")
        self.assertEqual(remedies.remedied(""), "")


class ProgramTest(unittest.TestCase):
    """A user's program in place of the workload's own."""

    def setUp(self):
        """Make a folder."""
        self.temporary = tempfile.TemporaryDirectory()

    def tearDown(self):
        """Remove it."""
        self.temporary.cleanup()

    def load(self, text, devices=1):
        """Return the class of a file with this text, whose name would hide a module of Python's library."""
        path = os.path.join(self.temporary.name, "json.py")
        with open(path, "w") as file:
            file.write(text)
        return child.program_class("pytorch", path, devices)

    def test_the_class_comes_from_the_file(self):
        """It can tell where its source is, as tracing compilers and line profilers ask."""
        program = self.load("class Program(object):\n    def where(self):\n        return __file__\n")
        self.assertTrue(program().where().endswith("json.py"))
        self.assertIs(sys.modules[program.__module__].Program, program)
        self.assertTrue(hasattr(json, "dumps"))

    def test_several_devices_are_for_a_class_that_says_so(self):
        """Others are refused, which is no fault."""
        self.assertEqual(self.load("class Program(object):\n    DEVICES = True\n", 2).__name__, "Program")
        with self.assertRaisesRegex(ValueError, "pytorch: a step on 2 devices is not supported: Program of json.py does not set"):
            self.load("class Program(object):\n    pass\n", 2)

    def test_what_is_wrong_names_the_file(self):
        """Also where the import fails: that is no missing framework."""
        with self.assertRaisesRegex(RuntimeError, "json.py: defines no class Program"):
            self.load("class Programme(object):\n    pass\n")
        with self.assertRaisesRegex(RuntimeError, "json.py: import failed: .*no_such_module"):
            self.load("import no_such_module\n")


class MemoryTest(unittest.TestCase):
    """Resident memory of several processes."""

    def test_processes_add_up(self):
        """Also where one has ended."""
        one, both = memory.resident(), memory.resident(["self", os.getpid(), 1 << 30])
        self.assertEqual(set(one), {"peak_resident_bytes", "resident_bytes"})
        self.assertAlmostEqual(both["peak_resident_bytes"] / one["peak_resident_bytes"], 2.0, places=1)


FAULTS = """
import resource, sys
from kernelscope.tracer.inside import heap
if sys.argv[1] == "touched":
    heap.touch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
block = b"x" * (100 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


class HeapTest(unittest.TestCase):
    """Pages of the heap before they are needed."""

    def faults(self, how, **variables):
        """Return the page faults of taking 100 MiB, that is 25600 pages."""
        environment = dict(os.environ, **variables)
        return int(subprocess.check_output([sys.executable, "-c", FAULTS, how], env=environment))

    def test_what_is_taken_after_a_touch_is_there(self):
        """Only where the heap keeps what is given back; elsewhere nothing happens."""
        kept = {"MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_MMAP_THRESHOLD_": "1073741824"}
        self.assertGreater(self.faults("untouched", **kept), 1000)
        self.assertLess(self.faults("touched", **kept), 100)
        self.assertGreater(self.faults("touched"), 20)


class RangesTest(unittest.TestCase):
    """Steps and ranges as they are recorded and written."""

    def setUp(self):
        """Make a folder."""
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name

    def tearDown(self):
        """Remove it."""
        self.temporary.cleanup()

    def test_steps_and_nested_ranges(self):
        """A step lasts from asking for a batch to asking for the next one."""
        recorder = Recorder(self.folder, layers=True)
        recorder.window = 7
        seen = []
        recorder.push("layer", "outside of steps")
        recorder.pop()
        for item in recorder.steps(iter("abc"), 2):
            seen.append(item)
            recorder.push("phase", "forward", phase="forward")
            recorder.push("layer", "fc1", layer="fc1", phase="forward")
            time.sleep(0.002)
            recorder.pop()
            recorder.pop()
        recorder.flush()
        self.assertEqual(seen, ["a", "b"])
        steps = rows(self.folder, "steps.jsonl")
        self.assertEqual([(s["step"], s["window"], s["warmup"]) for s in steps], [(0, 7, False), (1, 7, False)])
        self.assertTrue(all(s["end_ns"] - s["start_ns"] >= 2000000 for s in steps))
        self.assertLessEqual(steps[0]["end_ns"], steps[1]["start_ns"])
        self.assertTrue(all(s["minor_faults"] >= 0 and s["thread"] == native_thread_id() for s in steps))
        ranges = rows(self.folder, "ranges.jsonl")
        self.assertEqual([r["name"] for r in ranges], ["data", "fc1", "forward", "step 0", "data", "fc1", "forward", "step 1"])
        inner, outer, step = ranges[1], ranges[2], ranges[3]
        self.assertTrue(step["start_ns"] <= outer["start_ns"] <= inner["start_ns"] < inner["end_ns"] <= outer["end_ns"])
        self.assertEqual((inner["layer"], inner["phase"], inner["step"]), ("fc1", "forward", 0))

    def test_a_call_in_which_a_step_ends_is_recorded_in_both_steps(self):
        """A loop's last batch ends a step within the loop's call: the rest of it has a range of its own."""
        recorder = Recorder(self.folder, layers=True)
        recorder.close_parts(recorder.push("phase", "fit", None, "other"), None, "end of fit", "other")
        recorder.begin_step()
        inside = recorder.push("phase", "predict", None, "other")
        recorder.close_parts(inside, None, "end of predict", "other")
        number = recorder.push("phase", "fit", None, "other")
        recorder.end_step()
        recorder.begin_step()
        since = clock.now_ns()
        recorder.close_parts(number, since, "end of fit", "other")
        recorder.end_step()
        recorder.close_parts(number, since, "end of fit", "other")
        recorder.flush()
        ranges = rows(self.folder, "ranges.jsonl")
        self.assertEqual([r["name"] for r in ranges], ["predict", "fit", "step 0", "end of fit", "step 1"])
        self.assertEqual((ranges[3]["start_ns"], ranges[3]["step"]), (since, 1))
        self.assertLessEqual(ranges[4]["start_ns"], since)

    def test_without_layers_only_steps_are_recorded(self):
        """The clean pass records nothing but steps."""
        recorder = Recorder(self.folder)
        for _ in recorder.steps(iter("ab"), 2, warmup=True):
            recorder.push("layer", "fc1")
            recorder.pop()
        recorder.flush()
        self.assertEqual(rows(self.folder, "ranges.jsonl"), [])
        self.assertEqual([s["warmup"] for s in rows(self.folder, "steps.jsonl")], [True, True])

    def test_steps_between_two_readings_share_what_was_used(self):
        """In proportion to how long they took, to the last fault and nanosecond; after the last reading it is unknown."""

        def used(user, faults):
            return resource.struct_rusage((user, 0.5) + (0,) * 4 + (faults,) + (0,) * 9)

        with mock.patch("resource.getrusage", side_effect=[used(1.0, 100)]):
            recorder = Recorder(self.folder)
            recorder.begin_step(since=1000)
        stamps = [(2000, None, 2000), (5000, None, 5000), (6000, used(1.0625, 113), 6000), (7000, None, 7000)]
        recorder.ended(stamps, False, [0] * len(stamps))
        self.assertEqual(recorder.busy_times(), {0: 1000, 1: 3000, 2: 1000, 3: 1000})
        recorder.flush()
        steps = rows(self.folder, "steps.jsonl")
        self.assertEqual([s["minor_faults"] for s in steps], [2, 8, 3, None])
        self.assertEqual([s["user_ns"] for s in steps], [12500000, 37500000, 12500000, None])
        self.assertEqual([s["system_ns"] for s in steps], [0, 0, 0, None])

    def test_ranges_are_emitted_to_nvtx_in_pairs(self):
        """What a tool would receive: the same nesting, counted."""

        class Listener(object):
            def __init__(self):
                self.calls = []

            def push(self, name):
                self.calls.append(name)

            def pop(self):
                self.calls.append(None)

        listener = Listener()
        recorder = Recorder(self.folder, layers=True, nvtx=listener)
        for _ in recorder.steps(iter("a"), 1):
            recorder.push("layer", "fc1")
            recorder.pop()
        self.assertEqual(listener.calls, ["step 0", "data", None, "fc1", None, None])

    def test_streams_keep_the_order_of_library_output_and_markers(self):
        """C output and markers stay in order; what Python prints goes where it went before."""
        command = [sys.executable, "-c", PROGRAM, self.folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "from python\n", "python's stderr\n"))
        with open(os.path.join(self.folder, "stdout.raw")) as file:
            self.assertEqual(file.read(), "onednn_verbose,one\n@kernelscope 1 B x\nonednn_verbose,two\n")
        with open(os.path.join(self.folder, "stderr.raw")) as file:
            self.assertEqual(file.read(), "to stderr\n")


class ClockTest(unittest.TestCase):
    """The clock and its anchors."""

    def test_clock_is_the_monotonic_one(self):
        """Both readings are of CLOCK_MONOTONIC, so that other processes' stamps can be compared."""
        before, ours, after = time.monotonic(), clock.now_ns(), time.monotonic()
        self.assertTrue(before * 1e9 - 1e3 <= ours <= after * 1e9 + 1e3)

    def test_anchor_ties_the_wall_clock(self):
        """The anchor's two readings belong together within its stated uncertainty and a scheduler's slice."""
        anchor = clock.anchor()
        offset = anchor["wall_ns"] - anchor["monotonic_ns"]
        again = time.time() * 1e9 - time.monotonic() * 1e9
        self.assertLess(abs(offset - again), 5e6)
        self.assertGreaterEqual(anchor["uncertainty_ns"], 0)


class SteadyTest(unittest.TestCase):
    """When a loop counts as warm."""

    def test_falling_times_are_not_settled(self):
        """A loop that still gets faster is not warm."""
        self.assertFalse(steady.settled([100, 90, 80, 70, 60, 50, 45, 40, 35, 30], 5))

    def test_windows_that_lie_apart_waver(self):
        self.assertTrue(steady.wavers([30] * 10 + [55] * 5 + [30] * 4, 5))
        self.assertFalse(steady.wavers([30, 31, 29, 30, 60] * 4, 5))
        self.assertFalse(steady.wavers([30] * 5 + [34] * 5 + [31] * 5, 5))
        self.assertFalse(steady.wavers([30, 60, 90], 5))

    def test_level_times_are_settled_after_the_minimum(self):
        """Two groups alike settle it, but not before the minimum."""
        self.assertTrue(steady.settled([500] + [30] * 10, 5))
        self.assertFalse(steady.settled([30] * 10, 20))
        self.assertFalse(steady.settled([30] * 9, 5))

    def test_no_warmup_asked_for(self):
        """A minimum of 0 means that no warm-up is wanted."""
        self.assertTrue(steady.settled([], 0))

    def test_long_steps_are_warmed_up_one_at_a_time(self):
        second = 10**9
        self.assertEqual(steady.group([], 10, 30.0), steady.GROUP)
        self.assertEqual(steady.group([], 1, 3.0), 1, "how long a step takes is not known yet")
        self.assertEqual(steady.group([second], 1, 6.0), steady.GROUP)
        self.assertEqual(steady.group([second], 1, 4.0), 1)


class OptionsTest(unittest.TestCase):
    def test_what_nobody_looked_at_is_ignored(self):
        options = choices.Options({"mode": "train", "precision": "bfloat16", "layout": "channels_last", "autotune": None})
        self.assertEqual(options["mode"], "train")
        self.assertEqual(options.ignored(), ["precision bfloat16", "layout channels_last"])
        self.assertEqual(options.get("layout"), "channels_last")
        self.assertEqual(options.ignored(), ["precision bfloat16"])
        self.assertEqual(options["precision"], "bfloat16")
        self.assertEqual(options.ignored(), [])

    def test_what_is_left_to_the_framework_need_not_be_looked_at(self):
        self.assertEqual(choices.Options({"precision": None}).ignored(), [])


class OrderTest(unittest.TestCase):
    def test_only_wanted_passes_run_in_the_usual_order(self):
        self.assertEqual(plan.order(2, ("lines", "clean")), [("clean", 1), ("clean", 2), ("lines", 1)])
        self.assertEqual(plan.order(1)[0], ("check", 1))

    def test_steady_clean_passes_go_on_until_enough_was_measured(self):
        planned = plan.windows(7)
        self.assertEqual([plan.window(planned, n, 0, "clean", False) for n in range(3)], [5, 2, 0])
        self.assertEqual([plan.window(planned, n, 0, "layers", True) for n in range(3)], [5, 2, 0])
        self.assertEqual([plan.window(planned, n, plan.STEADY_NS, "clean", True) for n in range(3)], [5, 2, 0])
        self.assertEqual([plan.window(planned, n, 0, "clean", True) for n in (0, 1, 2, 99, 100)], [5, 2, 5, 5, 0])


class NvtxTest(unittest.TestCase):
    """NVTX is only loaded when a tool listens."""

    def test_silent_without_a_tool(self):
        """No tool, no library."""
        saved = {name: os.environ.pop(name, None) for name in ("NVTX_INJECTION64_PATH", "KERNELSCOPE_NVTX_LIBRARY")}
        try:
            self.assertIsNone(nvtx.load())
        finally:
            os.environ.update({name: value for name, value in saved.items() if value is not None})


class Disclosure(unittest.TestCase):
    def test_secrets_of_an_environment_and_of_source_are_taken_out(self):
        hiding = disclosure.Hiding()
        joined = hiding.text("A=1\0B=2\0MY_TOKEN=Zq7rT2mLw9Xv4Bn8Kd3f\0D=x")
        self.assertEqual(joined, "A=1\0B=2\0MY_TOKEN=(not recorded)\0D=x")
        self.assertEqual(hiding.text('def f(password="hunter2Zx9"): é'), 'def f(password="(not recorded)"): é')


if __name__ == "__main__":
    unittest.main()
