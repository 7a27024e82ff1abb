"""Runs jobs: here, as many at once as fit, each in a process of its own; or as tasks of a Ray cluster.

A job that fails is written down and does not stop the others. What is finished is never done again.
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
from collections.abc import Callable, Iterator, Sequence
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

# Runs jobs into a directory and tells the display of each; interrupted, it leaves behind what can go on.
Runner = Callable[[Sequence[Job], Path, JobsDisplay], None]


def run(jobs: Sequence[Job], out: Path, runner: Runner) -> None:
    """Runs those of the jobs that are not finished."""
    with _locked(out), signals_go_to(_interrupt, signal.SIGINT, signal.SIGTERM):
        missing = [job for job in jobs if not runs.is_finished(out, job)]
        for name in {job.name for job in jobs} - {job.name for job in missing}:
            shutil.rmtree(out / "work" / name, ignore_errors=True)  # of one killed between its last two moments
        total, left = (sum(job.config.steps for job in of) for of in (jobs, missing))
        with JobsDisplay(len(jobs), len(jobs) - len(missing), total, total - left) as display:
            try:
                runner(missing, out, display)
            except OSError as error:
                raise _cannot_write(out, error) from None
        with contextlib.suppress(OSError):  # a run that failed is left there
            (out / "work").rmdir()


def here(at_once: int) -> Runner:
    """Runs jobs on this machine, `at_once` at a time."""

    def runner(jobs: Sequence[Job], out: Path, display: JobsDisplay) -> None:
        live: set[subprocess.Popen[str]] = set()
        stopping = False

        def process(job: Job) -> None:
            with tempfile.TemporaryFile("w+", errors="replace") as said, _start(job, out, said) as process:
                live.add(process)
                if stopping:
                    _ask_to_stop(process)
                display.begin(job.name, job.config.steps)
                failure = _follow(process, job, display)
                live.remove(process)
                said.seek(0)
                if stopping:
                    display.drop(job.name)
                else:
                    _record_end(out, job, process.returncode, failure or Failure(_last_line(said.read())), display)

        with ThreadPoolExecutor(at_once) as pool:
            futures = [pool.submit(process, job) for job in jobs]
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


def _follow(process: "subprocess.Popen[str]", job: Job, display: JobsDisplay) -> Failure | None:
    """Shows what the job says until it ends; gives the failure that it named."""
    assert process.stdout is not None
    failure = None
    for line in process.stdout:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict):  # a library's own words too
            continue
        if "steps" in message:
            display.show(job.name, int(message["steps"]))
        if "error" in message:
            failure = Failure(str(message["error"]), bool(message.get("diverged")))
    process.wait()
    _ask_to_stop(process)  # closes what one that died at once never read
    return failure


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

    def runner(jobs: Sequence[Job], out: Path, display: JobsDisplay) -> None:
        board: Any = ray.remote(ProgressBoard).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
        task = ray.remote(_task)
        tasks = {
            task.options(num_cpus=max(1, job.config.threads), max_retries=TASK_RETRIES).remote(to_json(job), board): job
            for job in jobs
        }
        waiting: list[Any] = list(tasks)
        begun: set[str] = set()
        try:
            while waiting:
                done, waiting = ray.wait(waiting, num_returns=1, timeout=1.0)
                said: dict[str, tuple[int, int]] = ray.get(board.read.remote())
                for name, (steps, total) in said.items():
                    if name not in begun:
                        begun.add(name)
                        display.begin(name, total)
                    display.show(name, steps)
                for one in done:
                    job = tasks[one]
                    try:
                        files = ray.get(one)
                    except ray.exceptions.RayError as error:
                        files = runs.files_of(runs.work(out, job), job, Failure(_last_line(str(error))))
                    runs.write(out, job, files)
                    display.end(job.name, job.config.steps, runs.error_of(out, job))
        finally:
            for one in waiting:
                ray.cancel(one, force=True)
            ray.shutdown()

    return runner


class ProgressBoard:
    """Where the tasks of a cluster write how far they are, for whoever shows it."""

    def __init__(self) -> None:
        self._unread: dict[str, tuple[int, int]] = {}

    def write(self, name: str, steps: int, total: int) -> None:
        self._unread[name] = steps, total

    def read(self) -> dict[str, tuple[int, int]]:
        """Steps done and steps in all of the jobs that have said something since the last time."""
        said, self._unread = self._unread, {}
        return said


def _task(line: str, board: Any) -> dict[str, bytes]:
    """A job on a node of a cluster: the files that are kept of it."""
    import ray

    from acer.experiments import worker

    job = from_json(line)

    def say(message: dict[str, Any]) -> None:
        ray.get(board.write.remote(job.name, message["steps"], job.config.steps))

    with tempfile.TemporaryDirectory() as directory:
        place, failure = Path(directory) / "run", None
        try:
            if not worker.train(job, place, say):
                failure = Failure("stopped before its end")
        except Exception as problem:
            failure = Failure.of(problem)
        return runs.files_of(place, job, failure)


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
