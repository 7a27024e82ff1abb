"""Runs jobs: here, as many at once as fit, each in a process of its own; or as tasks of a Ray cluster.

A job that fails is written down and does not stop the others. What is finished is never done again. Jobs come in lines:
those of a line run one after the other, lines side by side. A line may decide what comes next when the one before it
has been run, as a search does.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import FrameType
from typing import IO, Any

from acer.console import warn
from acer.errors import SettingsError, install
from acer.experiments import runs
from acer.experiments.display import JobsDisplay
from acer.experiments.plan import Job, from_json, to_json
from acer.experiments.runs import Failure
from acer.machine import lock, signals_go_to

LOCK_TIMEOUT = 60.0  # seconds that the runs of a killed experiment have to save and end
TASK_RETRIES = 3  # of a cluster, under one and the same job, until it counts as failed

Lines = Sequence[Iterable[Job]]
# Hears of a job's evaluation: steps and mean return; says whether the job goes on.
Hear = Callable[[Job, int, float], bool]
# Runs lines of jobs into a directory and tells the display of each; interrupted, it leaves behind what can go on.
Runner = Callable[[Lines, Path, JobsDisplay, Hear], None]


def go_on(job: Job, steps: int, evaluation: float) -> bool:
    """Lets every job come to its end."""
    return True


def run(jobs: Sequence[Job], out: Path, runner: Runner) -> None:
    """Runs those of the jobs that are not finished."""
    with at_work(out):
        missing = [job for job in jobs if not runs.is_finished(out, job)]
        for name in {job.name for job in jobs} - {job.name for job in missing}:
            shutil.rmtree(out / "work" / name, ignore_errors=True)  # of one killed between its last two moments
        total, left = (sum(job.config.steps for job in of) for of in (jobs, missing))
        with JobsDisplay(len(jobs), len(jobs) - len(missing), total, total - left) as display:
            runner([[job] for job in missing], out, display, go_on)


@contextlib.contextmanager
def at_work(out: Path) -> Iterator[None]:
    """Meanwhile the directory is ours alone, and SIGTERM is treated as Ctrl-C."""
    with _locked(out), signals_go_to(_interrupt, signal.SIGINT, signal.SIGTERM):
        try:
            yield
        except OSError as error:
            raise _cannot_write(out, error) from None
        with contextlib.suppress(OSError):  # a run that failed is left there
            (out / "work").rmdir()


def here(at_once: int) -> Runner:
    """Runs jobs on this machine, `at_once` at a time."""

    def runner(lines: Lines, out: Path, display: JobsDisplay, hear: Hear) -> None:
        live: set[subprocess.Popen[str]] = set()
        stopping = False

        def process_line(line: Iterable[Job]) -> None:
            for job in line:
                process(job)
                if stopping:
                    break

        def process(job: Job) -> None:
            with tempfile.TemporaryFile("w+", errors="replace") as said, _start(job, out, said) as process:
                live.add(process)
                if stopping:
                    _ask_to_stop(process)
                display.begin(job.name, job.config.steps)
                failure, pruned = _follow(process, job, display, hear)
                live.remove(process)
                said.seek(0)
                if pruned:
                    _record_pruned(out, job, display)
                elif stopping:
                    display.drop(job.name)
                else:
                    _record_end(out, job, process.returncode, failure or Failure(_last_line(said.read())), display)

        with ThreadPoolExecutor(at_once) as pool:
            futures = [pool.submit(process_line, line) for line in lines]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                stopping = True
                pool.shutdown(wait=False, cancel_futures=True)
                for each in list(live):
                    _ask_to_stop(each)
                raise

    return runner


def _start(job: Job, out: Path, said: IO[str]) -> "subprocess.Popen[str]":
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "acer.experiments.worker", str(out)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            errors="replace",  # libraries' own words, whatever they are
            env=os.environ | {"OMP_NUM_THREADS": str(job.config.threads)},
            start_new_session=True,  # Ctrl-C is for us alone: each is asked to stop once
            close_fds=False,  # it holds our claim on the directory as long as it lives
        )
    except OSError as error:
        raise SettingsError(f"cannot start another run: {error.strerror}; have fewer at once with --jobs") from None
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it has died already
        process.stdin.write(to_json(job) + "\n")
        process.stdin.flush()
    return process


def _ask_to_stop(process: "subprocess.Popen[str]") -> None:
    """Closes the job's lifeline: it saves and ends."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()


def _follow(
    process: "subprocess.Popen[str]", job: Job, display: JobsDisplay, hear: Hear
) -> tuple[Failure | None, bool]:
    """Shows what the job says until it ends; gives the failure that it named, and whether it was pruned."""
    assert process.stdout is not None
    failure, pruned = None, False
    for line in process.stdout:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict):  # a library's own words too
            continue
        if "steps" in message:
            display.show(job.name, int(message["steps"]))
        if "evaluation" in message and not pruned and not hear(job, int(message["steps"]), message["evaluation"]):
            pruned = True
            _ask_to_stop(process)
        if "error" in message:
            failure = Failure(str(message["error"]), bool(message.get("diverged")))
    process.wait()
    _ask_to_stop(process)  # closes what one that died at once never read
    return failure, pruned


def _record_end(out: Path, job: Job, code: int, failure: Failure, display: JobsDisplay) -> None:
    """What became of a job, for the display and, if it failed, for the experiment."""
    if code < 0:
        failure = Failure(f"killed by signal {-code}")
    if code and not runs.is_finished(out, job):  # one may die when its files are in their place
        failure = failure if failure.error else Failure(f"ended with code {code}")
        runs.write(out, job, runs.files_of(runs.work(out, job), job, failure))
        if failure.diverged:  # there is nothing to go on with
            shutil.rmtree(runs.work(out, job), ignore_errors=True)
    display.end(job.name, job.config.steps, runs.error_of(out, job))


def _record_pruned(out: Path, job: Job, display: JobsDisplay) -> None:
    """Keeps what there is of a job that was ended early; it may have come to its end all the same."""
    if not runs.is_finished(out, job):
        runs.write(out, job, runs.files_of(runs.work(out, job), job, pruned=True))
    shutil.rmtree(runs.work(out, job), ignore_errors=True)
    display.end(job.name, job.config.steps, pruned=True)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def on_ray(address: str) -> Runner:
    """Runs jobs as tasks of a Ray cluster: the nodes need acer, not this disk. An interrupted one begins again, and so
    does one whose node is lost."""
    try:
        import ray

        from acer.homes.cluster import join
    except ImportError:
        raise SettingsError(f"--ray-address needs Ray: {install('ray')}") from None
    join(address)

    def runner(lines: Lines, out: Path, display: JobsDisplay, hear: Hear) -> None:
        board: Any = ray.remote(ProgressBoard).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
        task = ray.remote(_task)
        tasks: dict[Any, tuple[Job, Iterator[Job]]] = {}
        begun: dict[str, Job] = {}
        pruned: set[str] = set()

        def submit_next(line: Iterator[Job]) -> None:
            if (job := next(line, None)) is not None:
                options = {"num_cpus": max(1, job.config.threads), "max_retries": TASK_RETRIES}
                tasks[task.options(**options).remote(to_json(job), board)] = job, line

        def tell(job: Job, message: dict[str, Any]) -> None:
            if job.name not in begun:
                begun[job.name] = job
                display.begin(job.name, job.config.steps)
            display.show(job.name, message["steps"])
            if "evaluation" in message and job.name not in pruned:
                if hear(job, message["steps"], message["evaluation"]):
                    return
                pruned.add(job.name)
                ray.get(board.stop.remote(job.name))

        try:
            for line in lines:
                submit_next(iter(line))
            while tasks:
                done, _ = ray.wait(list(tasks), num_returns=1, timeout=1.0)
                by_name = {job.name: job for job, _ in tasks.values()}
                for name, message in ray.get(board.read.remote()):
                    if name in by_name:
                        tell(by_name[name], message)
                for one in done:
                    job, line = tasks.pop(one)
                    try:
                        files = ray.get(one)
                    except ray.exceptions.RayError as error:
                        files = runs.files_of(runs.work(out, job), job, Failure(_last_line(str(error))))
                    runs.write(out, job, files)
                    display.end(job.name, job.config.steps, runs.error_of(out, job), job.name in pruned)
                    submit_next(line)
        finally:
            for one in tasks:
                ray.cancel(one, force=True)
            ray.shutdown()

    return runner


class ProgressBoard:
    """Where the tasks of a cluster write how far they are, for whoever shows it, and read whether they go on."""

    def __init__(self) -> None:
        self._unread: list[tuple[str, dict[str, Any]]] = []
        self._stopped: set[str] = set()

    def write(self, name: str, message: dict[str, Any]) -> bool:
        """Takes a job's message; whether the job goes on."""
        self._unread.append((name, message))
        return name not in self._stopped

    def read(self) -> list[tuple[str, dict[str, Any]]]:
        """What jobs have said since the last time."""
        said, self._unread = self._unread, []
        return said

    def stop(self, name: str) -> None:
        """Has a job end when it next says something."""
        self._stopped.add(name)

    def is_stopped(self, name: str) -> bool:
        return name in self._stopped


def _task(line: str, board: Any) -> dict[str, bytes]:
    """A job on a node of a cluster: the files that are kept of it."""
    import ray

    from acer.experiments import worker

    job = from_json(line)

    def say(message: dict[str, Any]) -> bool:
        goes_on: bool = ray.get(board.write.remote(job.name, message))
        return goes_on

    with tempfile.TemporaryDirectory() as directory:
        place, failure, pruned = Path(directory) / "run", None, False
        try:
            if not worker.train(job, place, say):
                pruned = ray.get(board.is_stopped.remote(job.name))
                failure = None if pruned else Failure("stopped before its end")
        except Exception as problem:
            failure = Failure.of(problem)
        return runs.files_of(place, job, failure, pruned)


def make_directory(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(out, error) from None


def _cannot_write(out: Path, error: OSError) -> SettingsError:
    return SettingsError(f"cannot write to {out}: {error.strerror or error}; make room, or choose another --out")


@contextlib.contextmanager
def _locked(out: Path) -> Iterator[None]:
    """The directory is ours alone, and our runs' as long as they live, even if we are killed."""
    make_directory(out)
    descriptor = os.open(out, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    until, said = time.monotonic() + LOCK_TIMEOUT, False
    try:
        while not lock(descriptor):
            if time.monotonic() > until:
                raise SettingsError(f"another experiment is at work in {out}: choose another --out")
            if not said:
                warn(f"waiting for an experiment in {out} to end; the runs of one that was killed save before they do")
                said = True
            time.sleep(0.2)
        yield
    finally:
        os.close(descriptor)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM is treated as Ctrl-C, and both are heard in the background of a script too."""
    raise KeyboardInterrupt
