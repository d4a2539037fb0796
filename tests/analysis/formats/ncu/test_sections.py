"""What `ncu` prints without --csv: launches, sections of old and new versions, and what a program prints around them."""

import re

import pytest

import kernelscope as ks
from kernelscope.analysis.device import counters
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.ncu import sections
from tests.analysis.formats.ncu.pages import SPEED, launch, launched, occupancy, rule, section, speed

PRINTED = """epoch 1, loss 2
==PROF== Connected to process 828 (/tmp/run/cuda_exec.out)
==PROF== Profiling "sgemm" - 0: 0%....50%....100% - 8 passes
[828] cuda_exec.out@127.0.0.1

  sgemm(int, float, const float *, float *) (32, 32, 1)x(32, 32, 1), Context 1, Stream 7, Device 0, CC 7.5
    Section: GPU Speed Of Light Throughput
    ----------------------- ------------- -------------
    Metric Name               Metric Unit  Metric Value
    ----------------------- ------------- -------------
    DRAM Frequency          cycle/nsecond          5.00
    SM Frequency            cycle/usecond        584.99
    Elapsed Cycles                  cycle    56,344,784
    Memory Throughput                   %         49.23
    Duration                      msecond         96.32
    SM Active Cycles                cycle 55,313,213.62
    ----------------------- ------------- -------------

    OPT   This kernel exhibits low compute throughput and memory bandwidth utilization relative to the peak performance
          of this device. Look at Scheduler Statistics and Warp State Statistics for potential reasons.

    Section: Occupancy
    ------------------------------- ----------- ------------
    Metric Name                     Metric Unit Metric Value
    ------------------------------- ----------- ------------
    Block Limit SM                        block           16
    Theoretical Occupancy                     %          100
    Achieved Occupancy                        %        97.95
    ------------------------------- ----------- ------------

    INF   This kernel's theoretical occupancy is not impacted by any block limit.
"""


def read(tmp_path, text):
    path = tmp_path / "page.txt"
    path.write_text(text)
    return ks.read(path)


def test_a_page_among_a_programs_output(tmp_path):
    trace = read(tmp_path, PRINTED)
    assert trace.info["source"]["format"] == "ncu-text"
    kernel = trace.kernels.iloc[0]
    assert (kernel["name"], kernel["duration_ns"]) == ("sgemm(int, float, const float *, float *)", 96_320_000)
    assert (kernel["grid"], kernel["block"], kernel["process"], kernel["thread"]) == ("32,32,1", "32,32,1", 828, 7)
    assert trace.info["devices"] == [{"device": "cuda:0", "compute_capability": "7.5"}]
    values = trace.metrics.set_index("metric")["value"]
    assert len(values) == 9
    assert values["SM Frequency"] == pytest.approx(584.99e6)
    assert values["SM Active Cycles"] == 55_313_213.62
    assert values["Block Limit SM"] == 16
    text = (
        "This kernel exhibits low compute throughput and memory bandwidth utilization relative to the peak performance of this "
        "device. Look at Scheduler Statistics and Warp State Statistics for potential reasons."
    )
    assert trace.info["rules"] == [{"kernel": kernel["name"], "text": text, "saving": None}]
    assert trace.info["not_read"] == {"advice of rules": 1}
    assert not trace.diagnostics


def test_each_launch_has_its_own_metrics(tmp_path):
    text = launch("add(T1 *)", speed("1.5", 10, 80, 20, 5), occupancy(100, 90)) + launch(
        "mul<int>(T1 *)", speed("0.5", 50, 8, 2, 5)
    )
    trace = read(tmp_path, text)
    assert list(trace.kernels["duration_ns"]) == [1_500_000, 500_000]
    rows = counters.table(trace).set_index("kernel")
    assert rows.loc["add(T1 *)", ["dram_throughput", "achieved_occupancy"]].tolist() == [0.8, 0.9]
    assert rows["sm_throughput"]["mul<int>(T1 *)"] == 0.5
    assert rows["achieved_occupancy"].isna()["mul<int>(T1 *)"]


def test_settings_in_words_are_no_damage(tmp_path):
    trace = read(tmp_path, launch("add(T1 *)", speed("1.5", 10, 80, 20, 5), launched(32)))
    assert not trace.diagnostics
    assert list(trace.kernels["registers"]) == [32]
    assert trace.info["devices"][0]["multiprocessors"] == 108


def test_versions_before_2021(tmp_path):
    table = section("GPU Speed Of Light", {"Duration": ("usecond", "12.5"), "SOL FB": ("%", "63.01")}, headed=False)
    trace = read(tmp_path, f"  add, 2020-May-12 10:22:33, Context 1, Stream 7\n{table}")
    assert (list(trace.kernels["name"]), list(trace.kernels["duration_ns"])) == (["add"], [12_500])
    assert list(counters.table(trace)["dram_throughput"]) == [0.6301]


def test_a_summary_of_several_launches(tmp_path):
    rows = [("Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"), ("Duration", "usecond", "1.00", "3.00", "2.00")]
    body = [f"    {a:<11} {b:>11} {c:>12} {d:>12} {e:>12}" for a, b, c, d, e in rows]
    dashes = "    " + " ".join(["-" * 11, "-" * 11, *["-" * 12] * 3])
    text = [
        "  add(T1 *) (4, 1, 1)x(64, 1, 1), Device 0, CC 9.0, Invocations 10",
        f"    Section: {SPEED}",
        dashes,
        body[0],
        dashes,
    ]
    trace = read(tmp_path, "\n".join([*text, body[1], dashes, ""]))
    assert trace.kernels[["count", "duration_ns"]].iloc[0].tolist() == [10, 20_000]


def test_a_page_without_durations_says_what_to_record(tmp_path):
    with pytest.raises(EvidenceError, match="none of 1 launches has a duration; record with the section SpeedOfLight"):
        read(tmp_path, launch("add(T1 *)", occupancy(100, 90)))


def test_lines_that_are_cut_are_told(tmp_path):
    text = launch("add(T1 *)", speed("1.5", 10, 80, 20, 5))
    trace = read(tmp_path, re.sub(r"(?m)^( *DRAM Throughput).*$", r"\1", text))
    assert trace.diagnostics == {"lines of ncu's table that cannot be read": 1}


@pytest.mark.parametrize(("cycles", "took"), [("6 002 517", "4,78"), ("6.002.517", "4,78"), ("6,002,517", "4.78")])
def test_numbers_of_other_languages(tmp_path, cycles, took):
    rows = {"Elapsed Cycles": ("cycle", cycles), "Duration": ("msecond", took), "SOL FB": ("%", took)}
    trace = read(tmp_path, launch("add(T1 *)", section("GPU Speed Of Light", rows)))
    values = trace.metrics.set_index("metric")["value"]
    assert (list(trace.kernels["duration_ns"]), values["Elapsed Cycles"], values["SOL FB"]) == ([4_780_000], 6_002_517, 4.78)


def test_a_page_that_was_copied_without_the_kernels_name(tmp_path):
    text = speed("1.5", 10, 80, 20, 5) + occupancy(100, 90) + speed("0.5", 50, 8, 2, 5)
    trace = read(tmp_path, text)
    assert list(trace.kernels["name"]) == ["(kernel without a name)"] * 2
    assert list(trace.kernels["duration_ns"]) == [1_500_000, 500_000]


def bare(text):
    """Return a page without the lines that name sections."""
    return re.sub(r"(?m)^.*Section: .*\n", "", text)


def test_tables_that_were_copied_without_kernel_and_sections(tmp_path):
    trace = read(tmp_path, "$ ncu --set basic ./bench\n" + bare(speed("1.5", 10, 80, 20, 5) + occupancy(100, 90)))
    assert trace.info["source"]["format"] == "ncu-text"
    assert list(trace.kernels["name"]) == ["(kernel without a name)"]
    assert list(trace.kernels["duration_ns"]) == [1_500_000]
    values = trace.metrics.set_index("metric")["value"]
    assert values["Achieved Occupancy"] == 90
    assert trace.metrics["section"].isna().all()


def test_a_second_duration_among_such_tables_is_another_launch(tmp_path):
    text = bare(speed("1.5", 10, 80, 20, 5) + occupancy(100, 90) + speed("0.5", 50, 8, 2, 5) + occupancy(100, 30))
    trace = read(tmp_path, text)
    assert list(trace.kernels["duration_ns"]) == [1_500_000, 500_000]
    assert trace.metrics.loc[trace.metrics["metric"] == "Achieved Occupancy", ["kernel", "value"]].values.tolist() == [
        [0, 90],
        [1, 30],
    ]
    assert trace.metrics.groupby("kernel").size().nunique() == 1
    assert not trace.diagnostics


def test_a_page_in_a_quotation(tmp_path):
    quoted = "".join(f"> {line}".rstrip() + "\n" for line in launch("add(T1 *)", speed("1.5", 10, 80, 20, 5)).splitlines())
    trace = read(tmp_path, f"$ ncu ./a.out\n{quoted}")
    assert (list(trace.kernels["name"]), trace.info["source"]["format"]) == (["add(T1 *)"], "ncu-text")


def test_a_quotation_of_other_text_is_no_page(tmp_path):
    with pytest.raises(EvidenceError, match="no capture of a known format"):
        read(tmp_path, "> Section: the device\n> ----- ----- -----\n> words\n")


SAVED = rule("OPT", "Est. Speedup: 90%", "The grid has only 4 blocks, which is less than the GPU's 40", "multiprocessors.")
LOCAL = rule("WRN", "Est. Local Speedup: 77.53%", "Achieved occupancy is low.")


def test_what_rules_say_of_each_kernels_longest_launch(tmp_path):
    again = rule("OPT", "Estimated Speedup: 12.5%", "Another launch.")
    text = launch("add(T1 *)", speed("0.5", 10, 80, 20, 5), again) + launch(
        "add(T1 *)", speed("1.5", 10, 80, 20, 5), SAVED, LOCAL, rule("INF", "All is well."), "the program prints this\n"
    )
    trace = read(tmp_path, text)
    assert trace.info["rules"] == [
        {"kernel": "add(T1 *)", "saving": 0.9,
         "text": "The grid has only 4 blocks, which is less than the GPU's 40 multiprocessors."},
        {"kernel": "add(T1 *)", "text": "Achieved occupancy is low.", "saving": None},
    ]  # fmt: skip
    assert trace.info["devices"][0]["multiprocessors"] == 40
    assert trace.info["not_read"] == {"advice of rules": 2}


def test_a_programs_output_is_no_part_of_a_rule(tmp_path):
    trace = read(tmp_path, launch("add(T1 *)", speed("0.5", 10, 80, 20, 5), LOCAL + "epoch 1, loss 2\n"))
    assert [one["text"] for one in trace.info["rules"]] == ["Achieved occupancy is low."]


@pytest.mark.parametrize(("blocks", "waves", "processors"), [(4096, "28.44", 24), (3456, "4", 144), (32, "0.10", None)])
def test_waves_tell_the_number_of_multiprocessors_if_only_one_fits(tmp_path, blocks, waves, processors):
    """6 blocks fit a multiprocessor, by their registers: 4,096 blocks in 28.44 waves need 24; 0.10 waves fit 51 to 56."""
    rows = {"Grid Size": ("", str(blocks)), "Waves Per SM": ("", waves)}
    limits = {"Block Limit SM": ("block", "24"), "Block Limit Registers": ("block", "6"), "Block Limit Warps": ("block", "8")}
    sections = section("Launch Statistics", rows), section("Occupancy", limits)
    trace = read(tmp_path, launch("add(T1 *)", speed("1.5", 10, 80, 20, 5), *sections))
    assert trace.info["devices"][0].get("multiprocessors") == processors


def test_a_launch_whose_line_is_lost_is_another_kernel(tmp_path):
    """A launch has each section once."""
    second = "\n".join(launch("convolve(float *)", speed("7.00", 50, 60, 30, 20)).splitlines()[1:]) + "\n"
    trace = read(tmp_path, launch("gemm(float *)", speed("2.98", 50, 60, 30, 20)) + second)
    assert trace.kernels["duration_ns"].tolist() == [2_980_000, 7_000_000]
    assert trace.kernels["name"].tolist() == ["gemm(float *)", sections.UNNAMED]
    assert trace.diagnostics["lines of ncu's table that cannot be read"] == 1


def test_metrics_that_are_given_twice_and_numbers_that_cannot_be_read_are_told(tmp_path):
    page = launch("gemm(float *)", speed("2.98", 50, 60, 30, 20))
    line = next(line for line in page.splitlines(keepends=True) if "Duration" in line)
    trace = read(tmp_path, page.replace(line, line + line.replace("2.98", "7.00")))
    assert trace.kernels["duration_ns"].tolist() == [2_980_000]
    assert trace.diagnostics == {"metrics that are given twice with other values, of which the first counts": 1}
    assert not read(tmp_path, page.replace(line, line + line)).diagnostics
    trace = read(tmp_path, page.replace(", CC 8.0", ", CC 8.0, Invocations 99999999999999999999"))
    assert trace.diagnostics == {"launches whose number of executions cannot be read: taken as one": 1}


def test_a_line_of_dashes_without_end_is_no_table(tmp_path):
    text = launch("gemm(float *)", speed("2.98", 50, 60, 30, 20), "    " + "--- " * 5_000)
    assert read(tmp_path, text).kernels["duration_ns"].tolist() == [2_980_000]
