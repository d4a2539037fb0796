"""The process that reads ahead: the same Trace with it and without it, and nothing lost or left over when it dies."""

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from kernelscope.analysis import helper
from kernelscope.analysis.readers import nsys_columns

SECRET = "ghp_" + "a1B2c3D4" * 5

# The process that forks must have no threads: so each test reads in a process of its own. BEFORE and DURING are Python.
READ = """
import os, signal, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from pathlib import Path
from kernelscope.analysis import helper
from kernelscope.analysis.errors import EvidenceError
helper._WORTHWHILE = 0
{before}
path = Path(sys.argv[1])
try:
    with helper.started(path) as ahead:
        print("helpers", len(ahead._workers) if ahead else 0)
        {during}
        from kernelscope.analysis import captures
        from kernelscope.analysis.captures import nsys
        here = []
        for name, decode in list(nsys.GATHERED.items()):
            nsys.GATHERED[name] = lambda *given, name=name, decode=decode: here.append(name) or decode(*given)
        trace = captures.read(path, None, ahead)
    print("decoded here", ",".join(here))
    for name in ("kernels", "calls", "ranges", "copies"):
        print(getattr(trace, name).to_csv(index=False))
    print(trace.info, trace.diagnostics)
except EvidenceError as error:
    print("error", error)
try:
    os.waitpid(-1, os.WNOHANG)
    print("children are left")
except ChildProcessError:
    print("no children")
"""


def read(path, before="", during=""):
    """The output of a process that reads with a helper: (first line, what was decoded without it, the rest)."""
    script = READ.replace("{before}", before).replace("{during}", during or "pass")
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    assert done.stdout.endswith("no children\n")
    first, _, rest = done.stdout.partition("\n")
    here, _, rest = rest.partition("\n") if "decoded here" in rest else ("", "", rest)
    return int(first.removeprefix("helpers ")), here.removeprefix("decoded here").strip(), rest


@pytest.fixture
def export(tmp_path):
    path = tmp_path / "export.sqlite"
    database = sqlite3.connect(path)
    thread = 7 << 24 | 9
    database.executescript("""
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER,
            correlationId INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, text TEXT, textId INTEGER,
            domainId INTEGER);
    """)
    texts = ["sgemm_kernel", "cudaLaunchKernel_v7000", "layer", f"GITHUB_TOKEN={SECRET}", "domain's name"]
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(texts))
    for number in range(300):
        at = 1000 + 100 * number
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, ?, ?, ?, 0, ?, 1, 1)",
            (at + 30, at + 90, 7 + number % 2, number, 7 << 24, number % 3),
        )
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, 1, ?)", (at + 10, at + 20, thread, number))
        text = ("own text", None) if number % 5 == 0 else (None, 2)
        end = None if number == 299 else at + 95
        database.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, ?, ?)", (at, end, thread, *text, number % 2))
    database.execute("INSERT INTO NVTX_EVENTS VALUES (1, NULL, 75, ?, NULL, 4, 1)", (thread,))
    database.commit()
    database.close()
    return path


@pytest.fixture
def alone(export):
    return read(export, before="helper._possible = lambda: False")[2]


@pytest.mark.parametrize(("before", "helpers"), [("", 1), ("helper._LARGE = 0", 2)])
def test_the_same_trace_with_helpers(export, alone, before, helpers):
    assert read(export, before) == (helpers, "", alone)
    assert "sgemm_kernel" in alone
    assert "own text" in alone
    assert "domain's name" in alone
    assert "looks like a secret: GitHub token" in alone
    assert SECRET not in alone


@pytest.mark.parametrize(
    ("before", "during"),
    [
        ("", "ahead._workers[0].close()"),
        ("helper._LARGE = 0", "ahead._workers[1].close()"),
        ("helper._run = lambda *given: os._exit(1)", ""),
        ("helper._send = lambda *given: os.kill(os.getpid(), signal.SIGKILL)", ""),
        ("helper._decode = lambda path, names, parent: parent.sendall(b'cut')", ""),
        ("helper._decode = lambda path, names, parent: parent.sendall(helper._HEAD.pack(1000, 0) + b'cut')", ""),
        ("from kernelscope.analysis import helper_messages\nhelper_messages._packed = lambda message: b'no message'", ""),
        ("def refused(): raise BlockingIOError(11, 'no more processes')\nos.fork = refused", ""),
    ],
)
def test_what_a_helper_does_not_deliver_is_done_without_it(export, alone, before, during):
    _, here, rest = read(export, before, during)
    assert rest == alone
    assert here.endswith("ranges")


def test_a_helper_that_dies_before_the_secrets(export, alone):
    before = """send = helper._send
helper._send = lambda parent, body, memory: os._exit(1) if b'"remarks"' in body else send(parent, body, memory)"""
    assert read(export, before) == (1, "", alone)


def closed(export):
    """All ranges end: then a helper that decodes everything ties kernels to ranges, too."""
    with closing(sqlite3.connect(export)) as database, database:
        database.execute("UPDATE NVTX_EVENTS SET end = start + 1000 WHERE end IS NULL")


NOT_HERE = """
from kernelscope.analysis import launches, kernel_lookup
launches._launched = kernel_lookup._look = {enclosing} = None
"""


@pytest.mark.parametrize(("large", "enclosing"), [(False, True), (True, False)])
def test_launches_are_tied_and_names_looked_up_by_the_helper(export, large, enclosing):
    closed(export)
    expected = read(export, before="helper._possible = lambda: False")[2]
    before = f"helper._LARGE = {0 if large else 1 << 40}"
    during = NOT_HERE.format(enclosing="launches._enclosing" if enclosing else "ignored").replace("\n", "\n        ")
    helpers, here, rest = read(export, before, during)
    assert (helpers, here, rest) == (2 if large else 1, "", expected)
    assert "gemm" in rest


def test_open_ranges_are_tied_by_the_process_that_knows_where_they_end(export, alone):
    during = NOT_HERE.format(enclosing="ignored").replace("\n", "\n        ")
    assert read(export, during=during) == (1, "", alone)


@pytest.mark.parametrize("task", ["ties", "names"])
def test_a_helper_that_dies_before_the_ties_or_the_names(export, task):
    closed(export)
    expected = read(export, before="helper._possible = lambda: False")[2]
    before = f"""send = helper._send
helper._send = lambda parent, body, memory: os._exit(1) if b'"task": "{task}"' in body else send(parent, body, memory)"""
    assert read(export, before) == (1, "", expected)


def test_ties_of_other_tables_are_not_taken(export):
    """Calls at impossible times are set aside after the helper has tied all rows."""
    closed(export)
    with closing(sqlite3.connect(export)) as database, database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 1 << 60, end = (1 << 60) + 5 WHERE correlationId = 7")
    expected = read(export, before="helper._possible = lambda: False")[2]
    assert "a clock jumped" in expected
    assert read(export) == (1, "", expected)


def test_a_damaged_table_is_told_as_without_a_helper(export):
    content = bytearray(export.read_bytes())
    page = 4096
    for start in range(page, len(content), page):
        if content[start] == 0x0D:
            content[start + 8 : start + 10] = b"\xff\xff"
    export.write_bytes(content)
    expected = read(export, before="helper._possible = lambda: False")[2]
    assert "points outside of itself" in expected
    assert read(export)[2] == expected


def test_files_that_are_no_databases_are_searched_for_secrets(tmp_path):
    path = tmp_path / "trace.json"
    event = '{"ph": "X", "name": "aten::mm", "cat": "cpu_op", "ts": 1, "dur": 2, "pid": 3, "tid": 3, "args": {"External id": 1}}'
    path.write_text(f'{{"schemaVersion": 1, "traceEvents": [{event}], "note": "{SECRET}"}}')
    helpers, _, rest = read(path)
    assert helpers == 1
    assert "looks like a secret: GitHub token" in rest


def test_no_helper_beside_threads_nor_for_small_files(export, monkeypatch):
    monkeypatch.setattr(helper, "_WORTHWHILE", 0)
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        with helper.started(export) as ahead:
            assert ahead is None
    finally:
        release.set()
        thread.join()
    monkeypatch.undo()
    monkeypatch.setattr(helper, "_possible", lambda: True)
    with helper.started(export) as ahead:
        assert ahead is None
    with helper.started(Path("/nowhere")) as ahead:
        assert ahead is None


@pytest.mark.parametrize("missing", ["fork", "memfd_create", "sched_getaffinity"])
def test_no_helper_where_the_system_has_none(missing, monkeypatch):
    monkeypatch.delattr(os, missing)
    assert not helper._possible()


def test_nobody_waits_for_events_that_no_process_gathers(export):
    assert not helper.Helper(export, []).is_gathering()


# A program of a user's own: BEFORE is Python, and what forks tells how many threads there are by then.
PROGRAM = """
import os, sys
from kernelscope.analysis import helper
import kernelscope.analysis as ka
helper._WORTHWHILE = 0
fork = os.fork
os.fork = lambda: print("forked, threads:", len(os.listdir("/proc/self/task"))) or fork()
{before}
trace = ka.read(sys.argv[1])
print(trace.kernels.to_csv(), trace.ranges.to_csv(), trace.info["warnings"])
"""


@pytest.mark.parametrize(
    ("before", "forked"),
    [
        ("", True),
        ("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()", False),
        ("helper._possible = lambda: False", False),
    ],
)
def test_reading_in_a_program_starts_a_helper_unless_there_are_threads(export, before, forked):
    script = PROGRAM.replace("{before}", before)
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(export)], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert done.stdout.count("forked, threads: 1") == done.stdout.count("forked") == forked
    assert "own text" in done.stdout
    assert "looks like a secret: GitHub token" in done.stdout


# How many threads numpy's linear algebra has, and what a user's variable says; BEFORE is Python.
BLAS_THREADS = """
import ctypes, os, sys
from pathlib import Path
import kernelscope.analysis as ka
from kernelscope.analysis import helper
helper._WORTHWHILE = 0
{before}
import numpy
names = [prefix + "openblas_get_num_threads" + suffix for prefix in ("", "scipy_") for suffix in ("", "64_", "_64")]
for file in sorted({line.split()[-1] for line in open("/proc/self/maps") if "openblas" in line}):
    library = ctypes.CDLL(file)
    print("threads", [getattr(library, name)() for name in names if hasattr(library, name)])
print(os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.parametrize("variables", [{}, {"OPENBLAS_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "1"}])
def test_reading_takes_no_threads_from_the_programs_linear_algebra(export, variables):
    others = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in others} | variables
    printed = []
    for before in ("", "ka.read(sys.argv[1])"):
        command = [sys.executable, "-c", BLAS_THREADS.replace("{before}", before), str(export)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
        printed.append(done.stdout)
    if "threads [" not in printed[0]:
        pytest.skip("numpy's linear algebra is not OpenBLAS's")
    assert printed[1] == printed[0]
    if not variables:
        assert f"threads [{len(os.sched_getaffinity(0))}]" in printed[1]


def test_the_command_with_a_helper_and_without(export):
    command = "from kernelscope.analysis import helper; from kernelscope.cli.main import main; import sys; "
    outputs = []
    for worthwhile in (0, 1 << 40):
        done = subprocess.run(
            [sys.executable, "-c", f"{command}helper._WORTHWHILE = {worthwhile}; sys.exit(main(sys.argv[1:]))",
             "breakdown", export, "--by", "range", "--format", "csv"],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert "warning" in done.stderr
        outputs.append((done.stdout, done.stderr))
    assert outputs[0] == outputs[1]
    assert outputs[0][0].count("\n") > 3


def test_an_interrupted_command_leaves_no_process(export):
    script = """
import os, sys, time
from kernelscope.analysis import helper
from kernelscope.cli.main import main
helper._WORTHWHILE = 0
def slow(*given):
    os.write(1, b"at work")
    time.sleep(600)
helper._decode = slow
sys.exit(main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", script, "breakdown", export]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdout.read(7) == b"at work"
    process.send_signal(signal.SIGINT)  # to the parent alone: as `kill` does; terminals send it to both
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"kernelscope: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_helper_does_not_import_pandas(export):
    with closing(sqlite3.connect(export)) as database, database:
        database.execute("UPDATE NVTX_EVENTS SET text = NULL")  # pyarrow imports pandas for texts in the table itself
    script = """
import os, sys
from pathlib import Path
from kernelscope.analysis import helper
helper._WORTHWHILE = 0
leave = os._exit
os._exit = lambda status: print("pandas" in sys.modules, flush=True) or leave(status)
with helper.started(Path(sys.argv[1])) as ahead:
    assert ahead.decoded("ranges") and ahead.remarks()
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", script, str(export)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(("before", "wanted"), [("", True), ("helper._LARGE = 0", True), ("", False)])
def test_a_digest_is_taken_by_a_helper_where_it_is_wanted(export, before, wanted):
    script = f"""
import os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from pathlib import Path
from kernelscope.analysis import helper
helper._WORTHWHILE = 0
{before}
with helper.started(Path(sys.argv[1]), digest={wanted}) as ahead:
    print(ahead.digest())
"""
    done = subprocess.run([sys.executable, "-c", script, str(export)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == (hashlib.sha256(export.read_bytes()).hexdigest() if wanted else "None") + "\n"


def test_names_of_tables_are_those_of_the_reader():
    assert tuple(nsys_columns.GATHERED) == helper._TABLES
