"""Scripts that do what no script should: the first argument says what, between steps of the toy framework."""

import builtins
import concurrent.futures
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time

import toy_adapter

from kernelscope.tracer.inside.profiling import recording

STEPS = 60
_taken = []


def crashes():
    run(STEPS)
    raise RuntimeError("the script's own fault")


def crashes_in_between():
    run(10)
    raise RuntimeError("the script's own fault")


def replaces_stdout():
    kept, sys.stdout = sys.stdout, io.StringIO()
    run(STEPS, lambda number: print("to nobody", number))
    text, sys.stdout = sys.stdout.getvalue(), kept
    print(len(text.splitlines()), "lines were kept")


def forks():
    def fork(number):
        if number % 5 == 0:
            child = os.fork()
            if child == 0:
                os.write(1, b"child of %d\n" % number)
                toy_adapter.step(number)
                os._exit(0)
            os.waitpid(child, 0)

    run(STEPS, fork)


def closes_descriptors():
    def close(number):
        if number == 9:  # in the kernels pass, when descriptor 1 is ours
            os.close(1)
            os.close(2)

    run(STEPS, close, quiet=True)


def closes_descriptors_first():
    os.close(1)
    os.close(2)
    run(STEPS, quiet=True)


def writes_much():
    block = b"x" * (1 << 20)
    run(STEPS, lambda number: [os.write(1, block) for _ in range(8)], quiet=True)


def writes_much_and_dies():
    def write(number):
        if toy_adapter.Adapter.current.verbose:
            for _ in range(20):
                os.write(1, b"y" * (1 << 20))
            os.kill(os.getpid(), 9)

    run(STEPS, write, quiet=True)


def goes_on_without_steps():
    run(8)
    time.sleep(1.2)


def replaces_what_steps():
    run(8)
    toy_adapter.Adapter.replaced = lambda self: "Toy.step"
    time.sleep(0.1)


def changes_directory():
    os.chdir("/")
    run(STEPS)


def deletes_its_folder():
    folder = os.getcwd()
    run(2 * STEPS, lambda number: number == int(sys.argv[1]) and shutil.rmtree(folder))


def forbidden(*arguments, **keywords):
    raise AssertionError("not while training")


class Mocked:
    """What is called becomes this; its text, as its own JSON, fails."""

    __call__ = __getattr__ = __enter__ = lambda self, *arguments, **keywords: self
    __str__ = __repr__ = __index__ = forbidden

    def __exit__(self, *raised):
        return None


def replaced(values):
    """Run all steps while functions of modules are others."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in values]
    for owner, name, value in values:
        setattr(owner, name, value)
    run(STEPS)
    for owner, name, value in before:
        setattr(owner, name, value)


def forbids_open():
    replaced([(builtins, "open", forbidden), (io, "open", forbidden)])


def mocks_open():
    replaced([(builtins, "open", Mocked())])


def replaces_functions():
    print("before", flush=True)
    values = [(os, "getpid", lambda: 1), (threading, "get_ident", lambda: 1), (sys, "stdout", Mocked())]
    of_os = [(os, name, forbidden) for name in ("open", "listdir", "fstat", "statvfs", "dup", "unlink", "makedirs")]
    of_paths = [(os.path, name, forbidden) for name in ("join", "getsize", "abspath", "relpath")]
    of_json = [(json, name, forbidden) for name in ("dump", "dumps", "load", "loads")]
    of_time = [(time, name, Mocked()) for name in ("time", "perf_counter", "perf_counter_ns", "monotonic")]
    replaced(values + of_os + of_paths + of_json + of_time + [(builtins, "print", forbidden)])


def empties_the_path():
    """Nothing of the standard library can be imported any more that was not before."""
    sys.path[:] = []
    run(STEPS)


def fails_in_the_recorder():
    """What the recorder does fails, and so does what it would note of that."""
    from kernelscope.tracer.inside import own
    from kernelscope.tracer.inside.profiling import faults, passes, recording

    own.os.path.join = recording.open = passes.open = faults.open = forbidden
    run(STEPS)


def becomes_another():
    os.execv(sys.executable, [sys.executable, "-c", "print('another')"])


def closes_all_descriptors():
    """And has files of its own under their numbers, which nobody may close."""

    def close(number):
        if number == 1:
            os.closerange(3, 32)
            take_descriptors()

    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    run(5, close)
    for descriptor in _taken:
        os.fstat(descriptor)
    print("all are there", flush=True)


def closes_descriptors_among_kernels():
    """And has a file of its own under their numbers, into which nobody else may write."""
    path = os.path.join(tempfile.mkdtemp(), "data")
    content = b"data of the program " * 1000
    with open(path, "wb") as out:
        out.write(content)

    def close(number):
        recorded = recording.current().recording
        if recorded is not None and recorded.name == "kernels" and not _taken:
            os.closerange(3, 1024)
            _taken.extend(os.open(path, os.O_RDWR) for _ in range(60))

    run(STEPS, close)
    with open(path, "rb") as file:
        print("unchanged" if file.read() == content else "changed", flush=True)


def take_descriptors(number=0):
    try:
        while True:
            _taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass


def uses_up_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    take_descriptors()
    run(STEPS)


def uses_up_descriptors_again_and_again():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    run(STEPS, take_descriptors)


def steps_on_a_thread():
    thread = threading.Thread(target=run, args=(STEPS,))
    thread.start()
    thread.join()


def changes_what_is_traced():
    sys.settrace(lambda *_: None)
    run(STEPS)
    sys.settrace(None)


def steps_in_several_threads():
    threads = [threading.Thread(target=run, args=(STEPS, lambda number: None, True)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def steps_in_a_pool():
    """One thread at a time, and not always the same one."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number in range(STEPS):
            if number % 7 == 0:
                list(pool.map(time.sleep, (0.001, 0.001)))
            pool.submit(run, 1, quiet=True).result()


def steps_in_a_thread_that_ends():
    """In the third pass, where a framework's profiler is on; others make the rest."""
    for steps in (9, 46):
        thread = threading.Thread(target=run, args=(steps, lambda number: None, True))
        thread.start()
        thread.join()


def limits_its_time():
    """By a handler that raises, wherever it interrupts."""

    def over(number, frame):
        raise TimeoutError

    signal.signal(signal.SIGALRM, over)
    kept = 0
    for _ in range(50):
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        try:
            run(1000, lambda number: None, quiet=True)
        except TimeoutError:
            kept += 1
    print(kept, "limits were kept")


def is_interrupted_amid_ends(always=False):
    """By a handler that raises while a step ends: once in each pass, or always."""
    recorder = toy_adapter.Adapter.current.recording
    seen, add = set(), recorder._steppers.add

    def over(number, frame):
        raise TimeoutError

    def adding(thread):
        if recorder.recording is not None and (always or recorder.recording.name not in seen):
            seen.add(recorder.recording.name)
            os.kill(os.getpid(), signal.SIGALRM)
        add(thread)

    signal.signal(signal.SIGALRM, over)
    recorder._steppers.add = adding
    kept = 0
    for _ in range(2 * STEPS):
        try:
            run(1, quiet=True)
        except TimeoutError:
            kept += 1
    print(kept, "interruptions")


def is_always_interrupted():
    is_interrupted_amid_ends(always=True)


def starts_its_own_profiler():
    def start(number):
        adapter = toy_adapter.Adapter.current
        if adapter.verbose:
            adapter.giving_way("toy.profiler")(lambda: None)()

    run(STEPS, start)


def run(count, before=lambda number: None, quiet=False):
    """Run as many steps, each after `before`; quiet: without what the toy's steps print."""
    for number in range(count):
        before(number)
        if quiet:
            time.sleep(0.001)
            toy_adapter.Adapter.current.recording.stepped(toy_adapter.Adapter.current, 1)
        else:
            toy_adapter.step(number)


if __name__ == "__main__":
    toy_adapter.install()
    globals()[sys.argv[-1]]()
