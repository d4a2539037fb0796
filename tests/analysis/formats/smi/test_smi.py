"""Samples of GPUs: every number is recomputed here from the text; variants of the formats are written here."""

import csv
import datetime
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head, read_head
from kernelscope.analysis.formats.smi import trace as gpu_samples
from kernelscope.analysis.trace import Trace
from tests.places import CORPUS

DCGM = "4179e1__dcgm_test__dmon.csv"
LOOP = "Unshapendwarf__SlowFast__gpu_utilization.csv"
TABLE = "cenzwong__gpu_and_inference_hw__nvidia-smi.txt"
QUERY = "excerpt__hpc-docs__util.csv"
DMON = "excerpt__morpheus-docs__dmon.txt"
GLASSES = "xypp3__gpu_glasses__nvidia_smi.csv"
MIB = 2**20


def of_corpus(name: str) -> Path:
    path = CORPUS / "smi" / name
    if not path.exists():
        pytest.skip("GPU samples of other people: needs ../shared/corpus")
    return path


def read(path: Path) -> Trace:
    assert gpu_samples.matches(read_head(path))
    trace = gpu_samples.read(path)
    trace.check()
    return trace


def written(tmp_path: Path, text: str) -> Trace:
    path = tmp_path / "gpu.log"
    path.write_text(text)
    return read(path)


def values(trace: Trace) -> list[tuple]:
    table = trace.samples.assign(device=trace.samples["device"].astype(object).where(trace.samples["device"].notna(), None))
    return list(table[["time_ns", "device", "metric", "value"]].itertuples(index=False, name=None))


def since_epoch(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1) * 1000


def test_only_gpu_samples_are_taken():
    if not CORPUS.exists():
        pytest.skip("captures of other people: needs ../shared/corpus")
    taken = {path.name for path in CORPUS.rglob("*") if path.is_file() and gpu_samples.matches(read_head(path))}
    assert taken == {DCGM, LOOP, TABLE, QUERY, DMON, GLASSES}


def test_dcgm_csv():
    path = of_corpus(DCGM)
    names = {"power_usage_instant": "gpu_power_instant_w"}
    with path.open() as file:
        expected = Counter(
            (
                int(row["TimeStampUs"]) * 1000,
                f"cuda:{row['GPUId']}",
                names.get(row["Field"], f"gpu_{row['Field']}"),
                float(row["Values"]),
            )
            for row in csv.DictReader(file)
        )
    trace = read(path)
    assert Counter(values(trace)) == expected
    assert trace.samples["time_ns"].is_monotonic_increasing
    assert trace.info["source"]["tool"] == "DCGM"
    assert trace.info["clock"] == "wall"
    assert trace.diagnostics == {}
    assert not any("UTC" in note for note in trace.info["notes"])


def test_a_loop_that_repeats_its_header():
    path = of_corpus(LOOP)
    shares = [int(line.split()[0]) / 100 for line in path.read_text().splitlines() if not line.startswith("util")]
    trace = read(path)
    assert values(trace) == [(number, None, "gpu_utilisation", share) for number, share in enumerate(shares)]
    assert trace.info["clock"] == "none"
    assert trace.diagnostics == {}
    assert any("does not say which GPU" in note for note in trace.info["notes"])


def test_query_with_units():
    path = of_corpus(QUERY)
    expected = []
    with path.open() as file:
        for index, time, busy, memory_busy, *memory in list(csv.reader(file, skipinitialspace=True))[1:]:
            stamp = since_epoch(time.replace("/", "-"))
            shares = [int(text.removesuffix(" %")) / 100 for text in (busy, memory_busy)]
            sizes = [float(int(text.removesuffix(" MiB")) * MIB) for text in memory]
            metrics = [
                "gpu_utilisation",
                "gpu_memory_utilisation",
                "gpu_memory_total_bytes",
                "gpu_memory_bytes",
                "gpu_memory_free_bytes",
            ]
            expected += [
                (stamp, f"cuda:{index}", metric, value) for metric, value in zip(metrics, [*shares, *sizes], strict=True)
            ]
    trace = read(path)
    assert sorted(values(trace)) == sorted(expected)
    assert any("read as UTC" in note for note in trace.info["notes"])
    assert any("CUDA_VISIBLE_DEVICES" in note for note in trace.info["notes"])


def test_query_of_a_wrapper_with_two_device_columns():
    path = of_corpus(GLASSES)
    expected = []
    with path.open() as file:
        for row in csv.DictReader(file, skipinitialspace=True):
            if row["temperature.gpu"] is None:
                continue
            stamp, device = since_epoch(row["timestamp"]), f"cuda:{row['gpu']}"
            expected += [
                (stamp, device, "gpu_memory_bytes", float(int(row["memory.used"]) * MIB)),
                (stamp, device, "gpu_memory_total_bytes", float(int(row["memory.total"]) * MIB)),
                (stamp, device, "gpu_power_w", float(row["power.draw"])),
                (stamp, device, "gpu_temperature_c", float(row["temperature.gpu"])),
            ]
    trace = read(path)
    assert sorted(values(trace)) == sorted(expected)
    assert trace.samples["device"].nunique() == 8
    assert not any("UTC" in note for note in trace.info["notes"])
    assert any("those of gpu" in note for note in trace.info["notes"])


def test_dmon():
    path = of_corpus(DMON)
    metrics = {
        "pwr": ("gpu_power_w", 1), "gtemp": ("gpu_temperature_c", 1), "sm": ("gpu_utilisation", 0.01),
        "mem": ("gpu_memory_utilisation", 0.01), "enc": ("gpu_encoder_utilisation", 0.01),
        "dec": ("gpu_decoder_utilisation", 0.01), "mclk": ("gpu_memory_clock_hz", 10**6), "pclk": ("gpu_sm_clock_hz", 10**6),
    }  # fmt: skip
    lines = path.read_text().splitlines()
    names = lines[0].split()[2:]
    expected = []
    for number, line in enumerate(lines[2:]):
        device, *cells = line.split()
        for name, cell in zip(names, cells, strict=True):
            if cell != "-":
                expected.append((number, f"cuda:{device}", metrics[name][0], pytest.approx(int(cell) * metrics[name][1])))
    trace = read(path)
    assert values(trace) == expected
    assert trace.diagnostics == {"values_not_available": len(lines) - 2}
    assert trace.info["clock"] == "none"
    assert trace.info["source"]["schema"] == "dmon"


def test_the_plain_table():
    trace = read(of_corpus(TABLE))
    stamp = since_epoch("2026-05-24T14:08:41")
    assert values(trace) == [
        (stamp, "cuda:0", metric, value)
        for metric, value in (
            ("gpu_temperature_c", 39.0), ("gpu_pstate", 0.0), ("gpu_power_w", 104.0), ("gpu_power_limit_w", 325.0),
            ("gpu_memory_bytes", 803.0 * MIB), ("gpu_memory_total_bytes", 46068.0 * MIB), ("gpu_utilisation", 0.0),
            ("gpu_process_memory_bytes:5997", 794.0 * MIB),
        )
    ]  # fmt: skip
    assert trace.info["devices"] == [{"device": "cuda:0", "name": "NVIDIA L40S"}]
    assert trace.info["source"]["version"] == "580.126.09"
    assert "python" not in str(trace.info) + str(values(trace))


OLD_TABLE = """Sat Jun  2 10:26:56 2018
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 390.25                 Driver Version: 390.25                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GTX 106...  Off  | 00000000:23:00.0  On |                  N/A |
|  5%   46C    P8    10W / 120W |    276MiB /  6077MiB |     17%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Quadro K600         WDDM | 0000:01:00.0     Off |                  N/A |
| ERR!   N/A   P0    N/A /  N/A |      1MiB /  1024MiB |     N/A      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0      1342      G   /usr/lib/xorg/Xorg --secret of mine          113MiB |
|    1      1343    C+G   ...me\\program with blanks.exe                  N/A |
+-----------------------------------------------------------------------------+
"""


def test_tables_of_old_drivers_again_and_again(tmp_path):
    trace = written(tmp_path, OLD_TABLE + OLD_TABLE.replace("10:26:56", "10:26:57").replace("17%", " 9%"))
    first = since_epoch("2018-06-02T10:26:56")
    mine = trace.samples[trace.samples["device"] == "cuda:0"]
    assert mine.loc[mine["metric"] == "gpu_utilisation", ["time_ns", "value"]].values.tolist() == [
        [first, 0.17],
        [first + 10**9, 0.09],
    ]
    assert mine.loc[mine["metric"] == "gpu_fan_speed", "value"].tolist() == [0.05, 0.05]
    assert mine.loc[mine["metric"] == "gpu_process_memory_bytes:1342", "value"].tolist() == [113.0 * MIB] * 2
    assert [device["name"] for device in trace.info["devices"]] == ["GeForce GTX 106...", "Quadro K600"]
    assert trace.diagnostics == {"values_not_available": 2 * 6}
    assert not re.search("secret|xorg|program", str(trace.info) + str(values(trace)))


def test_dmon_with_dates_and_headers_again(tmp_path):
    header = (
        "#Date       Time        gpu     fb   bar1     sm  rxpci   mclk  sbecc\n"
        "#YYYYMMDD   HH:MM:SS    Idx     MB     MB      %   MB/s    MHz   errs\n"
    )
    trace = written(
        tmp_path,
        header + " 20240104   13:54:35      0    239      3      6      5   6250      -\n\n"
        " 20240104   13:54:35      1      2      3      0      0   6250      0\n" + header +
        " 20240104   13:54:36      0     74     10     97    217   6250      -\nkilled\n",
    )  # fmt: skip
    stamp = since_epoch("2024-01-04T13:54:35")
    assert values(trace)[:6] == [
        (stamp, "cuda:0", "gpu_memory_bytes", 239.0 * MIB), (stamp, "cuda:0", "gpu_bar1_bytes", 3.0 * MIB),
        (stamp, "cuda:0", "gpu_utilisation", 0.06), (stamp, "cuda:0", "gpu_pcie_received_bytes_per_s", 5e6),
        (stamp, "cuda:0", "gpu_memory_clock_hz", 6250e6), (stamp, "cuda:1", "gpu_memory_bytes", 2.0 * MIB),
    ]  # fmt: skip
    assert (stamp, "cuda:1", "gpu_sbecc", 0.0) in values(trace)
    assert trace.samples["time_ns"].max() == stamp + 10**9
    assert trace.diagnostics == {"unreadable_lines": 1, "values_not_available": 2}


def test_dmon_with_times_of_day_passes_midnight(tmp_path):
    trace = written(tmp_path, "#Time        gpu   pwr\n#HH:MM:SS    Idx     W\n 23:59:59      0    70\n 00:00:00      0    71\n")
    assert values(trace) == [(86399 * 10**9, "cuda:0", "gpu_power_w", 70.0), (86400 * 10**9, "cuda:0", "gpu_power_w", 71.0)]
    assert trace.info["clock"] == "relative"


def test_dmon_of_several_gpus_without_times_counts_rounds(tmp_path):
    trace = written(tmp_path, "# gpu   pwr\n# Idx     W\n    0    70\n    1    80\n    0    71\n    1    81\n")
    assert [row[:2] for row in values(trace)] == [(0, "cuda:0"), (0, "cuda:1"), (1, "cuda:0"), (1, "cuda:1")]


def test_dmon_as_csv(tmp_path):
    trace = written(tmp_path, "#gpu, pwr, sm\n#Idx, W, %\n0, 70, 5\n1, -, 6\n")
    assert [row[1:] for row in values(trace)] == [
        ("cuda:0", "gpu_power_w", 70.0), ("cuda:0", "gpu_utilisation", 0.05), ("cuda:1", "gpu_utilisation", 0.06),
    ]  # fmt: skip


def test_pmon(tmp_path):
    trace = written(
        tmp_path,
        "# gpu         pid   type     fb   ccpm     sm    mem    enc    dec    command\n"
        "# Idx           #    C/G     MB     MB      %      %      %      %    name\n"
        "    0     269934   C+G    127      0     40      -      -      -    some program\n"
        "    1          -     -      -      -      -      -      -      -    -\n",
    )
    assert [row[1:] for row in values(trace)] == [
        ("cuda:0", "gpu_process_memory_bytes:269934", 127.0 * MIB),
        ("cuda:0", "gpu_process_protected_memory_bytes:269934", 0.0),
        ("cuda:0", "gpu_process_utilisation:269934", 0.40),
    ]
    assert trace.info["source"]["schema"] == "pmon"
    assert "program" not in str(trace.info)


def test_dcgmi_dmon(tmp_path):
    trace = written(
        tmp_path,
        "#Entity   TMPTR   POWER   SMACT   FBUSD\nID        C       W\nGPU 0     32      51.3    0.005   500\n"
        "GPU 1     N/A     20.986  0.000   0\n#Entity   TMPTR   POWER   SMACT   FBUSD\nID\n"
        "GPU 0     33      52.0    0.100   501\nGPU-I 0  1 2 3 4\n",
    )  # fmt: skip
    assert values(trace)[:4] == [
        (0, "cuda:0", "gpu_temperature_c", 32.0), (0, "cuda:0", "gpu_power_w", 51.3), (0, "cuda:0", "gpu_sm_active", 0.005),
        (0, "cuda:0", "gpu_memory_bytes", 500.0 * MIB),
    ]  # fmt: skip
    assert len(values(trace)) == 11
    assert trace.diagnostics == {"unreadable_lines": 1, "values_not_available": 1}


@pytest.mark.parametrize(
    ("header", "cell", "metric", "value"),
    [
        ("power.draw [W]", "70.25 W", "gpu_power_w", 70.25), ("power.draw [W]", "70.25", "gpu_power_w", 70.25),
        ("power.draw", "70.25", "gpu_power_w", 70.25), ("power.draw.instant [W]", "61.00 W", "gpu_power_instant_w", 61.0),
        ("enforced.power.limit [W]", "300.00 W", "gpu_power_limit_enforced_w", 300.0),
        ("memory.used [MiB]", "3 MiB", "gpu_memory_bytes", 3.0 * MIB), ("memory.used", "3", "gpu_memory_bytes", 3.0 * MIB),
        ("utilization.gpu [%]", "45 %", "gpu_utilisation", 0.45), ("fan.speed [%]", "33 %", "gpu_fan_speed", 0.33),
        ("clocks.current.sm [MHz]", "1410 MHz", "gpu_sm_clock_hz", 1410e6),
        ("clocks.max.sm", "1980", "gpu_sm_clock_max_hz", 1980e6),
        ("temperature.memory", "51", "gpu_memory_temperature_c", 51.0),
        ("pcie.link.gen.current", "4", "gpu_pcie_link_gen_current", 4.0),
        ("clocks_throttle_reasons.active", "0x0000000000000004", "gpu_clocks_throttle_reasons_active", 4.0),
        ("clocks_event_reasons.sw_power_cap", "Not Active", "gpu_clocks_event_reasons_sw_power_cap", 0.0),
        ("ecc.errors.corrected.volatile.total", "2", "gpu_ecc_errors_corrected_volatile_total", 2.0),
    ],
)  # fmt: skip
def test_fields_of_queries(tmp_path, header, cell, metric, value):
    trace = written(tmp_path, f"timestamp, index, {header}, memory.free [MiB]\n2020/05/01 12:00:00.123, 3, {cell}, [N/A]\n")
    assert values(trace) == [(since_epoch("2020-05-01T12:00:00.123"), "cuda:3", metric, value)]
    assert trace.diagnostics == {"values_not_available": 1}


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2020/05/01 12:00:00.123", 1588334400123000000), ("2020-05-01T12:00:00Z", 1588334400000000000),
        ("2020-05-01 14:00:00+02:00", 1588334400000000000), ("2020-05-01T06:30:00.5-0530", 1588334400500000000),
        ("1588334400", 1588334400000000000), ("1588334400.25", 1588334400250000000), ("1588334400123", 1588334400123000000),
        ("1588334400123456", 1588334400123456000), ("1588334400123456789", 1588334400123456789),
    ],
)  # fmt: skip
def test_times(tmp_path, stamp, expected):
    assert values(written(tmp_path, f"timestamp, utilization.gpu [%]\n{stamp}, 5 %\n"))[0][0] == expected


@pytest.mark.parametrize("stamp", ["2020/13/01 12:00:00.123", "9999/01/01 00:00:00", "yesterday", "", "1e400", "9" * 19])
def test_rows_whose_time_cannot_be_read_are_counted(tmp_path, stamp):
    text = f"timestamp, utilization.gpu [%]\n{stamp}, 5 %\n2020/05/01 12:00:00.123, 6 %\n"
    trace = written(tmp_path, text)
    assert [row[3] for row in values(trace)] == [0.06]
    assert trace.diagnostics == {"values_without_time": 1}


def test_devices_by_their_identity(tmp_path):
    trace = written(
        tmp_path,
        "timestamp, name, pci.bus_id, utilization.gpu [%]\n2020/05/01 12:00:00.123, Tesla T4, 00000000:3B:00.0, 5 %\n"
        "2020/05/01 12:00:00.123, Tesla T4, 00000000:5E:00.0, 6 %\n2020/05/01 12:00:01.123, Tesla T4, 00000000:3B:00.0, 7 %\n",
    )
    assert [row[1] for row in values(trace)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert trace.info["devices"][1] == {"device": "cuda:1", "name": "Tesla T4"}
    assert "3B:00" not in str(trace.info)


def test_processes_of_a_query(tmp_path):
    trace = written(
        tmp_path, "timestamp, pid, process_name, used_gpu_memory [MiB]\n2020/05/01 12:00:00.123, 77, /home/me/bin/python, 5 MiB\n"
    )
    assert [row[1:] for row in values(trace)] == [(None, "gpu_process_memory_bytes:77", 5.0 * MIB)]
    assert "/home" not in str(trace.info)


def test_lines_of_another_length_and_words_are_counted(tmp_path):
    trace = written(tmp_path, "noise\nindex, utilization.gpu [%], compute_mode\n0, 5 %, Default\n0, 5\n0, 6 %, Default, more\n")
    assert [row[3] for row in values(trace)] == [0.05]
    assert trace.diagnostics == {"unreadable_lines": 3, "values_that_are_no_numbers": 1}


def test_a_query_without_its_header_is_refused(tmp_path):
    path = tmp_path / "gpu.csv"
    path.write_text("2020/05/01 12:00:00.123, 45 %, 300 MiB\n")
    assert gpu_samples.matches(read_head(path))  # to be refused with this advice
    with pytest.raises(EvidenceError, match=r"gpu\.csv: .*--format=csv \(not noheader\)") as raised:
        gpu_samples.read(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["a, 5 %\n", "2020/05/01 12:00:00.123, loss 0.5\n", "# gpu gpu gpu\n0 1 2\n", "# gpu usage\n"])
def test_other_text_is_not_taken(tmp_path, text):
    path = tmp_path / "other.log"
    path.write_text(text)
    assert not gpu_samples.matches(read_head(path))


@pytest.mark.parametrize("indent", ["    ", "\t"])
@pytest.mark.parametrize(
    "text",
    [
        "# gpu   pwr  temp    sm\n# Idx     W     C     %\n    0    88    63    50\n    0    60    63     0\n",
        "# gpu        pid  type    sm\n# Idx          #   C/G     %\n    0      22010     C    98\n",
        "#Entity   GPUTL   SMACT\nID\nGPU 0     61      0.367\n",
    ],
)
def test_quoted_in_a_document(tmp_path, text, indent):
    quoted = f"what it shows:\n{indent}" + text.replace("\n", f"\n{indent}")
    assert [row[1:] for row in values(written(tmp_path, quoted))] == [row[1:] for row in values(written(tmp_path, text))]


@pytest.mark.parametrize("prefix", ["      ", "# ", "> "])
def test_a_quoted_table(tmp_path, prefix):
    trace = written(tmp_path, "$ nvidia-smi\n" + "".join(f"{prefix}{line}\n" for line in OLD_TABLE.split("\n")))
    assert values(trace) == values(written(tmp_path, OLD_TABLE))


def test_the_driver_is_no_sample(tmp_path):
    text = (
        "timestamp, name, pci.bus_id, driver_version, memory.total [MB], memory.used [MB]\n"
        "2013/01/10 19:23:24.321, Tesla K20, 0000:05:00.0, 310.23, 4799 MB, 12 MB\n"
    )
    trace = written(tmp_path, text)
    assert trace.info["source"]["driver"] == "310.23"
    assert [row[2:] for row in values(trace)] == [("gpu_memory_total_bytes", 4799.0 * MIB), ("gpu_memory_bytes", 12.0 * MIB)]


def test_a_table_and_query_csv_in_one_file(tmp_path):
    trace = written(tmp_path, "index, power.draw [W]\n0, 70 W\n\n" + OLD_TABLE)
    assert any("also holds query CSV" in note for note in trace.info["notes"])


def test_a_header_alone(tmp_path):
    trace = written(tmp_path, "timestamp, utilization.gpu [%]\n")
    assert trace.samples.empty
    assert "no readable sample" in trace.info["unavailable"]["samples"]


@pytest.mark.parametrize(
    "text",
    [
        "GPUId,TimeStampUs,Field,Values\n" + "9" * 50 + ",1,a,1\n0,,,\n0,1,power_usage,1e999\n0,1718783836956328,b,nan\n",
        "# gpu sm sm\n0 1 2\n", "# gpu pwr\n0 " + "9" * 400 + "\n", "#Entity A\nGPU 99999999999 1\n",
        "| NVIDIA-SMI 1 |\n" + "|   0  " + "x " * 100_000 + "\n",
        "| NVIDIA-SMI 1 |\n|   0  A  Off | 0:0 |\n| " + "a/" * 150 + " |\n",
        "power.draw, power.draw\n1, 2\n", "power.draw [\u221e]\n1\n", "index, power.draw\n" + "0, 1\n" * 3 + "\x00\x01",
    ],
)  # fmt: skip
def test_nonsense_does_no_harm(tmp_path, text):
    path = tmp_path / "odd.log"
    path.write_text(text)
    gpu_samples.read(path).check()


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(
        [
            OLD_TABLE,
            "# gpu   pwr\n# Idx     W\n    0    70\n",
            "timestamp, index, power.draw [W]\n2020/05/01 12:00:00.1, 0, 7 W\n",
        ]
    ),
    st.lists(st.tuples(st.integers(0, 5000), st.text(max_size=4)), max_size=6),
)  # fmt: skip
def test_damage_is_an_error_and_nothing_else(tmp_path_factory, text, changes):
    for place, put in changes:
        place %= len(text)
        text = text[:place] + put + text[place + 1 :]
    path = tmp_path_factory.getbasetemp() / "damaged.log"
    path.write_bytes(text.encode("utf8", "surrogatepass"))
    gpu_samples.matches(Head(path, path.read_bytes()))
    try:
        gpu_samples.read(path).check()
    except EvidenceError as error:
        if "\n" in str(error):
            raise
