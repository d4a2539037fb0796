"""Profilers are found where packages put them and known by the version they tell."""

import pytest

from kernelscope.nsys_wrappers import find

NSYS = "NVIDIA Nsight Systems version {}-df9881f"
NVPROF = "nvprof: NVIDIA (R) Cuda command line profiler\nCopyright (c) 2012 - 2022 NVIDIA Corporation\nRelease version {} (21)"


def tool(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{text}\nEND\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch, tmp_path):
    for name in ("KERNELSCOPE_NSYS", "KERNELSCOPE_NVPROF", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))  # a profiler of the machine is not to be found
    patterns = {"nsys": (f"{tmp_path}/opt/*/bin/nsys",), "nvprof": (f"{tmp_path}/cuda*/bin/nvprof",)}
    monkeypatch.setattr(find, "_PATTERNS", patterns)


def test_newest_of_the_installed(tmp_path):
    for version in ("2022.4.2.1", "2024.10.1.2", "2024.6.1.9"):
        tool(tmp_path / "opt" / version / "bin/nsys", NSYS.format(version))
    found = find.find("nsys")
    assert found.version == "2024.10.1.2"
    assert found.source == "installed"
    assert len(find.find_all("nsys")) == 3


def with_importer(nsys, text):
    """Put an importer where NVIDIA's packages have it: in a folder beside that of nsys."""
    tool(nsys.parent.parent / "host-linux-x64/QdstrmImporter", text)
    return nsys


def test_the_variable_then_the_newest_that_is_usable(tmp_path, monkeypatch):
    without = tool(tmp_path / "opt/newest/bin/nsys", NSYS.format("2025.1.1.1"))
    assert find.find("nsys").path == without  # better than none
    assert "its QdstrmImporter, which makes reports, is missing" in find.usable(find.find("nsys"))
    broken = with_importer(tool(tmp_path / "opt/newer/bin/nsys", NSYS.format("2024.6.2.1")), "")
    (broken.parent.parent / "host-linux-x64/QdstrmImporter").write_text(
        "#!/bin/sh\necho 'libssh.so: cannot open' >&2\nexit 127\n"
    )
    chosen = with_importer(tool(tmp_path / "bin/nsys", NSYS.format("2023.4.4.54")), "NVIDIA Nsight Systems 2023.4.4.54-23v0")
    with_importer(tool(tmp_path / "opt/old/bin/nsys", NSYS.format("2022.4.2.1")), "NVIDIA Nsight Systems 2022.4.2.1-df9881f")
    assert find.find("nsys") == find.Tool("nsys", chosen, "2023.4.4.54", "PATH")
    [reason] = [find.usable(each) for each in find.find_all("nsys") if each.path == broken]
    lacks = "its importer does not run: libssh.so: cannot open; install what it lacks, or another nsys"
    assert reason == f"nsys 2024.6.2.1 ({broken}): {lacks}"
    named = tool(tmp_path / "elsewhere/nsys", NSYS.format("2022.4.2.1"))
    monkeypatch.setenv("KERNELSCOPE_NSYS", str(named))
    assert find.find("nsys").path == named


def test_nvprof(tmp_path, monkeypatch):
    tool(tmp_path / "cuda-11.8/bin/nvprof", NVPROF.format("11.8.87"))
    assert find.find("nvprof").release == (11, 8, 87)
    home = tool(tmp_path / "home of cuda/bin/nvprof", NVPROF.format("10.2.89"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home of cuda"))
    assert find.find("nvprof").path == home


def test_what_does_not_run_is_no_tool_and_is_told(tmp_path, monkeypatch):
    broken = tool(tmp_path / "bin/nsys", "")
    broken.write_text("#!/bin/sh\necho 'error while loading libcupti.so.11.8' >&2\nexit 127\n")
    (tmp_path / "opt/x/bin/nsys").mkdir(parents=True)
    monkeypatch.setenv("KERNELSCOPE_NSYS", "/nowhere/nsys")
    assert find.find("nsys") is None
    assert find.failures("nsys") == [
        "KERNELSCOPE_NSYS names /nowhere/nsys, which is not a program",
        f"{broken} does not run: error while loading libcupti.so.11.8",
    ]
    broken.write_text("#!/bin/sh\necho version 1.2\nexit 1\n")
    assert find.find("nsys") is None


def test_one_file_under_two_names_is_one_tool(tmp_path):
    real = tool(tmp_path / "opt/2024/bin/nsys", NSYS.format("2024.6.1.9"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nsys").symlink_to(real)
    assert len(find.find_all("nsys")) == 1


def test_no_nvtx_library_from_a_wrong_name(tmp_path, monkeypatch):
    (tmp_path / "libwrong.so").write_text("not a library")
    monkeypatch.setenv("KERNELSCOPE_NVTX_LIBRARY", str(tmp_path / "libwrong.so"))
    assert find.nvtx_library() != str(tmp_path / "libwrong.so")


def test_environments_of_conda_and_wheels(tmp_path, monkeypatch):
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    inside = tool(tmp_path / "conda/nsight-compute-2025.1.1/host/target-linux-x64/nsys", NSYS.format("2024.6.2.225"))
    assert find.find("nsys").path == inside
    assert find.find("nsys").source == "CONDA_PREFIX"
    wheel = tool(tmp_path / "site/nvidia/nsight_systems/bin/nsys", NSYS.format("2025.6.1.1"))
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert find.find("nsys").path == wheel


def test_a_named_path(tmp_path):
    program = tool(tmp_path / "n/target-linux-x64/nsys", NSYS.format("2024.6.2.225"))
    assert find.examine("nsys", program) == find.Tool("nsys", program, "2024.6.2.225", "named")
    assert find.examine("nsys", tmp_path / "n") == find.examine("nsys", program)
    assert find.examine("nsys", tmp_path / "none") == f"{tmp_path}/none: there is no program nsys; give the path of nsys itself"
    other = tool(tmp_path / "n/ls", "coreutils")
    assert find.examine("nsys", other) == f"{other} is not nsys: coreutils"


def test_options_come_from_the_help(tmp_path):
    program = tool(
        tmp_path / "nsys", "\t-b, --backtrace=\n\n\t   Use the '--cpu-core-events=help' switch\n\t--cuda-graph-trace=<a>[:<b>]\n"
    )
    assert find.offered(find.Tool("nsys", program, "2024.1", "PATH")) == {"--backtrace", "--cuda-graph-trace"}
    assert find.offered(find.Tool("nsys", tmp_path / "gone", "2024.1", "PATH")) == frozenset()
