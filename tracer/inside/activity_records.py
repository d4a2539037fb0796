"""CUPTI's activity records as compact bytes, which a collector appends to cupti.records while a program runs.

A file is a sequence of blocks, each with a tag, a number of rows, the length of its content and the content's CRC-32. The first
block, HEAD, is JSON and names the columns of every kind of row, so a reader needs nothing else. TEXT blocks number texts
(kernel names), each from where the last one ended. NAME blocks map CUPTI's callback ids to function names. DONE is the last
block of a properly closed file. Blocks are only ever appended, so a truncated file can be read up to the cut.

Nothing here needs CUPTI: any objects with the attributes of `cupti-python`'s classes serve as records.
"""

import collections
import json
import operator
import struct
import zlib
from typing import Any, Callable, Dict, List, Optional, Set

MAGIC = b"KSCUPTI\x01"
BLOCK = struct.Struct("<4sIII")  # tag, rows, bytes of content, CRC-32 of the content
MOST_ROWS = 1 << 10  # per block: small chunks in memory die young, which spares the garbage collector
MOST_TEXTS = 1 << 17  # kept in memory; beyond that they are forgotten, numbering goes on and texts are written again
MOST_CHARACTERS = 20000  # per text

TEXT = "s"  # code of a column with numbers of texts; the other codes are those of struct

# Table -> (tag, (column, attribute, code), ...); attributes and types as in cupti_activity.h. The collector itself fills
# columns without an attribute.
_PLACE = (("device", "device_id", "I"), ("context", "context_id", "I"), ("stream", "stream_id", "I"))
_TIMES = (("start_ns", "start", "Q"), ("end_ns", "end", "Q"))
_GRAPH = (("graph_node", "graph_node_id", "Q"), ("graph", "graph_id", "I"))
_CORRELATION = (("correlation", "correlation_id", "I"),)
TABLES: Dict[str, Any] = {
    "kernels": (b"KERN",) + _TIMES + (
        ("queued_ns", "queued", "Q"), ("submitted_ns", "submitted", "Q"), ("completed_ns", "completed", "Q"),
        ("name", "name", TEXT),
    ) + _PLACE + _CORRELATION + _GRAPH + (
        ("grid_x", "grid_x", "i"), ("grid_y", "grid_y", "i"), ("grid_z", "grid_z", "i"),
        ("block_x", "block_x", "i"), ("block_y", "block_y", "i"), ("block_z", "block_z", "i"),
        ("cluster_x", "cluster_x", "I"), ("cluster_y", "cluster_y", "I"), ("cluster_z", "cluster_z", "I"),
        ("registers", "registers_per_thread", "H"), ("launch", "launch_type", "B"),
        ("static_shared", "static_shared_memory", "i"), ("dynamic_shared", "dynamic_shared_memory", "i"),
        ("shared_executed", "shared_memory_executed", "I"), ("local_thread", "local_memory_per_thread", "I"),
        ("channel", "channel_id", "I"),
    ),
    "copies": (b"COPY",) + _TIMES + (
        ("operation", "copy_kind", "B"), ("source", "src_kind", "B"), ("destination", "dst_kind", "B"), ("flags", "flags_", "B"),
        ("bytes", "bytes", "Q"), ("count", "copy_count", "Q"),
    ) + _PLACE + _CORRELATION + _GRAPH,
    "peer_copies": (b"PEER",) + _TIMES + (
        ("operation", "copy_kind", "B"), ("source", "src_kind", "B"), ("destination", "dst_kind", "B"), ("flags", "flags_", "B"),
        ("bytes", "bytes", "Q"), ("source_device", "src_device_id", "I"), ("destination_device", "dst_device_id", "I"),
    ) + _PLACE + _CORRELATION + _GRAPH,
    "memsets": (b"MSET",) + _TIMES + (
        ("bytes", "bytes", "Q"), ("value", "value", "I"), ("memory", "memory_kind", "H"),
    ) + _PLACE + _CORRELATION + _GRAPH,
    "calls": (b"CALL",) + _TIMES + (
        ("api", "kind", "I"), ("number", "cbid", "I"), ("process", "process_id", "I"), ("thread", "thread_id", "I"),
        ("correlation", "correlation_id", "I"), ("status", "return_value", "I"),
    ),
    "syncs": (b"SYNC",) + _TIMES + (
        ("kind", "type", "I"), ("context", "context_id", "I"), ("stream", "stream_id", "I"), ("event", "cuda_event_id", "I"),
    ) + _CORRELATION,
    "graphs": (b"GRPH",) + _TIMES + (("graph", "graph_id", "I"), ("end_device", "end_device_id", "I")) + _PLACE + _CORRELATION,
    "external": (b"EXTN",) + _CORRELATION + (("kind", "external_kind", "I"), ("external", "external_id", "Q")),
    "overheads": (b"OVER",) + _TIMES + (
        ("kind", "overhead_kind", "I"), ("object", "object_kind", "I"),
        ("process", "object_id.pt.process_id", "I"), ("thread", "object_id.pt.thread_id", "I"),
    ) + _CORRELATION,
    "memory": (b"MEMO",) + (
        ("time_ns", "timestamp", "Q"), ("operation", "memory_operation_type", "I"), ("memory", "memory_kind", "I"),
        ("address", "address", "Q"), ("bytes", "bytes", "Q"), ("process", "process_id", "I"),
    ) + _PLACE + _CORRELATION,
    "devices": (b"DEVI",) + (
        ("device", "id", "I"), ("name", "name", TEXT), ("uuid", "uuid", TEXT),
        ("capability_major", "compute_capability_major", "I"), ("capability_minor", "compute_capability_minor", "I"),
        ("multiprocessors", "num_multiprocessors", "I"),
        ("memory_bytes", "global_memory_size", "Q"), ("mig", "is_mig_enabled", "B"), ("mig_uuid", "mig_uuid", TEXT),
    ),
    "contexts": (b"CTXT", ("context", "context_id", "I"), ("device", "device_id", "I")),
    "ranges": (b"RANG", ("id", None, "Q"), ("name", None, TEXT), ("thread", None, "q"), ("start_monotonic_ns", None, "q"),
               ("end_monotonic_ns", None, "q")),
    "clock": (b"CLCK", ("cupti_ns", None, "q"), ("monotonic_ns", None, "q"), ("uncertainty_ns", None, "q"), ("place", None, "B")),
    "dropped": (b"DROP", ("context", None, "q"), ("stream", None, "q"), ("count", None, "Q")),
}  # fmt: skip

# CUpti_ActivityKind -> table
KINDS = {
    1: "copies", 2: "memsets", 3: "kernels", 4: "calls", 5: "calls", 8: "devices", 9: "contexts", 10: "kernels",
    17: "overheads", 22: "peer_copies", 38: "syncs", 39: "external", 49: "memory", 51: "graphs",
}  # fmt: skip
# There are few of these records, and not every version keeps them flat: their attributes are read one by one
_FEW = ("devices", "overheads")
_LARGEST = {"B": 0xFF, "H": 0xFFFF, "I": 0xFFFFFFFF, "i": 0x7FFFFFFF, "Q": 0xFFFFFFFFFFFFFFFF, "q": 0x7FFFFFFFFFFFFFFF}


def layout() -> Dict[Any, Any]:
    """Return the tables as HEAD describes them: tag -> {"table", "columns": [[name, code], ...]}."""
    described = {}
    for table, (tag, *columns) in TABLES.items():
        described[tag.decode("ascii")] = {"table": table, "columns": [[name, code] for name, _, code in columns]}
    return described


def block(tag: Any, rows: Any, content: bytes) -> bytes:
    """Return one block."""
    return BLOCK.pack(tag, rows, len(content), zlib.crc32(content) & 0xFFFFFFFF) + content


def json_block(tag: Any, value: Any) -> bytes:
    """Return a block with one JSON value."""
    return block(tag, 1, json.dumps(value, sort_keys=True).encode("ascii"))


class Texts(dict):  # type: ignore[type-arg]
    """Text -> number. `written` returns the block with the texts added since its last call."""

    def __init__(self) -> None:
        dict.__init__(self)
        self._next = 0
        self._new: List[Any] = []

    def __missing__(self, text: str) -> Any:
        number = self[text] = self._next
        self._next += 1
        self._new.append(str(text)[:MOST_CHARACTERS])
        return number

    def written(self) -> Any:
        """Return the block of the texts that are in no block yet; empty if there are none."""
        if not self._new:
            return b""
        content = json_block(b"TEXT", {"first": self._next - len(self._new), "texts": self._new})
        self._new = []
        if len(self) > MOST_TEXTS:
            self.clear()
        return content


class Encoder(object):
    """Turns records into blocks. counts: rows by table; unknown: records without a table, by kind; failed: records by table."""

    def __init__(self, function_name: Optional[Callable[..., Any]] = None) -> None:
        """function_name: (kind, callback id) -> the function's name or None, called once for each pair."""
        self.texts = Texts()
        self.counts: Any = collections.Counter()
        self.unknown: Any = collections.Counter()
        self.failed: Any = collections.Counter()
        self._function_name = function_name
        self._functions: Set[Any] = set()
        self._plans: Dict[Any, Any] = {}
        self._packers: Dict[Any, Any] = {}
        for table, (_, *columns) in TABLES.items():
            self._packers[table] = struct.Struct("<" + "".join("I" if code == TEXT else code for _, _, code in columns))

    def encode(self, records: Any) -> bytes:
        """Return the blocks of one buffer's records, of any kinds and in any order."""
        groups = collections.defaultdict(list)
        for record in records:
            groups[type(record)].append(record)
        blocks = []
        for kind, group in groups.items():
            plan = self._plans.get(kind) or self._plan(kind, group[0])
            for first in range(0, len(group), MOST_ROWS):
                blocks.append(self._encode(plan, group[first : first + MOST_ROWS]))
        return b"".join(blocks)

    def rows(self, table: Any, rows: Any) -> Any:
        """Return the block of these rows, tuples in the order of the table's columns; empty if there are none."""
        rows = list(rows)
        columns = [column for _, _, column in TABLES[table][1:]]
        if not rows:
            return b""
        return self._block(
            table, [self._numbers(values) if code == TEXT else values for code, values in zip(columns, zip(*rows))]
        )

    def _plan(self, kind: Any, record: Any) -> Any:
        """Return (table or None, function from records of this class to columns); determined once per class."""
        table = KINDS.get(int(record.kind))
        columns = None
        if table is not None:
            wanted = [(attribute, code) for _, attribute, code in TABLES[table][1:]]
            layouts = getattr(getattr(record, "_data", None), "dtype", None)
            if table in _FEW:
                columns = _one_by_one(wanted)
            elif layouts is not None:
                columns = _from_bytes(wanted, layouts)
            else:
                columns = _from_attributes(wanted, kind)
        self._plans[kind] = table, columns
        return self._plans[kind]

    def _encode(self, plan: Any, group: Any) -> Any:
        table, columns = plan
        if table is None:
            self.unknown.update(int(record.kind) for record in group)
            return b""
        try:
            found = columns(group)
            for place, (_, _, code) in enumerate(TABLES[table][1:]):
                if code == TEXT:
                    found[place] = self._numbers(found[place])
            return self._named(table, found) + self._block(table, found)
        except (struct.error, AttributeError, TypeError, ValueError):
            if len(group) == 1:
                self.failed[table] += 1
                return b""
            middle = len(group) // 2  # one odd record must not lose the whole buffer
            return self._encode(plan, group[:middle]) + self._encode(plan, group[middle:])

    def _numbers(self, texts: Any) -> List[Any]:
        return list(map(self.texts.__getitem__, texts))

    def _named(self, table: Any, columns: Any) -> Any:
        """Return a block with the names of functions that were not called before; empty if there are none."""
        if table != "calls" or self._function_name is None:
            return b""
        new = set(zip(columns[2], columns[3])) - self._functions
        self._functions |= new
        names = [[kind, number, self._function_name(kind, number)] for kind, number in sorted(new)]
        names = [name for name in names if name[2]]
        return json_block(b"NAME", names) if names else b""

    def _block(self, table: Any, columns: Any) -> Any:
        content = b"".join(map(self._packers[table].pack, *columns))
        count = len(columns[0])
        written = self.texts.written()
        self.counts[table] += count
        return written + block(TABLES[table][0], count, content)


def _from_attributes(wanted: Any, kind: Any) -> Callable[..., Any]:
    """Return a function from records to columns, for classes with fast attributes (cupti-python 13.2 and later)."""
    present = [attribute for attribute, _ in wanted if hasattr(kind, attribute)]
    get = operator.attrgetter(*present)

    def columns(group: Any) -> List[Any]:
        found = dict(zip(present, zip(*map(get, group))))
        return [found.get(attribute, (0,) * len(group)) for attribute, _ in wanted]

    return columns


def _from_bytes(wanted: Any, described: Any) -> Callable[..., Any]:
    """Return the same for classes over numpy records (cupti-python up to 13.0), where each attribute costs microseconds.

    It reads a record's bytes at the offsets that its own dtype gives, and each text once per pointer in a buffer: CUPTI shares
    a kernel's name among its records.
    """
    fields = sorted(
        (described.fields[name][1], name, _code(described.fields[name][0])) for name, _ in wanted if name in described.names
    )
    form, end = "<", 0
    for offset, _, code in fields:
        form += "%dx%s" % (offset - end, code)
        end = offset + struct.calcsize("<" + code)
    unpack = struct.Struct(form).unpack_from

    def columns(group: Any) -> Any:
        rows = zip(*[unpack(record._data.tobytes()) for record in group])
        found = dict(zip((name for _, name, _ in fields), rows))
        result = []
        for name, code in wanted:
            values = found.get(name, (0,) * len(group))
            if code == TEXT:
                texts = {pointer: getattr(record, name) for pointer, record in dict(zip(values, group)).items()}
                values = [texts[pointer] for pointer in values]
            result.append(values)
        return result

    return columns


def _code(described: Any) -> Any:
    """Return struct's code for a numpy number type."""
    return {"i": "bhiq", "u": "BHIQ"}[described.kind][{1: 0, 2: 1, 4: 2, 8: 3}[described.itemsize]]


def _one_by_one(wanted: Any) -> Callable[..., Any]:
    """Return the same for rare records, attribute by attribute: a missing one becomes 0 or an empty text."""

    def columns(group: Any) -> List[Any]:
        return [[_value(record, attribute, code) for record in group] for attribute, code in wanted]

    return columns


def _value(record: Any, attribute: Any, code: Any) -> Any:
    try:
        value = operator.attrgetter(attribute)(record)
    except AttributeError:
        value = None
    if code != TEXT:
        return int(value) & _LARGEST[code] if value is not None else 0
    if value is not None and not isinstance(value, str):
        value = bytes(value.bytes).hex()  # CUuuid
    return value or ""
