"""Which of a run's source files is the main one."""

import json

from kernelscope.analysis.recordings.run import Run


def test_where_no_process_knew_it_the_main_file_is_what_was_started(tmp_path):
    run = {
        "schema": "kernelscope/run/1",
        "framework": "pytorch",
        "profiled": ["python", "work/train.py", "--epochs", "1"],
        "passes": {},
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    sources = tmp_path / "sources"
    sources.mkdir()
    files = [{"path": "work/model.py", "file": "0.py"}, {"path": "work/train.py", "file": "1.py"}]
    (sources / "index.json").write_text(json.dumps({"main": None, "files": files}))
    for number in range(2):
        (sources / f"{number}.py").write_text("pass\n")
    assert Run(tmp_path).sources()[0] == "work/train.py"
    (sources / "index.json").write_text(json.dumps({"main": "work/model.py", "files": files}))
    assert Run(tmp_path).sources()[0] == "work/model.py"
