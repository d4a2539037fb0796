"""What differs between frameworks when a script is profiled that knows nothing of us: one module each, with a class Adapter.

To add a framework: its module here with ``class Adapter(Base)``, and the module that its scripts import in `REGISTRY`. The order
of calls, all of them on the thread that imports or steps, none of them twice at the same time:

    __init__(recording)         after the framework's import has ended (recording: see `recording.Recording`)
    watch()                     find steps: from now on call recording.stepped(self, key) where a step may have ended
    found(key)                  warm-up is over: only recording.stepped(self, key) with this key ends steps from here on, other
    calls may go on or not; what was there only to search may be taken away attach(recorder, kernels)   layers and kernels
    passes: put ranges around phases and layers, with recorder.push(category, name, layer, phase) and recorder.pop(); returns
    {"layers": how, "phases": how} start_operators(folder)     kernels pass: start the framework's own operator trace, after
    attach settle()                    at the end of a pass's last step, inside it: wait for work that is queued on a device
    stop_operators()            write that trace into the folder; returns the names of the files, operators.* as in a run's
    folder detach()                    take away what attach put there stop()                      nothing more is recorded:
    take away everything

Steps. `key` is whatever ends: an optimizer, a trainer, a model that is called. Where several end in turn (two optimizers of one
loop, encoder and decoder), `rounds` chooses the one that ends a round of all, so an adapter tells all of them and chooses none.
A step lasts from one end to the next; everything in between belongs to it. `training` is False for calls that only infer: these
end steps as long as nothing trains. If a framework runs on top of another that has an adapter too (Keras on torch), the one
with the higher `rank` ends the steps and is the run's framework.

Layers have the full path of the model, as the framework's users write it (features.3.conv1). A call that is repeated within one
call of the model is numbered from the second on: "relu (2)". What Python does not see into (torch.compile, tf.function,
hybridised blocks) is one layer with its name and the reason in the methods, unless names recorded by the framework tell more.

An adapter must not change what the script computes, prints or writes, nor keep the script's objects alive once detached. It
raises what it likes: `recording` turns every exception into a reason in the run folder and lets the script go on.
"""

import importlib

from kernelscope.tracer.inside.profiling import budget

# module that scripts import -> our module here; its class Adapter is made when the import has ended
REGISTRY = {
    "torch": "pytorch",
    "tensorflow": "tensorflow",
    "jax": "jax",
    "keras": "keras",
    "mxnet": "mxnet",
    "cntk": "cntk",
}


class Base(object):
    """An adapter that finds nothing; see the module's documentation for what the methods mean."""

    framework = ""  # as in run.json and in the names of tracer.inside.hooks and analysis.attribution.frameworks
    rank = 0  # of the frameworks that tell steps the one with the highest rank counts
    queues = False  # whether steps end while their work still waits, so that it has to be waited for at each window's end

    compiled = None  # what was compiled so far, with mark() and since(mark) (see jax_compiling); None where that is not told
    prints = True  # whether there are libraries that print their calls: catching what they print costs time between steps

    def __init__(self, recording):
        self.recording = recording

    def watch(self):
        """Find steps."""
        raise NotImplementedError

    def found(self, key):
        """Search no longer: `key` ends steps."""

    def step_end(self, key):
        """Return in some words where a step ends, "with a call of Net", if `key` ends steps; nothing where that is not told."""
        return ""

    def attach(self, recorder, kernels):
        """Put ranges around phases and layers; return how they are found."""
        return {"layers": "none", "phases": "none"}

    def costs(self, bare_ns):
        """Return the budget.Costs of this adapter's ranges, given what a bare one costs."""
        return budget.Costs(bare_ns)

    def keep(self, kept, phases):
        """Layers pass, between two steps: from now on put ranges around these layers only, and phases (see budget.Choice).

        Return False where all stay.
        """
        return False

    def detach(self):
        """Take away what attach put there."""

    def start_operators(self, folder):
        """Start the framework's operator trace."""

    def part_operators(self):
        """Kernels pass, between two steps: write the trace so far and go on with another one; return the names of its files.

        Without any that cannot be done: the pass ends when the trace has grown large.
        """
        return []

    def stop_operators(self):
        """End the operator trace and write it; return the names of its files."""
        return []

    def printing(self, on):
        """Let libraries print each of their calls, or stop them; return {library: reason} of those that cannot be told to."""
        return {}

    def process_rank(self):
        """Return this process's number among those that train one model together, from 0; None where nothing says so."""

    def settle(self):
        """Wait for work that is queued on a device."""

    def stop(self):
        """Take away everything."""

    def versions(self):
        """Return versions as tracer.inside.hooks.Hooks.versions does."""
        return {}

    def settings(self):
        """Return settings as tracer.inside.hooks.Hooks.settings does."""
        return {}

    def described(self):
        """Return what is known of the model and its use: {"batch", "device", "network"}; null where it is not.

        network: {"name", "title", "parameters", "layers": [{"name", "type", "parameters"}]} with layers as they are named in
        ranges, in the order of their calls; other keys as workloads.networks.as_dict has them.
        """
        return {"batch": None, "device": "cpu", "network": None}


def adapter(name):
    """Return the class of the framework's adapter."""
    return importlib.import_module(__name__ + "." + name).Adapter
