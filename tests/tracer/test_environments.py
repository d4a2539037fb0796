"""Environments are complete or absent, whatever happens to their builder."""

import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from kernelscope.tracer.outside import building, environments, gpu, interpreters, locks, openmpi, recipes
from kernelscope.tracer.outside.errors import ChildError, InputError, UsageError

MINOR = "{}.{}".format(*sys.version_info[:2])

# A recipe that is built in seconds: a virtual environment in which a module of the standard library imports.
TINY = f"# python: {MINOR}\n# import: json\n"

# Another process that builds the tiny environment, telling its stages on stdout.
BUILDER = """
import sys
from pathlib import Path
from kernelscope.tracer.outside import environments, recipes
folder = Path(sys.argv[1])
recipes._path = lambda framework, variant: folder / f"{framework}-{variant}.txt"
class Progress:
    def stage(self, text): print(text, flush=True)
    def detail(self, text): pass
print(environments.create("pytorch", progress=Progress()).python, flush=True)
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Let `pytorch` be the tiny recipe, in a cache of its own; return the folder of recipes."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "pytorch-cpu.txt").write_text(TINY)
    monkeypatch.setattr(recipes, "_path", lambda framework, variant: folder / f"{framework}-{variant}.txt")
    monkeypatch.setattr(recipes, "FRAMEWORKS", ("pytorch",))
    monkeypatch.setattr(environments, "FRAMEWORKS", ("pytorch",))
    monkeypatch.setenv("KERNELSCOPE_HOME", str(tmp_path / "home of all"))
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELSCOPE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def start_builder(folder):
    command = [sys.executable, "-c", BUILDER, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_home(monkeypatch, tmp_path):
    monkeypatch.delenv("KERNELSCOPE_HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert environments.home() == tmp_path / ".cache" / "kernelscope"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert environments.home() == tmp_path / "xdg" / "kernelscope"
    monkeypatch.setenv("KERNELSCOPE_HOME", "~/own")
    assert environments.home() == tmp_path / "own"
    monkeypatch.setenv("KERNELSCOPE_HOME", "/a:b")
    with pytest.raises(InputError, match="colon"):
        environments.home()


@pytest.mark.parametrize("framework", recipes.FRAMEWORKS)
def test_recipes_pin_what_they_install(framework):
    assert ("cpu" in recipes.variants(framework)) == (framework != "cudnn")
    for variant in recipes.variants(framework):
        found = recipes.recipe(framework, variant)
        assert found.pythons
        assert "numpy" in found.imports
        assert found.disk_bytes > 1e8
        lines = [line for line in found.text.splitlines() if line and not line.startswith("#")]
        assert all("==" in line for line in lines)
        assert any(line.startswith("line_profiler==") for line in lines)


@pytest.mark.parametrize("framework", recipes.FRAMEWORKS)
def test_every_package_of_an_environment_has_hashes(framework):
    for variant in recipes.variants(framework):
        found = recipes.recipe(framework, variant)
        assert found.hashes.python == found.pythons[0]
        blocks = found.hashes.text.split("==")
        assert all("--hash=sha256:" in block for block in blocks[1:])
        names = {line.split(" ")[0].lower() for line in found.hashes.text.splitlines() if "==" in line}
        lines = [line.partition(";")[0].strip() for line in found.text.splitlines() if "==" in line and not line.startswith("#")]
        asked = {re.sub(r"\[.*\]", "", line).lower().replace("_", "-") for line in lines}
        assert asked <= names
        if found.pip:
            assert f"pip=={found.pip} " in recipes.pip_hashes(found.pip).read_text()


def test_a_recipe_says_what_it_lacks():
    with pytest.raises(ValueError, match=r"x\.txt: no line `# python"):
        recipes.parse("x", "cpu", Path("x.txt"), "torch==1\n")
    with pytest.raises(ValueError, match="disk"):
        recipes.parse("x", "cpu", Path("x.txt"), "# python: 3.11\n# import: a\n# disk: much\n")


def test_key_depends_on_pins_variant_and_interpreter(tmp_path):
    def key(variant="cpu", text=TINY, python="3.11.7"):
        return recipes.parse("pytorch", variant, tmp_path, text).key(python)

    assert key() == key()
    assert key().startswith("pytorch-")
    assert len({key(), key("cuda"), key(text=TINY + "numpy==2\n"), key(python="3.11.8")}) == 4


def test_variant_follows_nvml(monkeypatch):
    monkeypatch.setattr(gpu, "find", lambda: gpu.Gpus((), "NVML: no driver"))
    assert recipes.wanted_variant("pytorch") == ("cpu", "no GPU (NVML: no driver)")
    device = gpu.Gpu(0, "NVIDIA H200", 10, "9.0", "580")
    monkeypatch.setattr(gpu, "find", lambda: gpu.Gpus((device,), None))
    assert recipes.wanted_variant("pytorch") == ("cuda", "NVIDIA H200")
    assert recipes.wanted_variant("cntk")[0] == "cpu"


def test_unknown_framework_and_variant(cache):
    for call in (environments.create, environments.resolve, environments.find, environments.remove):
        with pytest.raises(UsageError, match="unknown framework 'caffe'; known: pytorch, tensorflow, mxnet, cntk"):
            call("caffe")
    with pytest.raises(UsageError, match="cntk has no variant 'cuda'; known: cpu"):
        environments.create("cntk", variant="cuda")


def test_not_set_up(cache):
    with pytest.raises(ChildError, match="kernelscope env create mxnet"):
        environments.resolve("mxnet")
    rows = environments.list_all()
    assert [row["framework"] for row in rows] == list(recipes.FRAMEWORKS)
    assert not any(row["ready"] for row in rows)
    assert all(row["reason"] for row in rows)
    assert not cache.exists(), "looking makes nothing"


def test_no_interpreter_of_the_version(cache, monkeypatch):
    monkeypatch.setattr(interpreters, "candidates", lambda minor=None: iter(()))
    with pytest.raises(ChildError, match=r"cntk needs Python 3\.6: no Python 3\.6 was found .*pyenv install 3\.6"):
        environments.create("cntk")
    row = next(row for row in environments.list_all() if row["framework"] == "cntk")
    assert "no Python 3.6 was found" in row["reason"]


def test_python_option(cache, tmp_path):
    for given, message in (
        ("/nowhere/python", "there is no such file"),
        ("no-such-command-here", "there is no such file"),
        (str(tmp_path), f"is a folder; give the interpreter in it, such as {tmp_path}/bin/python"),
        ("/etc/passwd", "cannot be run"),
    ):
        with pytest.raises(UsageError, match=message):
            environments.resolve("pytorch", given)
    with pytest.raises(ChildError, match=r"cannot import mxnet \(ModuleNotFoundError: .*kernelscope env create mxnet"):
        environments.resolve("mxnet", sys.executable)
    with pytest.raises(ChildError, match="cannot import mxnet"):
        environments.resolve("mxnet", "/bin/true")
    with pytest.raises(UsageError, match=r"needs Python 3\.6"):
        environments.create("cntk", sys.executable)


def test_an_interpreter_of_the_users_is_used_as_it_is(tiny, tmp_path):
    link = tmp_path / "my python"
    link.symlink_to(sys.executable)
    found = environments.resolve("pytorch", str(link))
    assert found == environments.Environment("pytorch", link, json.__version__, {}, "given")


def test_crash_while_importing_is_told(tmp_path, monkeypatch):
    (tmp_path / "crashing.py").write_text("import os, signal\nprint('hello')\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert building.probe(python, ("crashing",), {}).failure == "cannot import crashing (killed by SIGSEGV)"
    (tmp_path / "leaving.py").write_text("raise SystemExit('no licence')")
    assert building.probe(python, ("leaving",), {}).failure == "cannot import leaving (SystemExit: no licence)"


def test_create_find_list_remove(tiny):
    made = environments.create("pytorch")
    assert made.version == json.__version__
    assert environments.find("pytorch") == made
    assert environments.create("pytorch") == made
    (row,) = environments.list_all()
    assert (row["ready"], row["reason"], row["python"]) == (True, None, str(made.python))
    assert row["size_bytes"] > 0
    marker = json.loads((made.python.parent.parent / "environment.json").read_text())
    assert marker["packages"]["pip"]
    assert environments.remove("pytorch") == [made.python.parent.parent]
    assert environments.find("pytorch") is None
    assert environments.remove("pytorch") == []
    assert list((environments.home() / "environments").iterdir()) == []


def test_changed_pins_make_a_new_environment(tiny):
    first = environments.create("pytorch")
    (tiny / "pytorch-cpu.txt").write_text(TINY + "# changed\n")
    assert environments.find("pytorch") is None
    (row,) = environments.list_all()
    assert not row["ready"]
    assert "other pinned requirements" in row["reason"]
    assert recipes.recipe("pytorch", "cpu").key(MINOR) not in str(first.python)
    assert environments.remove("pytorch") == [first.python.parent.parent]


@pytest.mark.long
def test_what_broke_is_rebuilt(tiny):
    made = environments.create("pytorch")
    marker = made.python.parent.parent / "environment.json"
    for content in ("", "{", "[]", '{"schema": 99}'):
        marker.write_text(content)
        assert environments.find("pytorch") is None
        assert "environment.json" in environments.list_all()[0]["reason"]
    assert environments.create("pytorch") == made
    made.python.unlink()
    made.python.symlink_to("/nowhere/python")
    assert environments.find("pytorch") is None
    assert "is gone" in environments.list_all()[0]["reason"]


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (TINY.replace("json", "json absent_module"), "cannot import absent_module"),
        (TINY + "--no-index\nabsent-package==1\n", "pip install failed: ERROR: No matching distribution found"),
    ],
)
def test_what_fails_leaves_a_log_and_nothing_else(tiny, recipe, message):
    (tiny / "pytorch-cpu.txt").write_text(recipe)
    with pytest.raises(ChildError, match=message) as caught:
        environments.create("pytorch")
    log = Path(str(caught.value).rpartition("see ")[2])
    assert "absent" in log.read_text()
    assert [path.suffix for path in (environments.home() / "environments").iterdir()] == [".lock"]


@pytest.fixture
def hashed(tiny, tmp_path, monkeypatch):
    """Let the tiny recipe ask for a package, of which the hash of another file is known; return the file with hashes."""
    wheel = tmp_path / "tinier-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tinier.py", "__version__ = '1.0'\n")
        archive.writestr("tinier-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinier\nVersion: 1.0\n")
        archive.writestr("tinier-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tinier-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tiny / "pytorch-cpu.txt").write_text(TINY.replace("json", "tinier") + "tinier==1.0\n")
    machine = f"{sys.platform} {platform.machine()}"
    path = tiny / "pytorch-cpu.hashes"
    path.write_text(f"# python: {MINOR}\n# machine: {machine}\ntinier==1.0 --hash=sha256:{hashlib.sha256(b'').hexdigest()}\n")
    return path, wheel


@pytest.mark.long
def test_a_file_of_another_hash_is_installed_only_if_asked_for(hashed):
    path, wheel = hashed
    with pytest.raises(ChildError, match=r"DO NOT MATCH THE HASHES.*--no-hashes accepts other files"):
        environments.create("pytorch")
    assert environments.find("pytorch") is None
    made = environments.create("pytorch", hashed=False)
    marker = json.loads((made.python.parent.parent / "environment.json").read_text())
    assert (made.version, marker["hashed"]) == ("1.0", False)
    environments.remove("pytorch")
    path.write_text(path.read_text().replace(hashlib.sha256(b"").hexdigest(), hashlib.sha256(wheel.read_bytes()).hexdigest()))
    made = environments.create("pytorch")
    assert json.loads((made.python.parent.parent / "environment.json").read_text())["hashed"] is True


def test_hashes_of_another_python_or_machine_are_not_asked_for(hashed):
    path, _ = hashed
    path.write_text(path.read_text().replace(f"# python: {MINOR}", "# python: 3.5"))
    assert environments.create("pytorch").version == "1.0"


def test_too_little_space(tiny):
    (tiny / "pytorch-cpu.txt").write_text(TINY + "# disk: 9000000 GB\n")
    with pytest.raises(InputError, match=r"needs about 9000000\.0 GB and .* are free"):
        environments.create("pytorch")


def test_folder_that_cannot_be_used(tiny, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELSCOPE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match="set KERNELSCOPE_HOME"):
        environments.create("pytorch")
    assert environments.find("pytorch") is None


def test_two_builders_build_once(tiny):
    first, second = start_builder(tiny), start_builder(tiny)
    outputs = [builder.communicate(timeout=120)[0].splitlines() for builder in (first, second)]
    assert first.returncode == second.returncode == 0, outputs
    assert outputs[0][-1] == outputs[1][-1], "the same environment"
    stages = outputs[0] + outputs[1]
    assert sum(line.startswith("making") for line in stages) == 1, stages
    assert sum("waiting" in line for line in stages) == 1, stages


@pytest.mark.long
def test_killed_builder_is_cleaned_up_after(tiny):
    builder = start_builder(tiny)
    assert builder.stdout.readline().startswith("making")
    (folder,) = wait_for(lambda: [p for p in (environments.home() / "environments").glob("*") if p.is_dir()])
    assert "another process" in environments.list_all()[0]["reason"]
    with pytest.raises(ChildError, match="another process is building"):
        environments.remove("pytorch")
    builder.kill()
    builder.stdout.close()
    builder.wait()
    assert environments.find("pytorch") is None
    made = environments.create("pytorch")  # waits for the orphan, which still holds the lock, then starts anew
    assert made.python.parent.parent == folder
    assert building.probe(made.python, ("json",), {}).version == json.__version__


def test_interrupted_builder_leaves_nothing(tiny):
    builder = start_builder(tiny)
    assert builder.stdout.readline().startswith("making")
    wait_for(lambda: [p for p in (environments.home() / "environments").glob("*") if p.is_dir()])
    builder.send_signal(signal.SIGINT)
    builder.communicate(timeout=60)
    assert [p for p in (environments.home() / "environments").glob("*") if p.is_dir()] == []


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("it did not come about")


def test_lock_survives_removal_of_its_file(tmp_path):
    path = tmp_path / "x.lock"
    with locks.exclusive(path):
        assert locks.is_locked(path)
        with pytest.raises(BlockingIOError), locks.exclusive(path):
            pass
        path.unlink()
        with locks.exclusive(path):
            assert locks.is_locked(path)
    assert not locks.is_locked(path)


def test_library_folders_come_before_the_users(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/theirs:/ours")
    assert building.library_variables(["/ours", "/more"]) == {"LD_LIBRARY_PATH": "/ours:/more:/theirs"}
    assert building.library_variables([]) == {}


def test_openmpi_of_the_system_needs_both_libraries_of_one_release(tmp_path):
    for name in ("libmpi.so.40", "libmpi.so.12", "libmpi_cxx.so.40"):
        (tmp_path / name).write_text("")
    assert openmpi.locate([str(tmp_path)]) == (tmp_path / "libmpi.so.40", tmp_path / "libmpi_cxx.so.40")
    (tmp_path / "libmpi_cxx.so.40").unlink()
    assert openmpi.locate([str(tmp_path)]) is None


def test_openmpi_packages_without_the_c_library():
    plan = """Reading package lists...
Inst libc6 [2.36-9] (2.36-10 Debian:12.15/oldstable [amd64])
Inst gcc-12-base [12.2] (12.3 Debian:12.15/oldstable [amd64]) []
Inst libevent-core-2.1-7 (2.1.12-stable-8 Debian:12.15/oldstable [amd64])
Inst libopenmpi3 (4.1.4-3+b1 Debian:12.15/oldstable [amd64])
Conf libopenmpi3 (4.1.4-3+b1 Debian:12.15/oldstable [amd64])
"""
    assert openmpi.needed_packages(plan) == ["libevent-core-2.1-7", "libopenmpi3"]


def test_without_openmpi_the_reason_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(openmpi, "locate", lambda folders=None: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with (tmp_path / "log").open("w") as log, pytest.raises(ChildError, match="apt install libopenmpi3"):
        openmpi.provide(tmp_path / "openmpi", log)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="not a Debian-like system")
def test_openmpi_without_the_systems_package_lists(tmp_path, monkeypatch):
    empty = tmp_path / "empty lists"
    (empty / "partial").mkdir(parents=True)
    (tmp_path / "apt.conf").write_text(f'Dir::State::Lists "{empty}";\n')
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.setattr(openmpi, "_known_to_the_loader", list)
    monkeypatch.setattr(openmpi, "_FOLDERS", ())
    with (tmp_path / "log").open("w+") as log:
        folders = openmpi.provide(tmp_path / "openmpi", log)
    assert (Path(folders[0]) / "libmpi.so.12").exists()
    question = "import ctypes; ctypes.CDLL('libmpi.so.12'); ctypes.CDLL('libmpi_cxx.so.1')"
    variables = {**os.environ, "LD_LIBRARY_PATH": ":".join(folders)}
    subprocess.run([sys.executable, "-c", question], env=variables, check=True)
    assert sorted(path.name for path in (tmp_path / "openmpi").iterdir()) == ["links", "root"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("framework", ["mxnet", "cntk"])
def test_real_environment(framework, cache):
    """Built from nothing, as a user's first `env create` does; the largest ones are built so by `make test` itself."""
    for minor in recipes.recipe(framework, "cpu").pythons:
        if interpreters.find(minor):
            break
    else:
        pytest.skip(interpreters.why_none(recipes.recipe(framework, "cpu").pythons[0]))
    made = environments.create(framework, variant="cpu")
    assert environments.resolve(framework).python == made.python
    pinned = recipes.recipe(framework, "cpu").text
    assert f"=={made.version.partition('+')[0]}" in pinned
    given = environments.resolve(framework, str(made.python))
    assert (given.python, given.version) == (made.python, made.version)
    imports = "import numpy, line_profiler"
    subprocess.run([made.python, "-c", imports], env={**os.environ, **made.variables}, check=True)
    environments.remove(framework)
    assert environments.find(framework) is None
