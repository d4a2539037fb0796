"""rocpd databases: a real one is recomputed with plain SQL on its tables; variants of the schemas are written here."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.format import detect
from kernelscope.analysis.formats.rocm import rocpd
from kernelscope.analysis.recordings import captures
from tests.analysis.formats.lower_case import lowered
from tests.places import CORPUS

CAPTURES = sorted((CORPUS / "more").glob("HGLiu1998__*.db"))
ID = "_00000001_aaaa_7bbb_8ccc_000000000001"

V3 = """
CREATE TABLE rocpd_metadata{id} (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
CREATE TABLE rocpd_string{id} (id INTEGER PRIMARY KEY AUTOINCREMENT, guid TEXT DEFAULT "x" NOT NULL, string TEXT);
CREATE TABLE rocpd_info_node{id} (id INTEGER PRIMARY KEY, machine_id TEXT);
CREATE TABLE rocpd_info_process{id} (id INTEGER PRIMARY KEY, pid INTEGER, environment JSONB);
CREATE TABLE rocpd_info_thread{id} (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER);
CREATE TABLE rocpd_info_agent{id} (id INTEGER PRIMARY KEY, type TEXT, absolute_index INTEGER, type_index INTEGER,
  name TEXT, product_name TEXT);
CREATE TABLE rocpd_info_kernel_symbol{id} (id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT,
  arch_vgpr_count INTEGER, accum_vgpr_count INTEGER);
CREATE TABLE rocpd_track{id} (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER);
CREATE TABLE rocpd_event{id} (id INTEGER PRIMARY KEY, category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER,
  correlation_id INTEGER, extdata JSONB DEFAULT "{{}}");
CREATE TABLE rocpd_region{id} (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, name_id INTEGER,
  event_id INTEGER);
CREATE TABLE rocpd_sample{id} (id INTEGER PRIMARY KEY, track_id INTEGER, timestamp BIGINT, event_id INTEGER);
CREATE TABLE rocpd_pmc_event{id} (id INTEGER PRIMARY KEY, event_id INTEGER, pmc_id INTEGER, value REAL);
CREATE TABLE rocpd_kernel_dispatch{id} (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, agent_id INTEGER, kernel_id INTEGER,
  dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT, end BIGINT, group_segment_size INTEGER,
  workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER,
  grid_size_z INTEGER, event_id INTEGER);
CREATE TABLE rocpd_memory_copy{id} (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, name_id INTEGER,
  dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, event_id INTEGER);
CREATE TABLE rocpd_memory_allocate{id} (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, agent_id INTEGER, type TEXT, level TEXT,
  start BIGINT, end BIGINT, address INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, event_id INTEGER);
CREATE VIEW kernels AS SELECT * FROM rocpd_kernel_dispatch{id};
INSERT INTO rocpd_metadata{id} VALUES (1, 'schema_version', '3');
INSERT INTO rocpd_string{id} (id, string) VALUES (1, 'HIP_RUNTIME_API_EXT'), (2, 'hipLaunchKernel'), (3, 'KERNEL_DISPATCH'),
  (4, 'MARKER_CORE_RANGE_API'), (5, 'roctxThreadRangeA'), (6, 'MEMORY_COPY'), (7, 'MEMORY_COPY_HOST_TO_DEVICE'),
  (8, 'roctxMarkA'), (9, 'MEMORY_ALLOCATION'), (10, 'roctxProcessRangeA'), (11, 'roctxGetThreadId'),
  (12, 'MEMORY_COPY_DEVICE_TO_DEVICE'), (13, 'HSA_CORE_API'), (14, 'hsa_init');
INSERT INTO rocpd_info_node{id} VALUES (1, 'host a');
INSERT INTO rocpd_info_process{id} VALUES (7, 700, '{{"SECRET": "x"}}');
INSERT INTO rocpd_info_thread{id} VALUES (8, 7, 800);
INSERT INTO rocpd_info_agent{id} VALUES (0, 'CPU', 0, 0, 'EPYC', 'EPYC'), (1, 'GPU', 1, 0, 'gfx942', 'MI300X'),
  (2, 'GPU', 2, 1, 'gfx942', 'MI300X');
INSERT INTO rocpd_info_kernel_symbol{id} VALUES (1, '_Z4axpyPfS_i.kd', NULL, 12, 4), (2, 'gemm.kd', 'gemm', 0, 0);
INSERT INTO rocpd_event{id} (id, category_id, stack_id, extdata) VALUES (1, 1, 50, '{{}}'), (2, 3, 50, '{{}}'),
  (3, 4, 40, '{{"message": "forward"}}'), (4, 6, 60, '{{}}'), (5, 4, 41, '{{"message": "here"}}'), (6, 9, 42, '{{}}'),
  (7, 3, 0, '{{}}'), (8, 4, 43, '{{"message": "epoch"}}'), (9, 4, 44, 'damaged'), (10, 13, 45, '{{}}');
INSERT INTO rocpd_region{id} VALUES (50, 7, 8, 100, 120, 2, 1), (40, 7, 8, 90, 200, 5, 3), (43, 7, 8, 95, 300, 10, 8),
  (44, 7, 8, 96, 97, 11, 9), (45, 7, 8, 10, 20, 14, 10);
INSERT INTO rocpd_track{id} VALUES (1, 7, 8);
INSERT INTO rocpd_sample{id} VALUES (41, 1, 150, 5), (42, 1, 151, 6);
INSERT INTO rocpd_pmc_event{id} VALUES (1, 2, 1, 0.5), (2, 2, 2, 1.5);
INSERT INTO rocpd_kernel_dispatch{id} VALUES
  (1, 7, 8, 1, 1, 1, 16, 0, 130, 150, 65536, 256, 1, 1, 1000, 2, 1, 2),
  (2, 7, 8, 2, 2, 2, 17, 3, 160, 190, 0, 64, 2, 1, 64, 2, 1, 7);
INSERT INTO rocpd_memory_copy{id} VALUES (1, 7, 8, 131, 141, 7, 1, 0, 4096, 0, 0, 4), (2, 7, 8, 142, 143, 12, 2, 1, 8, 0, 0, 4),
  (3, 7, 8, 144, 145, 12, 2, 2, 8, 0, 0, 4);
INSERT INTO rocpd_memory_allocate{id} VALUES (1, 7, 8, 1, 'ALLOC', 'REAL', 30, 31, 4096, 1000, 0, 0, 6),
  (2, 7, 8, NULL, 'FREE', 'REAL', 40, 41, 4096, 0, 0, 0, 6), (3, 7, 8, NULL, 'FREE', 'REAL', 42, 43, 8192, 0, 0, 0, 6),
  (4, 7, 8, 1, 'ALLOC', 'SCRATCH', 50, 51, 0, 77, 0, 0, 6);
"""

RPD = """
CREATE TABLE "rocpd_metadata" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "tag" varchar(4096), "value" varchar(4096));
CREATE TABLE "rocpd_string" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "string" varchar(4096) NOT NULL);
CREATE TABLE "rocpd_api" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "pid" integer NOT NULL, "tid" integer NOT NULL,
  "start" integer NOT NULL, "end" integer NOT NULL, "apiName_id" integer NOT NULL, "args_id" integer NOT NULL);
CREATE TABLE "rocpd_op" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "gpuId" integer NOT NULL, "queueId" integer NOT NULL,
  "sequenceId" integer NOT NULL, "completionSignal" varchar(18), "start" integer NOT NULL, "end" integer NOT NULL,
  "description_id" integer NOT NULL, "opType_id" integer NOT NULL);
CREATE TABLE "rocpd_api_ops" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "api_id" integer, "op_id" integer);
CREATE TABLE "rocpd_kernelapi" ("api_ptr_id" integer NOT NULL PRIMARY KEY, "stream" varchar(18), "gridX" integer, "gridY" integer,
  "gridZ" integer, "workgroupX" integer, "workgroupY" integer, "workgroupZ" integer, "groupSegmentSize" integer,
  "privateSegmentSize" integer, "kernelName_id" integer);
CREATE TABLE "rocpd_copyapi" ("api_ptr_id" integer NOT NULL PRIMARY KEY, "stream" varchar(18), "size" integer, "kind" integer,
  "sync" bool, "pinned" bool);
CREATE TABLE "rocpd_monitor" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "value" varchar(255));
INSERT INTO rocpd_metadata VALUES (1, 'schema_version', '2');
INSERT INTO rocpd_string VALUES (1, ''), (2, 'hipLaunchKernel'), (3, 'hipMemcpy'), (4, 'UserMarker'), (5, 'step 1'),
  (6, 'KernelExecution'), (7, 'CopyHostToDevice'), (8, 'axpy(float*)'), (9, 'Marker'), (10, 'hipExtModuleLaunchKernel'),
  (11, 'Cijk_Ailk_Bljk_SB_MT64x64x8');
INSERT INTO rocpd_api VALUES (1, 5, 6, 100, 110, 2, 1), (2, 5, 6, 120, 180, 3, 1), (3, 5, 6, 90, 200, 4, 5),
  (4, 5, 6, 205, 205, 4, 5), (5, 5, 6, 210, 220, 10, 1);
INSERT INTO rocpd_op VALUES (1, 0, 1, 1, '', 130, 140, 1, 6), (2, 0, 0, 2, '', 150, 170, 1, 7), (3, 0, 1, 3, '', 171, 172, 1, 9),
  (4, 1, 1, 4, '', 230, 260, 11, 6);
INSERT INTO rocpd_api_ops VALUES (1, 1, 1), (2, 2, 2), (3, 5, 4);
INSERT INTO rocpd_kernelapi VALUES (1, '0x0', 10, 1, 1, 256, 1, 1, 512, 0, 8), (5, '0x0', 640, 2, 1, 64, 2, 1, 0, 0, 11);
INSERT INTO rocpd_copyapi VALUES (2, '', 4096, 1, 1, 0);
INSERT INTO rocpd_monitor VALUES (1, '300');
"""


@pytest.fixture(params=CAPTURES, ids=lambda path: path.name[:30])
def capture(request) -> Path:
    return request.param


def sql(path: Path, statement: str) -> list[tuple]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        suffix = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_string_%'")]
        return database.execute(statement.replace("{id}", suffix[0].removeprefix("rocpd_string"))).fetchall()


def written(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)
    return path


@pytest.fixture
def third(tmp_path) -> Path:
    return written(tmp_path / "results.db", V3.format(id=ID))


@pytest.mark.skipif(not CAPTURES, reason="rocpd databases of other people: needs ../shared/corpus")
class TestCaptures:
    """Real databases, against SQL on their tables."""

    def test_kernels_by_name(self, capture):
        kernels = captures.read(capture).kernels
        names = "replace(s.display_name, '.kd', '')"
        expected = sql(
            capture,
            f"SELECT {names}, count(*), sum(k.end - k.start) FROM rocpd_kernel_dispatch{{id}} k "
            f"JOIN rocpd_info_kernel_symbol{{id}} s ON s.id = k.kernel_id GROUP BY 1",
        )
        found = kernels.groupby("name", observed=True)["duration_ns"].agg(["size", "sum"])
        assert sorted(found.itertuples(name=None)) == sorted(expected)

    def test_shapes_are_in_workgroups(self, capture):
        kernels = captures.read(capture).kernels
        work_items = "(grid_size_x + workgroup_size_x - 1) / workgroup_size_x * workgroup_size_x"
        expected = sql(
            capture, f"SELECT sum({work_items} / workgroup_size_x), sum(group_segment_size) FROM rocpd_kernel_dispatch{{id}}"
        )
        blocks = kernels["grid"].astype(str).str.split(",").str[0].astype(int)
        assert [(blocks.sum(), kernels["shared_memory"].sum())] == expected

    def test_calls_by_name_and_what_they_launched(self, capture):
        trace = captures.read(capture)
        expected = sql(
            capture,
            "SELECT s.string, count(*), sum(r.end - r.start) FROM rocpd_region{id} r JOIN rocpd_string{id} s ON s.id = r.name_id "
            "JOIN rocpd_event{id} e ON e.id = r.event_id JOIN rocpd_string{id} c ON c.id = e.category_id "
            "WHERE c.string NOT LIKE '%MARKER%' GROUP BY 1",
        )
        calls = trace.calls.assign(length=trace.calls["end_ns"] - trace.calls["start_ns"])
        found = calls.groupby("name", observed=True)["length"].agg(["size", "sum"])
        assert sorted(found.itertuples(name=None)) == sorted(expected)
        tied = sql(
            capture,
            "SELECT count(*), sum(r.start) FROM rocpd_kernel_dispatch{id} k JOIN rocpd_event{id} e ON e.id = k.event_id "
            "JOIN rocpd_event{id} f ON f.stack_id = e.stack_id AND f.id != e.id JOIN rocpd_region{id} r ON r.event_id = f.id",
        )
        launched = trace.kernels["launch_ns"].dropna()
        assert [(len(launched), launched.sum())] == tied

    def test_cut_short_anywhere(self, capture, tmp_path):
        content = capture.read_bytes()
        for part in (150, len(content) // 3, len(content) - 5000):
            short = tmp_path / "short.db"
            short.write_bytes(content[:part])
            with pytest.raises(EvidenceError, match=r"short\.db") as error:
                captures.read(short)
            assert "\n" not in str(error.value)


def test_kernels_of_rocprofv3(third):
    trace = captures.read(third)
    assert detect(third).name == "rocpd"
    assert trace.info["source"]["schema"] == "3"
    first, second = trace.kernels.astype(object).to_dict("records")
    assert (first["name"], first["device"], first["grid"], first["block"]) == (
        "axpy(float*, float*, int)",
        "rocm:1",
        "4,2,1",
        "256,1,1",
    )
    assert (first["registers"], first["shared_memory"], first["process"], first["launch_ns"]) == (16, 65536, 700, 100)
    assert (second["name"], second["device"], second["thread"], second["grid"]) == ("gemm", "rocm:2", 3, "1,1,1")
    assert second["registers"] is None or second["registers"] != second["registers"] or str(second["registers"]) == "<NA>"
    assert trace.kernels["correlation"].isna().tolist() == [False, True]
    assert trace.diagnostics["values of hardware counters, which are not read"] == 2


def test_copies_and_memory_of_rocprofv3(third):
    trace = captures.read(third)
    copies = trace.copies[["operation", "bytes", "device", "duration_ns"]].astype(object).to_numpy().tolist()
    assert copies == [
        ["host to device", 4096, "rocm:1", 10],
        ["peer to peer", 8, "rocm:1", 1],
        ["device to device", 8, "rocm:2", 1],
    ]
    memory = trace.memory[["time_ns", "bytes", "device", "thread"]].astype(object).to_numpy().tolist()
    assert memory == [[31, 1000, "rocm:1", 800], [41, -1000, "rocm:1", 800]]
    assert trace.diagnostics["memory given back that was taken before the capture, or is null"] == 1
    assert trace.diagnostics["events of scratch memory, which are not read"] == 1


def test_ranges_and_calls_of_rocprofv3(third):
    trace = captures.read(third)
    ranges = trace.ranges[["name", "category", "nested", "thread", "start_ns", "end_ns"]].astype(object).to_numpy().tolist()
    assert sorted(ranges, key=lambda row: row[4]) == [
        ["forward", "user", True, 800, 90, 200],
        ["epoch", "user", False, 800, 95, 300],
        ["here", "mark", False, 800, 150, 150],
    ]
    calls = trace.calls[["name", "api", "process", "thread"]].astype(object).to_numpy().tolist()
    assert calls == [
        ["hsa_init", "hsa", 700, 800],
        ["roctxGetThreadId", "marker", 700, 800],
        ["hipLaunchKernel", "runtime", 700, 800],
    ]
    assert trace.diagnostics["samples, which are not read"] == 1
    assert trace.kernels["range_id"].notna().tolist() == [True, False]


def test_tracks_and_categories_of_schema_four(tmp_path):
    script = V3.format(id=ID)
    path = written(tmp_path / "four.db", script)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"""
            CREATE TABLE rocpd_info_category{ID} (id INTEGER PRIMARY KEY, name TEXT);
            INSERT INTO rocpd_info_category{ID} SELECT id, string FROM rocpd_string{ID};
            DELETE FROM rocpd_string{ID} WHERE string LIKE 'MARKER%' OR string LIKE 'HIP\\_%' ESCAPE '\\';
            DROP TABLE rocpd_track{ID};
            CREATE TABLE rocpd_track{ID} (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER,
              stream_id INTEGER);
            INSERT INTO rocpd_track{ID} VALUES (1, 7, 8, NULL, NULL, NULL), (2, 7, 8, 1, 16, 0), (3, 7, 8, 2, 17, 3);
            CREATE TABLE old AS SELECT * FROM rocpd_kernel_dispatch{ID};
            DROP VIEW kernels;
            DROP TABLE rocpd_kernel_dispatch{ID};
            CREATE TABLE rocpd_kernel_dispatch{ID} AS SELECT id, id + 1 AS track_id, kernel_id, dispatch_id, start, end,
              group_segment_size, workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z,
              event_id FROM old;
            CREATE TABLE older AS SELECT * FROM rocpd_region{ID};
            DROP TABLE rocpd_region{ID};
            CREATE TABLE rocpd_region{ID} AS SELECT id, 1 AS track_id, start, end, name_id, event_id FROM older;
        """)
    four, three = captures.read(path), captures.read(written(tmp_path / "three.db", script))
    for table in ("kernels", "calls", "ranges"):
        assert getattr(four, table).astype(object).fillna(-1).equals(getattr(three, table).astype(object).fillna(-1)), table


def test_a_merged_file_has_all_processes_and_refuses_two_hosts(third):
    other = ID[:-1] + "2"
    script = V3.format(id=other).replace("(7, 700,", "(7, 701,").replace("(8, 7, 800)", "(8, 7, 801)")
    written(third, script.replace("CREATE VIEW kernels", "CREATE VIEW kernels2"))
    trace = captures.read(third)
    assert sorted(set(trace.kernels["process"])) == [700, 701]
    assert len(trace.kernels) == 4
    assert trace.kernels["launch_ns"].notna().sum() == 2
    with closing(sqlite3.connect(third)) as database:
        database.execute(f"UPDATE rocpd_info_node{other} SET machine_id = 'host b'")
        database.commit()
    with pytest.raises(EvidenceError, match="2 hosts, whose clocks differ"):
        captures.read(third)


def test_what_is_unknown_stays_null_and_strange_tables_are_said(third):
    with closing(sqlite3.connect(third)) as database:
        database.executescript(f"""
            CREATE TABLE rocpd_new_work{ID} (id INTEGER PRIMARY KEY);
            INSERT INTO rocpd_new_work{ID} VALUES (1), (2);
            UPDATE rocpd_kernel_dispatch{ID} SET agent_id = 99, kernel_id = 99, event_id = NULL WHERE id = 1;
            UPDATE rocpd_kernel_dispatch{ID} SET end = 1 WHERE id = 2;
        """)
    trace = captures.read(third)
    row = trace.kernels.iloc[0]
    assert trace.kernels[["name", "device", "registers", "correlation"]].isna().all(axis=None)
    assert row["process"] == 700
    assert trace.diagnostics["kernels ending before they start"] == 1
    assert "table rocpd_new_work (2 rows) is not read" in trace.info["notes"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (f"ALTER TABLE rocpd_kernel_dispatch{ID} DROP COLUMN kernel_id", "has no column kernel_id"),
        (f"UPDATE rocpd_kernel_dispatch{ID} SET start = 'yesterday'", "not an integer"),
        (f"UPDATE rocpd_string{ID} SET string = 5", None),
        (f"UPDATE rocpd_info_kernel_symbol{ID} SET display_name = 1.5", None),
    ],
)
def test_damaged_values_are_refused_in_one_line(third, change, message):
    with closing(sqlite3.connect(third)) as database:
        database.executescript("DROP VIEW kernels; " + change)
    if message is None:  # SQLite turns the numbers into texts in these columns
        assert len(captures.read(third).kernels) == 2
        return
    with pytest.raises(EvidenceError, match=message) as error:
        captures.read(third)
    assert "\n" not in str(error.value)
    assert "rocpd_kernel_dispatch" in str(error.value)


def test_rpd(tmp_path):
    path = written(tmp_path / "trace.rpd", RPD)
    trace = captures.read(path)
    first, second = trace.kernels.astype(object).to_dict("records")
    assert (first["name"], first["grid"], first["block"], first["shared_memory"]) == ("axpy(float*)", "10,1,1", "256,1,1", 512)
    assert (first["device"], first["launch_ns"], first["process"]) == ("rocm:0", 100, 5)
    assert (second["name"], second["grid"], second["kind"]) == ("Cijk_Ailk_Bljk_SB_MT64x64x8", "10,1,1", "gemm")
    assert trace.copies[["operation", "bytes", "launch_ns"]].astype(object).to_numpy().tolist() == [["host to device", 4096, 120]]
    ranges = trace.ranges[["name", "category", "start_ns", "end_ns"]].astype(object).to_numpy().tolist()
    assert ranges == [["step 1", "user", 90, 200], ["step 1", "mark", 205, 205]]
    assert trace.calls["name"].tolist() == ["hipLaunchKernel", "hipMemcpy", "hipExtModuleLaunchKernel"]
    assert trace.diagnostics["operations of type Marker, which are no kernels or copies"] == 1
    assert "table rocpd_monitor (1 rows) is not read" in trace.info["notes"]
    assert trace.info["source"]["tool"] == "rpd"


def test_the_third_schema_of_rpd_keeps_long_texts_apart(tmp_path):
    newer = (
        RPD
        + """
        CREATE TABLE "rocpd_ustring" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "string" varchar(4096) NOT NULL);
        INSERT INTO rocpd_ustring VALUES (5, 'a long range');
        ALTER TABLE rocpd_api ADD COLUMN domain_id bigint NOT NULL DEFAULT 12;
        INSERT INTO rocpd_string VALUES (12, 'hip'), (13, 'roctx');
        UPDATE rocpd_api SET domain_id = 13 WHERE apiName_id = 4;
    """
    )
    trace = captures.read(written(tmp_path / "trace.rpd", newer))
    assert trace.ranges["name"].tolist() == ["a long range"] * 2
    assert trace.calls["api"].tolist() == ["runtime"] * 3


@pytest.mark.parametrize("script", [RPD, V3.format(id="_00ABC")])
def test_names_of_tables_and_columns_may_be_in_any_case(tmp_path, script):
    path = written(tmp_path / "a.db", script)
    expected, found = captures.read(path), captures.read(lowered(path, tmp_path / "lower.db"))
    assert len(found.kernels)
    for table in ("kernels", "copies", "calls", "ranges"):
        assert getattr(found, table).equals(getattr(expected, table))
    assert found.info["notes"] == expected.info["notes"]
    assert found.diagnostics == expected.diagnostics


def test_other_databases_are_not_taken(tmp_path):
    path = written(tmp_path / "other.db", "CREATE TABLE rocpd_string_x (id INTEGER); CREATE TABLE StringIds (id INTEGER)")
    assert not rocpd.matches(read_head(path))
    with pytest.raises(EvidenceError, match="no rocpd tables"):
        rocpd.read(path)
