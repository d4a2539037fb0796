"""What the command's processes left in the run folder, entered into run.json and summarised in a few lines."""

import contextlib
import json
import os
import signal
from typing import Any, Dict, List, Optional, Sequence, Tuple

from kernelscope.tracer.inside.frameworks import SCRIPTS
from kernelscope.tracer.inside.launching.options import PASSES
from kernelscope.tracer.inside.plan import WHOLE
from kernelscope.tracer.inside.profiling import parts

SPEC_FILE = "profile.json"

NOTHING_RECORDED = 4  # exit status if the command's own is 0
SIGNALLED = 128  # plus the signal's number: the exit status of a process that a signal ended
_SIGNALS = {
    signal.SIGINT: "was interrupted (SIGINT)",
    signal.SIGKILL: "was killed (SIGKILL): by somebody, or by the system when memory ran out",
    signal.SIGSEGV: "crashed (SIGSEGV)",
    signal.SIGABRT: "crashed (SIGABRT)",
    signal.SIGBUS: "crashed (SIGBUS)",
    signal.SIGFPE: "crashed (SIGFPE)",
    signal.SIGILL: "crashed (SIGILL)",
}
_LONG_NS = 1000000000  # since the last step seen; a program that is ending takes less
_WINDOW = 6  # fewest steps of a script for --steps A:B, which takes four and begins with the second


class Outcome(object):
    """The outcome of a run.

    name: what was run. status: the command's exit status as a shell reports it. seen: one line on what was recorded, None if
    nothing was. problems: one line for each thing that was not recorded. missing: passes that were not recorded. short: after
    how many steps the script ended, if that is why passes are missing; else 0. evaluates: nothing was recorded because the
    program made an optimizer and never stepped it. stepless: nothing was recorded because the program has no steps. ranks:
    folders of the ranks, if these were recorded.
    """

    def __init__(
        self,
        name: str,
        status: int,
        seen: Optional[str],
        problems: List[str],
        missing: Sequence[str] = (),
        short: int = 0,
        evaluates: bool = False,
        stepless: bool = False,
        ranks: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.missing = list(missing)
        self.short = short
        self.evaluates = evaluates
        self.stepless = stepless
        self.status = status
        self.seen = seen
        self.problems = problems
        self.ranks = list(ranks)

    @property
    def exit_status(self) -> int:
        """The exit status for whoever ran the command: the command's, unless it is 0 and nothing was recorded."""
        return self.status or (NOTHING_RECORDED if self.seen is None else 0)

    def lines(self) -> List[str]:
        """Return the lines to print."""
        none = "no pass was completed" if self.short else "nothing was recorded"  # a short one's steps are told
        last = self.seen if self.seen is not None else "error: %s of %s" % (none, self.name)
        return ["kernelscope: " + line for line in self.problems + [last]]


class Result(object):
    """Turns what the processes left into the run folder's record.

    run: a RunRecord. status: the command's exit status. watcher: knows what was sampled in each pass (see watching). passes:
    the requested ones.
    """

    def __init__(self, run: Any, status: int, watcher: Any, passes: Sequence[str] = PASSES) -> None:
        self.run = run
        self.status = status
        self.watcher = watcher
        self.passes = [name for name in PASSES if name in passes]
        self.notes = _json_lines(os.path.join(run.folder, "notes.jsonl"))
        self.problems: List[str] = []
        self.short = 0
        self.stepless = False
        self._useless: Dict[str, str] = {}  # passes that ended and cannot be used -> why
        self.whole = run.record["options"]["mode"] == WHOLE

    def outcome(self) -> "Outcome":
        """Complete run.json and summarise it."""
        record = self.run.record
        found = [(name, self._pass(name)) for name in self.passes]
        reports = {name: report for name, report in found if report is not None}
        for report in reports.values():
            self._learn(report)
        missing = [name for name in self.passes if record["passes"].get(name, {}).get("status") != "complete"]
        if missing:
            self._explain_missing(missing)
        self._say_dropped()
        for missed in sorted({missed for report in reports.values() for missed in report.get("focus_missed", ())}):
            self.problems.append("--focus %s: no such function ran in the steps that were recorded" % missed)
        self.problems += ["%s: %s" % item for item in record["unavailable"].items()]
        record["exit_status"] = self.status
        about = self._about_steps()
        if about.get("left_out"):
            record["left_out_steps"] = {"reasons": about["left_out"], "steps": about["steps"], "watched_ns": about["watched_ns"]}
        rank = next((json.loads(note["text"]) for note in self.notes if note["kind"] == "rank"), None)
        if rank is not None:
            record["distributed"] = {"rank": rank[0], "world_size": rank[1]}
        self.run.finish(not missing, None if not missing else self.problems[0])
        measured = ["%s %d" % (name, report["measured"]) for name, report in reports.items() if report["measured"]]
        name = record["options"]["network"]
        seen = self._seen(measured) if measured else None
        # workers that import the script also make its optimizer and never step it
        never = self.status == 0 and not measured and any(note["kind"] == "never stepped" for note in self.notes)
        return Outcome(name, self.status, seen, self.problems, missing, self.short, never, self.stepless)

    def _about_steps(self) -> Dict[str, Any]:
        """Return the recorded process's summary of its steps; an empty dict if it had none."""
        found: Dict[str, Any] = next((json.loads(note["text"]) for note in self.notes if note["kind"] == "steps"), {})
        return found

    def _seen(self, measured: Any) -> str:
        record = self.run.record
        if self.whole:
            passes = ", ".join(entry.rpartition(" ")[0] for entry in measured)
            whole = (record["options"]["network"], record["framework"], record["version"], passes)
            return "%s: all of it, from the import of %s %s on; passes: %s" % whole
        kind = "training" if record["options"]["mode"] == "train" else "inference"
        about = (record["options"]["network"], kind, record["framework"], record["version"])
        end = self._about_steps().get("end")
        return "%s: %s with %s %s; steps: " % about + ", ".join(measured) + ("; each ends " + end if end else "")

    def _path(self, *parts: str) -> str:
        return os.path.join(self.run.folder, *parts)

    def _pass(self, name: str) -> Optional[Dict[str, Any]]:
        """Enter one pass with all its parts into the record; return its last report, None if it has no measured steps."""
        made = [self._part("%s/%d" % (name, number)) for number in parts.repeats(self.run.folder, name)]
        found = [part for part in made if part is not None]
        if not found:
            return None
        usable = [
            (place, part) for place, part in found if part["measured"] and (name != "kernels" or part.get("operator_files"))
        ]
        report = (usable or found)[-1][1]
        report["measured"] = sum(part["measured"] for _, part in usable)
        entry: Dict[str, Any] = {"status": "complete" if usable else "failed", "folders": [place for place, _ in usable]}
        if report["complete"] and not usable:
            reason = report.get("unavailable", {}).get("operators", "it says not why")
            entry["reason"] = self._useless[name] = "the framework's profiler wrote nothing: %s" % reason
        if report.get("cut") and not usable:  # by something that the program did, not by its end
            self._useless[name] = report["cut"]
        if not report["complete"]:
            entry["reason"] = "the command %s" % ended(self.status) if self.status else report["reason"]
        if self.whole and report.get("ended_early"):
            self.problems.append("%s: not recorded, %s" % (name, report["ended_early"]))
        elif report.get("ended_early"):
            self.problems.append("%s: ended after %d steps: %s" % (name, report["measured"], report["ended_early"]))
        if usable:
            entry["sampling"] = self.watcher.describe(usable[-1][0])
        if name == "kernels":
            reason = "the only one that a script's own process has"
            entry["collector"] = {"asked": "framework", "used": "framework", "reason": reason}
        self.run.record["passes"][name] = entry
        return report if usable else None

    def _part(self, place: str) -> Optional[Tuple[str, Dict[str, Any]]]:
        """Return the folder of a part of a pass with its report, None if it has no report."""
        report = _json(self._path(place, "child.json"))
        if report is None:
            return None
        report["measured"] = sum(not row["warmup"] for row in _json_lines(self._path(place, "steps.jsonl")))
        return place, report

    def _say_dropped(self) -> None:
        """Say which steps were dropped, and what was too large nevertheless."""
        dropped: Dict[str, int] = {}
        large: Dict[str, int] = {}
        for note in self.notes:
            if note["kind"] in ("dropped", "too large"):
                name, number = json.loads(note["text"])
                if note["kind"] == "dropped":
                    dropped[name] = dropped.get(name, 0) + number
                else:
                    large[name] = number
        for name, steps in sorted(dropped.items()):
            self.run.record["passes"].get(name, {})["dropped_steps"] = steps
            self.problems.append("%s: the first %d steps were dropped to stay below --max-trace-size" % (name, steps))
        for name, size in sorted(large.items()):
            self.problems.append("%s: %.1f GB, more than --max-trace-size; record fewer steps" % (name, size / 1e9))

    def _learn(self, report: Dict[str, Any]) -> None:
        """Enter a pass's findings into the record; later passes know more."""
        record, options = self.run.record, self.run.record["options"]
        record["framework"] = report["framework"]
        record["version"] = report["versions"].get(report["framework"].partition("-")[0])  # keras-torch: Keras's
        for key, told in (("versions", "versions"), ("settings", "settings"), ("model", "network")):
            record[key] = report.get(told) or record.get(key)
        options["mode"] = WHOLE if self.whole else "train" if report["training"] else "infer"
        stated = options["batch"] and not record.get("batch_source")
        if report.get("batch") and not (stated and report.get("batch_source")):  # only the layers pass sees DataLoaders
            options["batch"], record["batch_source"] = report["batch"], report.get("batch_source")
        if options["device"] == "cpu":  # a pass cut off by the script's end may not have seen the device
            options["device"] = report.get("device", "cpu")
        options["threads"] = (report.get("settings") or {}).get("threads")
        record["unavailable"].update(report.get("unavailable", {}))
        owner = _json(self._path("owner"))
        if owner is not None:
            record["python"] = owner["python"]

    def _explain_missing(self, missing: Sequence[str]) -> None:
        """Say why passes are missing, from what the processes wrote down."""
        kinds = {note["kind"]: note["text"] for note in self.notes}
        self._useless.update(json.loads(note["text"]) for note in self.notes if note["kind"] == "left out")
        self.problems += ["%s: not recorded: %s" % item for item in self._useless.items()]
        missing = [name for name in missing if name not in self._useless]
        if not missing:
            return
        steps = json.loads(kinds["steps"])["steps"] if "steps" in kinds else None
        if "fault" in kinds:
            text = "a fault of kernelscope: %s (see faults.log)" % kinds["fault"]
        elif "stopped" in kinds:
            text = kinds["stopped"]
        elif self.whole and steps is not None:
            if not any(problem.startswith(missing[0]) for problem in self.problems):
                how = ", the command " + ended(self.status) if self.status else ""
                self.problems.append("%s: not recorded%s" % (", ".join(missing), how))
            return
        elif steps is not None:
            self.stepless = steps < 2 and not self.status
            self.short = steps
            text = self._ended_after(steps)
        elif "worker" in kinds and not os.path.exists(self._path("owner")):
            text = (
                "%s stepped in workers that multiprocessing started, which are not recorded; "
                "mark their steps with kernelscope.tracer.step() to record one of them" % kinds["worker"]
            )
        elif "no steps" in kinds and self.status:
            text = "no step ended before the command " + ended(self.status)
        elif "no steps" in kinds:
            self.stepless = True
            text = "no steps were seen: " + kinds["no steps"]
        else:
            text = self._why_never_stepped(kinds)
        self.problems.append("%s: %s" % (", ".join(missing), text))

    def _why_never_stepped(self, kinds: Dict[str, str]) -> str:
        """Return why no process reported steps or their absence. kinds: {kind: text} of the notes."""
        how = "the command %s" % ended(self.status) if self.status else "its process wrote nothing at its end"
        if os.path.exists(self._path(SPEC_FILE + ".failed")):
            with open(self._path(SPEC_FILE + ".failed"), encoding="utf8", errors="replace") as file:
                return "a fault of kernelscope, before anything was recorded: %s" % file.readline().strip()
        if not os.path.exists(self._path(SPEC_FILE + ".seen")):
            return "no Python of the command ran our code; is it started with -I, -E or -S, or without its environment?"
        if os.path.exists(self._path("owner")):
            return how + "; what was written until then is kept"
        if "imported" in kinds:
            return "%s was imported, no step was seen, and %s" % (kinds["imported"], how)
        if self.status:
            return "the command %s before it imported a framework" % ended(self.status)
        return "no framework was imported; known are " + ", ".join(sorted(place.partition(".")[0] for place in SCRIPTS.values()))

    def _ended_after(self, steps: int) -> str:
        """Say that the script had too few steps for all passes, and what to do."""
        if self.status:
            failed = "not all recorded, the command %s after %s" % (ended(self.status), self._steps(steps))
            mend = "; mend it first, or let --passes rerun run it once for each pass as it is"
            return failed if self.status > SIGNALLED else failed + mend
        if steps < 2:
            return "not recorded, the script ended with its first step, and measuring begins after one; let it make two or more"
        about = self._about_steps()
        since, replaced = about.get("since_ns", 0), about.get("replaced")
        goes_on = since >= 3 * about.get("median_ns", 0)
        if goes_on and replaced:
            unseen = "not all recorded, no step was seen any more after %s, as the script has replaced %s; mark each with "
            return unseen % (self._steps(steps), replaced) + "kernelscope.tracer.step()"
        how = "the script ended after %s" % self._steps(steps)
        if goes_on and since >= _LONG_NS:
            how = "no step was seen any more after %s, %.2g s before the script ended" % (self._steps(steps), since / 1e9)
        how = "not all recorded, %s; --passes rerun runs it once for each pass" % how
        return how if steps < _WINDOW else how + ", --steps A:B records a window of them"

    def _steps(self, steps: int) -> str:
        """Describe the number of steps and, if the clean pass is missing, their duration without recording."""
        measured = self.run.record["passes"].get("clean", {}).get("status") == "complete"
        typical = None if measured else self._about_steps().get("median_ns")
        return "%d steps%s" % (steps, " of %.3g ms (their median)" % (typical / 1e6) if typical else "")


def ended(status: int) -> str:
    """Describe how a failed command ended. status: its exit status as a shell reports it."""
    try:
        number = signal.Signals(status - SIGNALLED)
    except ValueError:
        return "failed with exit status %d" % status
    return _SIGNALS.get(number, "was ended by %s" % number.name)


def _json(path: str) -> Any:
    """Return the object in a file; None if there is none."""
    with contextlib.suppress(OSError, ValueError):
        with open(path, encoding="utf8") as file:
            return json.load(file)
    return None


def _json_lines(path: str) -> List[Any]:
    """Return the rows of a file that may be missing or cut off."""
    rows = []
    with contextlib.suppress(OSError):
        with open(path, encoding="utf8", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    rows.append(json.loads(line))
    return rows
