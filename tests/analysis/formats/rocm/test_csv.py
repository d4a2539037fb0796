"""Traces and totals that rocprof, rocprofv2 and rocprofv3 write as CSV, in the layouts of their versions."""

import csv
from pathlib import Path

import pytest

from kernelscope.analysis.advise import advise
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.format import detect
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED
from tests.places import CORPUS

TOTALS = sorted((CORPUS / "more").glob("*kernel_stats.csv"))

V3_KERNELS = """\
"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp",\
"End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y",\
"Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH","Agent 4",1,2,21228,1,11,"void add<float>(float*, float const*, int)",1937,2414192765353337,2414192765369494,\
512,0,16,4,32,64,1,1,1000,1024,1
"KERNEL_DISPATCH","Agent 4",1,2,21228,2,14,"_Z3subPfS_.kd",1945,2414192765424862,2414192765435326,0,0,0,0,16,64,1,1,1024,1024,1
"""
V3_OLD = """\
"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","Private_Segment_Size",\
"Group_Segment_Size","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH",1,139690710949888,15,"matrixTranspose(float*, float*, int)",0,671599758568,671599825328,0,256,4,4,1,1024,1024,1
"""
CONVERTED = (
    V3_KERNELS.replace('"Kind"', '"Guid","Kind"')
    .replace('"KERNEL_DISPATCH"', '"0000ddb5-8903","KERNEL_DISPATCH"')
    .replace("LDS_Block_Size", "Lds_Block_Size")
    .replace("VGPR_Count", "Vgpr_Count")
)
V1 = """\
"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr","arch_vgpr","accum_vgpr","sgpr",\
"wave_size","sig","obj","DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"
0,"void laplacian<double>(double*, int) [clone .kd]",8,0,0,2046349,2046349,134217728,256,512,0,16,0,32,64,"0x0","0x7f28c7c85580",\
1915914098823546,1915914098849134,1915914099980017,1915914100004417,1130883
1,"__amd_rocclr_fillBufferAligned.kd",8,1,1,2046349,2046349,256,256,0,0,12,4,32,64,"0x0","0x7f28bb235a80",1915914098918976,\
1915914102590584,1915914102596024,1915914102620898,5440
"""
V2 = """\
Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,\
Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,GRBM_COUNT
1,4,1,1584730,1584730,10,10,0,0,8,0,16,64,"helloworld(char*, char*) (.kd)",100,250,3,18.0
"""
COUNTERS = """\
"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name",\
"Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Counter_Name","Counter_Value",\
"Start_Timestamp","End_Timestamp"
1,1,"Agent 2",1,36499,36499,1048576,10,"divide(float*)",64,0,0,12,4,16,"SQ_WAVES",16384.0,100,200
1,1,"Agent 2",1,36499,36499,1048576,10,"divide(float*)",64,0,0,12,4,16,"GRBM_COUNT",999.0,100,200
2,2,"Agent 2",1,36499,36499,1048576,10,"divide(float*)",64,0,0,12,4,16,"SQ_WAVES",16384.0,300,450
"""
COPIES = """\
"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",1,"Agent 0","Agent 4",952,2414192684609085,2414192684710679
"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST",2,"Agent 4","Agent 0",960,2414192684873841,2414192684973470
"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_DEVICE",2,"Agent 4","Agent 5",961,2414192684973841,2414192684983470
"MEMORY_COPY","HOST_TO_DEVICE",2,0,4,962,2414192684983841,2414192684993470
"""
HOST = """\
"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"HIP_COMPILER_API_EXT","__hipRegisterFatBinary",137,137,1,3719662243949943,3719662243977763
"HIP_RUNTIME_API","hipMalloc",137,138,4,3719662301007843,3719662301139564
"HSA_CORE_API","hsa_init",137,137,5,3719662301140994,3719662301221024
"MARKER_CORE_API","training, ""step"" 1",137,137,6,3719662301140994,3719662301221024
"MARKER_CORE_RANGE_API","here",137,137,7,3719662301140995,3719662301140995
"MARKER_CONTROL_API","roctxProfilerPause",137,137,8,3719662301140996,3719662301140999
"RCCL_API","ncclAllReduce",137,137,9,3719662301141996,3719662301142999
"""
MEMORY = """\
"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp"
"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","GPU 0",1024,"0x00007ffb26354000",1,100,110
"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 0",64,"0x00007ffb168d6000",2,120,130
"MEMORY_ALLOCATION","MEMORY_ALLOCATION_FREE","",0,"0x00007ffb26354000",7,140,150
"MEMORY_ALLOCATION","MEMORY_ALLOCATION_FREE","",0,"0x0000000000000000",8,160,170
"""
TITLES = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'


def read(folder: Path, content: str, name: str = "a_trace.csv"):
    path = folder / name
    path.write_text(content)
    assert detect(path).name == ("rocprof-stats" if "TotalDurationNs" in content else "rocprof-csv")
    return captures.read(path)


@pytest.mark.parametrize("content", [V3_KERNELS, CONVERTED, "\ufeff" + V3_KERNELS.replace("\n", "\r\n")])
def test_kernels_of_rocprofv3(tmp_path, content):
    trace = read(tmp_path, content)
    first, second = trace.kernels.astype(object).to_dict("records")
    assert (first["name"], first["device"], first["thread"]) == ("void add<float>(float*, float const*, int)", "rocm:4", 2)
    assert (first["grid"], first["block"], first["registers"], first["shared_memory"]) == ("16,1024,1", "64,1,1", 20, 512)
    assert (first["start_ns"], first["duration_ns"], first["correlation"]) == (2414192765353337, 16157, 1937)
    assert second["name"] == "sub(float*, float*)"
    assert trace.kernels["registers"].isna().tolist() == [False, True]
    assert trace.kernels["process"].isna().all()
    assert trace.info["source"]["tool"] == "rocprofv3"


def test_old_columns_of_rocprofv3(tmp_path):
    row = read(tmp_path, V3_OLD).kernels.iloc[0]
    assert (row["device"], row["thread"], row["grid"], row["shared_memory"]) == ("rocm:1", 139690710949888, "256,256,1", 256)
    assert row["name"] == "matrixTranspose(float*, float*, int)"


def test_kernels_of_rocprof(tmp_path):
    trace = read(tmp_path, V1, "results.csv")
    first, second = trace.kernels.astype(object).to_dict("records")
    assert (first["name"], first["device"], first["duration_ns"]) == ("void laplacian<double>(double*, int)", "rocm:8", 1130883)
    assert (first["process"], first["registers"], first["shared_memory"]) == (2046349, 16, 512)
    assert first["local_memory"] == 0
    assert (second["kind"], second["thread"]) == ("copy", 1)
    assert (first["grid"], first["block"]) == (str(134217728 // 256), "256")
    assert any("no launch shapes" in note for note in trace.info["notes"])


def test_kernels_of_rocprofv2(tmp_path):
    trace = read(tmp_path, V2)
    assert trace.kernels[["device", "duration_ns", "process", "registers", "correlation"]].astype(object).to_numpy().tolist() == [
        ["rocm:4", 150, 1584730, 8, 3]
    ]


def test_kernels_beside_counters_count_once(tmp_path):
    trace = read(tmp_path, COUNTERS)
    assert trace.kernels["duration_ns"].tolist() == [100, 150]
    assert trace.diagnostics["values of hardware counters, which are not read"] == 3


def test_copies(tmp_path):
    copies = read(tmp_path, COPIES).copies
    assert copies[["operation", "device", "thread", "duration_ns"]].astype(object).to_numpy().tolist() == [
        ["host to device", "rocm:4", 1, 101594],
        ["device to host", "rocm:4", 2, 99629],
        ["peer to peer", "rocm:4", 2, 9629],
        ["host to device", "rocm:4", 2, 9629],
    ]
    assert copies["bytes"].isna().all()


def test_calls_and_ranges(tmp_path):
    trace = read(tmp_path, HOST)
    calls = trace.calls[["name", "api", "thread"]].astype(object).to_numpy().tolist()
    assert sorted(calls) == [
        ["__hipRegisterFatBinary", "runtime", 137],
        ["hipMalloc", "runtime", 138],
        ["hsa_init", "hsa", 137],
        ["ncclAllReduce", "rccl", 137],
        ["roctxProfilerPause", "marker", 137],
    ]
    ranges = trace.ranges[["name", "category", "thread"]].astype(object).to_numpy().tolist()
    assert ranges == [['training, "step" 1', "user", 137], ["here", "mark", 137]]


def test_memory(tmp_path):
    trace = read(tmp_path, MEMORY)
    assert trace.memory[["time_ns", "bytes"]].to_numpy().tolist() == [[110, 1024], [130, 64], [150, -1024]]
    assert trace.memory["device"].astype(object).where(trace.memory["device"].notna(), None).tolist() == [
        "rocm:0",
        None,
        "rocm:0",
    ]
    assert trace.diagnostics["memory events without time or address"] == 1


@pytest.mark.skipif(not TOTALS, reason="tables of other people: needs ../shared/corpus")
@pytest.mark.parametrize("path", TOTALS, ids=lambda path: path.name[:40])
def test_totals_of_others(path):
    with path.open() as file:
        rows = list(csv.DictReader(file))
    kernels = captures.read(path).kernels
    found = kernels[["name", "count", "duration_ns"]].astype(object).to_numpy().tolist()
    assert found == [[row["Name"], int(row["Calls"]), int(row["TotalDurationNs"])] for row in rows]
    assert kernels["start_ns"].isna().all()


def test_totals_by_the_names_in_them(tmp_path):
    content = TITLES + (
        '"hipLaunchKernel",16,692734,43295.875,50.0,1000,670044,1.0\n'
        '"hsa_queue_create",1,5,5.0,1.0,5,5,0.0\n'
        '"MEMORY_COPY_HOST_TO_DEVICE",48,2411520,50240.0,20.0,49920,51200,320.1\n'
        '"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",2,10,5.0,1.0,4,6,0.0\n'
        '"ncclAllReduce",2,4,2.0,1.0,1,3,0.0\n'
        '"hipcub_kernel(float*)",3,30,10.0,1.0,9,11,0.0\n'
    )
    trace = read(tmp_path, content, "a.csv")
    assert trace.kernels["name"].tolist() == ["ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "hipcub_kernel(float*)"]
    assert trace.copies[["operation", "count", "duration_ns"]].astype(object).to_numpy().tolist() == [
        ["host to device", 48, 2411520]
    ]
    totals = trace.totals[["table", "name", "count", "min_ns"]].astype(object).to_numpy().tolist()
    assert totals == [
        ["calls", "hipLaunchKernel", 16, 1000],
        ["calls", "hsa_queue_create", 1, 5],
        ["calls", "ncclAllReduce", 2, 1],
    ]


def test_totals_by_the_name_of_the_file(tmp_path):
    row = '"epoch",2,50,25.0,100.0,20,30,1.0\n'
    assert read(tmp_path, TITLES + row, "1_marker_api_stats.csv").totals["table"].tolist() == ["ranges"]
    assert read(tmp_path, TITLES + row, "1_kernel_stats.csv").kernels["name"].tolist() == ["epoch"]
    old = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"CopyHostToDevice",2,50,25,100.0\n'
    assert read(tmp_path, old, "results.copy_stats.csv").copies["duration_ns"].tolist() == [50]


def test_totals_of_domains(tmp_path):
    rows = (
        '"HIP_API",13,458514859,35270373.7,90.0,1,2,1.0\n'
        '"KERNEL_DISPATCH",2,1000,500.0,10.0,1,2,1.0\n'
        '"MEMORY_COPY",1,7,7.0,1.0,7,7,0.0\n'
    )
    trace = read(tmp_path, TITLES + rows, "1_domain_stats.csv")
    assert trace.kernels["duration_ns"].tolist() == [1000]
    assert trace.copies["operation"].tolist() == ["other"]
    assert trace.totals["name"].tolist() == ["HIP_API"]
    assert any("whole domains" in note for note in trace.info["notes"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (V3_KERNELS.replace("2414192765353337", "noon"), "row 1: column starttimestamp holds 'noon', not a number"),
        (V3_KERNELS.replace(",64,1,1,1000", ",wide,1,1,1000"), "column workgroupsizex holds 'wide'"),
        (V1.replace("BeginNs", "Began"), "kernels without times"),
        (TITLES + '"a",one,2,3,4,5,6,7\n', "column calls holds 'one'"),
        (TITLES, "no row with a name"),
        (V3_KERNELS.splitlines()[0] + "\nx\n", "no row of 22 columns"),
    ],
)
def test_damage_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(EvidenceError, match=message) as error:
        captures.read(path)
    assert "a.csv" in str(error.value)
    assert "\n" not in str(error.value)


def test_totals_below_zero_are_left_out_and_told_by_every_command(tmp_path):
    rows = '"a",2,50,25.0,50.0,20,30,1.0\n"b",2,-40,20.0,40.0,20,30,1.0\n"c",-1,10,10.0,10.0,10,10,0.0\n"d",1,10,10,9,-1,-2,0\n'
    trace = read(tmp_path, TITLES + rows, "1_kernel_stats.csv")
    assert trace.kernels[["name", "duration_ns"]].to_numpy().tolist() == [["a", 50], ["d", 10]]
    assert captures.lost(trace) == {"rows without a name, number or time": 2}


def test_times_below_zero_are_none(tmp_path):
    trace = read(tmp_path, V3_KERNELS.replace(",2414192765353337,", ",-2414192765353337,"))
    assert trace.kernels["duration_ns"].tolist() == [2414192765435326 - 2414192765424862]
    assert captures.lost(trace) == {"kernels without a time": 1}


def test_tables_written_one_behind_the_other_are_one(tmp_path):
    header, first, second = V3_KERNELS.splitlines()
    trace = read(tmp_path, "\n".join([header, first, header, second]) + "\n")
    assert trace.kernels["duration_ns"].tolist() == read(tmp_path, V3_KERNELS).kernels["duration_ns"].tolist()
    assert trace.diagnostics == {}


def test_a_line_cut_short_is_counted(tmp_path):
    trace = read(tmp_path, V3_KERNELS + '"KERNEL_DISPATCH","Agent 4",1,2,21')
    assert len(trace.kernels) == 2
    assert trace.diagnostics["lines that are no rows"] == 1


def test_percentages_tell_what_kernels_that_were_cut_off_took(tmp_path):
    rows = '"a",10,4000,400.0,40.00,300,500,1.0\n"__amd_rocclr_copyBuffer",1,2500,2500.0,25.00,2500,2500,0.0\n'
    for end in ("", "...\n"):
        trace = read(tmp_path, TITLES + rows + end, "1_kernel_stats.csv")
        assert trace.kernels[["name", "count", "duration_ns"]].astype(object).to_numpy().tolist() == [
            ["a", 10, 4000],
            ["__amd_rocclr_copyBuffer", 1, 2500],
            [UNLISTED, 0, 3500],
        ]
        assert trace.kernels[["min_ns", "device"]].isna().all(axis=1).tolist() == [False, False, True]
        assert any("took 3.50 us of 10.00 us" in note for note in trace.info["notes"])
        assert trace.diagnostics == {}


def test_calls_and_copies_that_were_cut_off_are_no_kernels(tmp_path):
    rows = '"hipMalloc",10,4000,400.0,40.00,300,500,1.0\n...\n'
    trace = read(tmp_path, TITLES + rows, "1_hip_api_stats.csv")
    assert trace.kernels.empty
    assert trace.diagnostics == {"lines that are no rows": 1}
    assert read(
        tmp_path, TITLES + rows.replace("hipMalloc", "MEMORY_COPY_HOST_TO_DEVICE"), "1_memory_copy_stats.csv"
    ).kernels.empty


@pytest.mark.parametrize(
    "row",
    [
        '"KERNEL_DISPATCH",2,4000,2000.0,40.00,1,2,1.0',
        '"a",1,9000000000000000000,1.0,40.00,1,1,0.0',
        '"a",1,4000,1.0,0e99999,1,1,0.0',
    ],
)
def test_totals_that_percentages_do_not_tell_are_none(tmp_path, row):
    trace = read(tmp_path, TITLES + row + "\n", "a.csv")
    assert len(trace.kernels) == 1
    assert trace.kernels["name"][0] != UNLISTED


def test_totals_of_calls_alone_name_the_options_of_their_own_tool(tmp_path):
    old = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\nhipMemcpy,2,583182462,291591231,99.8\n'
    lacking = read(tmp_path, old, "hip.stats.csv").info["unavailable"]
    assert "rocprof --stats" in lacking["kernels"]
    assert not any("--kernel-trace" in text for text in lacking.values())
    new = old.replace('"Percentage"', '"Percentage","MinNs","MaxNs","StdDev"').replace("99.8\n", "99.8,1,2,3\n")
    assert "--kernel-trace" in read(tmp_path, new, "1_hip_api_stats.csv").info["unavailable"]["kernels"]


SPILLS = (
    V1.splitlines()[0]
    + """
0,"light(float*)",1,0,0,937,937,20971520,256,0,0,8,0,128,32,"0x0","0x1",0,1000,801000,0,800000
1,"heavy(float*)",1,0,2,937,937,20971520,256,0,{scratch},72,0,128,32,"0x0","0x2",0,901000,35401000,0,34500000
"""
)


@pytest.mark.parametrize("scratch", [144, 0])
def test_kernels_that_spill_registers(tmp_path, scratch):
    path = tmp_path / "results.csv"
    path.write_text(SPILLS.format(scratch=scratch))
    assert captures.read(path).kernels["local_memory"].tolist() == [0, scratch]
    found = [one for one in advise(path)["advice"] if one["topic"] == "local memory"]
    assert bool(found) is bool(scratch)
    if scratch:
        assert found[0]["title"] == "heavy keeps values in memory that its registers do not hold"
        assert found[0]["evidence"][0].endswith("each thread has 144 bytes of local memory, beside 72 registers.")


def test_top_kernels_of_rocprof_compute(tmp_path):
    path = tmp_path / "pmc_kernel_top.csv"
    path.write_text(
        "Kernel_Name,Count,Sum(ns),Mean(ns),Median(ns),Pct\n"
        '"void bmm<128u>(dim3, int)",150,3015001.0,20100.006666666668,20080.0625,78.28675911035891\n'
        "__amd_rocclr_fillBufferAligned,151,836226.25,5537.922185430463,5514.25,21.71324088964109\n"
    )
    trace = captures.read(path)
    assert detect(path).name == "rocprof-stats"
    assert trace.kernels[["count", "duration_ns"]].values.tolist() == [[150, 3_015_001], [151, 836_226]]
