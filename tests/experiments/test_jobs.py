"""Processes that run jobs: what they say, and what is kept when they die."""

import signal
from pathlib import Path

import pytest

from acer.experiments import jobs, plans, runs
from acer.experiments.display import JobsDisplay
from experiment_runs import contents, small_job


def test_a_process_that_dies_is_written_down(monkeypatch):
    job = small_job("acer", 0, "CartPole-v1")
    monkeypatch.setattr(jobs.sys, "executable", "/bin/false")
    jobs.run([job], Path("x"), jobs.here(1))
    assert runs.error_of(Path("x"), job) == "ended with code 1"
    assert runs.load(Path("x"), [job]) == []


def test_whatever_a_process_says_before_it_dies_is_read(monkeypatch):
    Path("python").write_bytes(b"#!/bin/sh\nprintf '\\377 no such thing' >&2\nexit 1\n")
    Path("python").chmod(0o755)
    job = small_job("acer", 0, "CartPole-v1")
    monkeypatch.setattr(jobs.sys, "executable", str(Path("python").absolute()))
    jobs.run([job], Path("x"), jobs.here(1))
    assert runs.error_of(Path("x"), job) == "� no such thing"


def test_a_run_that_is_killed_is_tried_again_and_ends_with_the_same_files(call, monkeypatch):
    job = small_job("acer", 0, "CartPole-v1")
    monkeypatch.setattr(plans, "jobs", lambda *_: [job])
    assert call("experiment", "control", "--out", "whole")[0] == 0

    def followed(process, *others):
        assert "steps" in process.stdout.readline()  # it trains
        process.kill()
        return original(process, *others)

    original = jobs._follow
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "_follow", followed)
        code, _, err = call("experiment", "control", "--out", "parts")
    assert code == 3 and f"{job.name} failed: killed by signal 9" in err
    assert call("experiment", "control", "--out", "parts")[0] == 0
    assert contents(Path("parts")) == contents(Path("whole"))

    # One that dies after its last word has come to its end all the same.
    before = contents(Path("parts"))
    with JobsDisplay(1, 0, job.config.steps, 0) as display:
        jobs._record_end(Path("parts"), job, -signal.SIGSEGV, runs.Failure(""), display)
    assert contents(Path("parts")) == before


def test_two_experiments_do_not_share_a_directory_at_once(monkeypatch):
    monkeypatch.setattr(jobs, "LOCK_TIMEOUT", 0.0)
    with jobs._locked(Path("x")), pytest.raises(jobs.SettingsError, match="another experiment is at work in x"):
        jobs.run([], Path("x"), jobs.here(1))
    jobs.run([], Path("x"), jobs.here(1))
