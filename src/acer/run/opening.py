"""Runs that go on, and models that are taken from files: what is read of a checkpoint, and in which order."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acer import config as configuration
from acer.config import Config
from acer.console import warn
from acer.envs.others import EnvMaker
from acer.errors import AcerError, CheckpointError
from acer.run import saved, store, trust
from acer.run.directory import RunDirectory
from acer.run.files import Directory
from acer.run.logs import logged
from acer.run.store import CONFIG
from acer.run.training import Training

AGAIN = 200  # times that a model is read again which was replaced meanwhile

Given = Mapping[str, Any]
"""What the user of this command says of the settings that reach outside (`trust.OUTWARD`)."""


def resume(
    path: Path, env: str | EnvMaker | None = None, directory: Path | None = None, given: Given | None = None
) -> Training:
    """A run as its newest good checkpoint left it, unfinished episodes included.

    directory: where the run goes on; it is locked before anything is read. A run that ended before its first
    checkpoint, or lost them all, begins again; its curves are put aside.
    """
    run = None
    if directory is not None and directory.is_dir():
        run = RunDirectory(directory)
        run.take()
    try:
        training = (_begin_again if store.is_unsaved_run(path) else _take_up)(path, env, given or {})
    except BaseException:
        if run is not None:
            run.release()
        raise
    training.files = run
    return training


def load(path: Path, env: str | EnvMaker | None = None, given: Given | None = None, best: bool = False) -> Training:
    """A model to play with, or to teach anew: networks and the optimiser's statistics, without the run.

    A model that is replaced while it is read is read again, as is a run that removes its checkpoint meanwhile.
    """
    for _ in range(AGAIN):
        before = store.identity(path)
        try:
            return _load(path, env, given, best)
        except CheckpointError:
            if store.identity(path) == before:
                raise
    return _load(path, env, given, best)


def _load(path: Path, env: str | EnvMaker | None, given: Given | None, best: bool) -> Training:
    loaded = store.find(path, warn, best)
    training = Training(_config(loaded.path, loaded.state, env, given or {}, playing=True), env, loaded)
    try:
        training.state.load_model(loaded)
    except BaseException:
        training.close()
        raise
    training.state.before = saved.steps_of(loaded)
    return training


def _take_up(path: Path, env: str | EnvMaker | None, given: Given) -> Training:
    loaded = store.find(path, warn)
    training = Training(_config(loaded.path, loaded.state, env, given), env, loaded)
    training.load(loaded)
    return training


def _begin_again(path: Path, env: str | EnvMaker | None, given: Given) -> Training:
    file = path / CONFIG
    config = _config(file, {"config": store.settings_in(path)}, env, given)
    with Directory.open(path) as run:
        rows = logged(run)
    try:
        ended = any(float(row["steps"]) >= config.steps for row in rows)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path / 'progress.csv'} is damaged: {type(error).__name__}: {error}") from None
    if ended:
        raise CheckpointError(f"{path} came to its end, and its checkpoints are gone: nothing to go on from")
    return Training(config, env)


def _config(
    where: Path, state: Mapping[str, Any], env: str | EnvMaker | None, given: Given, playing: bool = False
) -> Config:
    """The configuration of a file, as far as a file may decide it, and the user's word beyond."""
    try:
        settings = state["config"]
        if playing:
            settings = trust.without_outward(settings)
        # The file's name for an environment of the user's own stays: only the code behind it is the user's to name.
        own = {"env": settings["env"]} if env is not None else {}
        return configuration.from_dict(trust.admit(where, settings, {**given, **own}))
    except CheckpointError:
        raise
    except (AcerError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{where} has no usable configuration: {error}") from None
