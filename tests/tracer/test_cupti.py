"""The CUPTI collector behind the real cupti-python: small C libraries take the places of the driver and of libcupti.

The package is optional (extra `cuda`): without it these tests are skipped, unless KERNELSCOPE_CUPTI_PYTHON names an interpreter
that has it (13.3 or later; earlier ones load libcupti by its full path and cannot be given another one).
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernelscope.analysis.formats.cupti import records as cupti_records
from kernelscope.tracer.inside import activity_records, cupti

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("KERNELSCOPE_CUPTI_PYTHON", sys.executable)

DRIVER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { const char *v = getenv("DRIVER"); *version = v ? atoi(v) : 13040; return 0; }
int cuDeviceGetCount(int *count) { const char *v = getenv("DEVICES"); *count = v ? atoi(v) : 1; return 0; }

static uint32_t correlation;
static int capturing, captured;
static void wait(void) { struct timespec t = {0, 2000000}; nanosleep(&t, NULL); }
static void *symbol(const char *name) { return dlsym(dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD), name); }
static int work(uint32_t kind) { ((void (*)(uint32_t, uint32_t))symbol("work"))(kind, ++correlation); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &correlation; return device; }
int cuCtxSetCurrent(void *context) { return context != &correlation; }
int cuCtxSynchronize(void) { wait(); return 0; }
int cuModuleLoadData(void **module, const char *ptx) { *module = 0; return strstr(ptx, "sm_75") ? 0 : 218; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = &capturing; return module != 0; }
int cuStreamCreate(void **stream, unsigned flags) { *stream = &captured; return 0; }
int cuStreamSynchronize(void *stream) { wait(); return stream != &captured; }
int cuMemAlloc_v2(void **memory, size_t bytes) { *memory = malloc(bytes); return 0; }
int cuMemcpyHtoD_v2(void *to, void *from, size_t bytes) { memcpy(to, from, bytes); return work(1); }
int cuMemcpyDtoH_v2(void *to, void *from, size_t bytes) { memcpy(to, from, bytes); return getenv("LOSE") ? 0 : work(1); }
int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream) { memset(to, value, bytes); return work(2); }
int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned shared, void *stream,
                   void **parameters, void **extra) {
    if (f != &capturing || a != 2 || d != 32 || shared || stream != &captured || parameters || extra) return 1;
    if (capturing) { captured++; return 0; }
    ((void (*)(uint32_t, const char *, uint32_t))symbol("launch"))(++correlation, "nothing", 0);
    return 0;
}
int cuStreamBeginCapture_v2(void *stream, int mode) { capturing = 1; captured = 0; return 0; }
int cuStreamEndCapture(void *stream, void **graph) { capturing = 0; *graph = &captured; return 0; }
int cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags) { *made = graph; return flags != 0; }
int cuGraphLaunch(void *executable, void *stream) {
    ++correlation;
    for (int i = 0; i < captured; i++) ((void (*)(uint32_t, const char *, uint32_t))symbol("launch"))(correlation, "nothing", 8);
    return 0;
}
"""

# Records have the layouts of cupti_activity.h, as far as they are filled, in slots of one size; FAIL="function=code" fails a call
LIBRARY = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define SLOT 256
typedef void (*requested_t)(uint8_t **, size_t *, size_t *);
typedef void (*completed_t)(void *, uint32_t, uint8_t *, size_t, size_t);
static requested_t requested; static completed_t completed;
static uint8_t *buffer; static size_t size, used, lost;
static uint64_t enabled, stack[16]; static int depth;
static int result(const char *name) {
    const char *fail = getenv("FAIL");
    size_t length = strlen(name);
    return fail && !strncmp(fail, name, length) && fail[length] == '=' ? atoi(fail + length + 1) : 0;
}
static uint64_t now(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
int cuptiGetTimestamp(uint64_t *time) { *time = now(); return result("cuptiGetTimestamp"); }
int cuptiSubscribe(void **subscriber, void *callback, void *data) { *subscriber = &stack; return result("cuptiSubscribe"); }
int cuptiUnsubscribe(void *subscriber) { fprintf(stderr, "unsubscribed\\n"); return subscriber != &stack; }
int cuptiSetThreadIdType(int type) { return type == 1 ? 0 : 1; }
int cuptiActivityRegisterCallbacks(requested_t r, completed_t c) { requested = r; completed = c; return 0; }
int cuptiActivityEnable(uint32_t kind) {
    char name[40];
    snprintf(name, sizeof name, "cuptiActivityEnable%u", kind);
    if (!result(name)) enabled |= 1ull << kind;
    return result(name);
}
int cuptiActivityDisable(uint32_t kind) { enabled &= ~(1ull << kind); return 0; }
int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id) { stack[depth++] = id; return kind != 5; }
int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *id) { *id = stack[--depth]; return kind != 5; }
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) { *count = lost; lost = 0; return 0; }
int cuptiActivityGetNextRecord(uint8_t *start, size_t valid, uint8_t **record) {
    uint8_t *next = *record ? *record + SLOT : start;
    if (next >= start + valid) return 12;
    *record = next;
    return 0;
}
static void hand_over(void) {
    if (!buffer) return;
    uint8_t *full = buffer; size_t valid = used;
    buffer = NULL; used = 0;
    completed(NULL, 0, full, size, valid);
}
int cuptiActivityFlushAll(uint32_t flag) { hand_over(); return 0; }
static uint8_t *record(uint32_t kind) {
    size_t most;
    if (!(enabled >> kind & 1)) return NULL;
    if (buffer && used + SLOT > size) hand_over();
    if (!buffer) requested(&buffer, &size, &most);
    if (!buffer) { lost++; return NULL; }
    uint8_t *slot = memset(buffer + used, 0, SLOT);
    used += SLOT;
    *(uint32_t *)slot = kind;
    return slot;
}
#define U32(at) *(uint32_t *)(slot + (at))
#define U64(at) *(uint64_t *)(slot + (at))
void launch(uint32_t correlation, const char *name, uint32_t graph) {
    uint8_t *slot;
    uint64_t begin = now();
    if (depth && (slot = record(39))) { U32(4) = 5; U64(8) = stack[depth - 1]; U32(16) = correlation; }
    if ((slot = record(5))) {
        U32(4) = 211; U64(8) = begin; U64(16) = begin + 10; U32(24) = 1; U32(28) = 2; U32(32) = correlation;
    }
    if ((slot = record(10))) {
        U64(16) = begin + 1000; U64(24) = begin + 5000; U32(40) = 0; U32(44) = 1; U32(48) = 7;
        for (int i = 0; i < 6; i++) U32(52 + 4 * i) = i + 1;
        U32(92) = correlation; *(const char **)(slot + 104) = name;
        U32(156) = graph;
    }
}
void work(uint32_t kind, uint32_t correlation) { record(kind); }
void lose(int count) { lost += count; }
"""

PREPARE = """
import ctypes, json, os, sys
library = ctypes.CDLL("libcupti.so.13")
library.launch.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32]
from kernelscope.tracer.inside import cupti
collector = cupti.Cupti(sys.argv[1])
"""

START = (
    PREPARE
    + """
try:
    collector.start()
except cupti.Unavailable as error:
    print(json.dumps({"unavailable": error.reason, "files": os.listdir(sys.argv[1])}))
"""
)

RECORD = (
    PREPARE
    + """
from kernelscope.tracer.inside.ranges import Recorder
kernels = [b"gemm", b"relu"]
cupti.BUFFER_BYTES = 256 * 100
collector.start()
recorder = Recorder(sys.argv[1], layers=True)
recorder.correlator = collector
for step in recorder.steps(iter(range(3)), 3):
    recorder.push("layer", "conv1", layer="conv1", phase="forward")
    for number in range(100):
        library.launch(step * 100 + number + 1, kernels[number % 2], 0)
    recorder.pop()
recorder.flush()
library.lose(5)
collector.flush()
library.launch(1000, kernels[0], 0)
if "kill" in sys.argv:
    os._exit(0)
print(json.dumps(collector.stop()))
"""
)


def has_package():
    """Whether the interpreter has a cupti-python whose libcupti can be another one."""
    program = "import importlib.metadata as m; print(m.version('cupti-python'))"
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=False)
    return done.returncode == 0 and tuple(map(int, done.stdout.split(".")[:2])) >= (13, 3)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler on this machine")
    if not has_package():
        pytest.skip("no cupti-python 13.3 or later here: pip install '.[cuda]', or set KERNELSCOPE_CUPTI_PYTHON")
    folder = tmp_path_factory.mktemp("libraries")
    for name, source in (("libcuda.so.1", DRIVER), ("libcupti.so.13", LIBRARY)):
        (folder / "source.c").write_text(source)
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name), str(folder / "source.c")]
        subprocess.run(command, check=True)
    (folder / "packages").mkdir()
    (folder / "packages" / "kernelscope").symlink_to(ROOT)
    return folder


def environment(libraries):
    return {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(libraries / "packages")}


def run(libraries, program, folder, *arguments, **variables):
    command = [PYTHON, "-c", program, str(folder), *arguments]
    surroundings = {**environment(libraries), **variables}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout) if done.stdout else None


def test_records_of_the_real_package_arrive(libraries, tmp_path):
    """301 launches, 300 of them in a layer's range: exactly these are in the file, each with the range it was launched in."""
    report = run(libraries, RECORD, tmp_path)
    capture = cupti_records.load(tmp_path / "cupti.records")
    tables = capture.tables
    assert capture.truncated is None
    assert report["records"]["kernels"] == len(tables["kernels"]) == 301
    assert tables["kernels"]["correlation"].tolist() == [*range(1, 301), 1000]
    assert tables["kernels"]["name"].astype(str).tolist() == ["gemm", "relu"] * 150 + ["gemm"]
    assert (tables["kernels"]["end_ns"] - tables["kernels"]["start_ns"]).unique().tolist() == [4000]
    assert tables["kernels"][["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]].iloc[0].tolist() == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    assert tables["calls"]["name"].unique().tolist() == ["cudaLaunchKernel"]
    ranges = tables["ranges"].set_index("id")["name"]
    assert ranges[tables["external"]["external"]].tolist() == ["conv1"] * 300
    assert report["dropped"] == tables["dropped"]["count"].sum() == 5
    assert report["errors"] == []
    assert report["kinds"]["CONCURRENT_KERNEL"] == "on"
    rows = [json.loads(line) for line in (tmp_path / "ranges.jsonl").read_text().splitlines()]
    told = {(row["thread"], row["start_ns"], row["name"]) for row in rows}
    own = tables["ranges"]
    assert told == set(zip(own["thread"], own["start_monotonic_ns"], own["name"].astype(str), strict=True))
    clock = tables["clock"]
    assert clock["place"].tolist() == ["begin", "during", "end"]
    moved = cupti_records.to_monotonic(clock, tables["kernels"]["start_ns"])
    conv1 = own[own["name"] == "conv1"]
    # launched in the first range: the device's clock is the wall's, and comes out inside of it (they begin 1000 ns later)
    assert conv1["start_monotonic_ns"].iloc[0] - 50_000 < moved.iloc[0] < conv1["end_monotonic_ns"].iloc[0] + 50_000


def test_a_process_that_is_killed_leaves_what_was_flushed(libraries, tmp_path):
    run(libraries, RECORD, tmp_path, "kill")
    capture = cupti_records.load(tmp_path / "cupti.records")
    assert len(capture.tables["kernels"]) == 300
    assert capture.truncated.endswith("before the recording was stopped")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"FAIL": "cuptiSubscribe=39"}, "another profiler"),
        ({"FAIL": "cuptiActivityEnable10=35"}, "NVreg_RestrictProfilingToAdminUsers"),
        ({"FAIL": "cuptiActivityEnable10=43"}, "MIG"),
        ({"FAIL": "cuptiSubscribe=15", "DEVICES": "0"}, "CUDA finds no device"),
        ({"FAIL": "cuptiSubscribe=15"}, "install the cupti-python for the driver's CUDA"),
        ({"DRIVER": "12080"}, 'this one supports CUDA 12.8; pip install "cupti-python<13"'),
        ({"DRIVER": "11040"}, "update the driver"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_remedy(libraries, tmp_path, variables, said):
    told = run(libraries, START, tmp_path, **variables)
    assert said in told["unavailable"]
    assert "\n" not in told["unavailable"]
    assert told["files"] == []


def test_a_full_disk_is_refused_at_the_start_and_reported_later(libraries, tmp_path):
    (tmp_path / "cupti.records").symlink_to("/dev/full")
    told = run(libraries, START, tmp_path)
    assert "No space left on device" in told["unavailable"]
    assert told["files"] == []
    program = RECORD.replace("library.lose(5)", "collector._out.close(); collector._out = open('/dev/full', 'wb', buffering=0)")
    report = run(libraries, program, tmp_path)
    assert any("No space left on device" in error for error in report["errors"])


def test_one_kind_that_cannot_be_had_is_noted(libraries, tmp_path):
    report = run(libraries, RECORD, tmp_path, FAIL="cuptiActivityEnable4=27")
    assert "not supported" in report["kinds"]["DRIVER"]
    assert report["records"]["kernels"] == 301


@pytest.mark.parametrize(
    ("variables", "status", "said"),
    [
        ({}, 0, "driver: ok: calls 105, clock 2, copies 2, external 105, kernels 105, memsets 1, ranges 3"),
        ({"LOSE": "1"}, 1, "driver: copies: 2 launched, 1 recorded: calls"),
        ({"FAIL": "cuptiSubscribe=39"}, 1, "driver: failed: Unavailable: CUPTI: ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)"),
    ],
)
def test_the_check_compares_what_was_launched_with_what_arrived(libraries, tmp_path, variables, status, said):
    command = [PYTHON, "-m", "kernelscope.tracer.inside.cupti", "--check", str(tmp_path)]
    surroundings = {**environment(libraries), "LD_PRELOAD": str(libraries / "libcupti.so.13"), **variables}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(said), done.stdout + done.stderr
    assert done.returncode == status


def test_the_real_classes_have_the_attributes(libraries):
    """Of every kind, the newest class of the installed package: what a class lacks becomes 0, so nothing may be misspelt."""
    program = "import json; from cupti import cupti; print(json.dumps({name: dir(getattr(cupti, name)) for name in dir(cupti)}))"
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=True)
    classes = json.loads(done.stdout)
    names = {"kernels": "Kernel", "copies": "Memcpy", "peer_copies": "MemcpyPtoP", "memsets": "Memset", "calls": "API",
             "syncs": "Synchronization", "graphs": "GraphTrace", "external": "ExternalCorrelation", "overheads": "Overhead",
             "memory": "Memory", "devices": "Device", "contexts": "Context"}  # fmt: skip
    for table, name in names.items():
        versions = [key for key in classes if key.removeprefix("Activity" + name).isdigit() or key == "Activity" + name]
        newest = max(versions, key=lambda key: (len(key), key))
        wanted = {attribute.split(".")[0] for _, attribute, _ in activity_records.TABLES[table][1:]}
        assert wanted <= set(classes[newest]), (newest, wanted - set(classes[newest]))


def test_without_the_package_the_reason_names_it(monkeypatch):
    monkeypatch.setattr(cupti, "driver_version", lambda: 13040)
    monkeypatch.setitem(sys.modules, "cupti", None)
    monkeypatch.setitem(sys.modules, "cupti.cupti", None)
    assert "pip install cupti-python" in cupti.unavailable()


def test_a_package_without_a_function_is_refused(monkeypatch):
    monkeypatch.setattr(cupti, "driver_version", lambda: 12080)
    monkeypatch.setitem(sys.modules, "cupti", sys)
    monkeypatch.setitem(sys.modules, "cupti.cupti", sys)
    assert "has no ActivityKind, activity_enable" in cupti.unavailable()


def test_without_a_driver_or_under_an_old_interpreter(monkeypatch, tmp_path):
    monkeypatch.setattr(cupti, "driver_version", lambda: None)
    assert "no NVIDIA driver" in cupti.unavailable()
    monkeypatch.setattr(sys, "version_info", (3, 6, 15))
    with pytest.raises(cupti.Unavailable, match=r"this is 3\.6; use --collector nsys or nvprof"):
        cupti.Cupti(str(tmp_path)).start()
    assert list(tmp_path.iterdir()) == []
