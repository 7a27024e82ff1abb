"""Errors that a user can mend. The command line prints each as one line and exits with its code; nothing is
overwritten."""

MISTAKE, FAILED, INTERRUPTED = 2, 3, 130  # exit codes
LONGEST = 4_000  # characters of what an exception says that are shown


class AcerError(Exception):
    """What is wrong and what to do about it, in one line."""

    exit_code = MISTAKE

    def __str__(self) -> str:
        """One line, whatever names of files are in it."""
        return super().__str__().replace("\n", "\\n").replace("\r", "\\r")


class SettingsError(AcerError):
    """Settings that contradict each other or the environment."""


class EnvironmentFault(AcerError):
    """An environment that cannot be found, made, used, or believed; it has failed if a run had begun."""


class CheckpointError(AcerError):
    """A run or a saved model that is missing, damaged, or made for something else."""


class ParameterServerLost(AcerError):
    """The process that held the parameters elsewhere is gone."""


class LearningFault(AcerError):
    """Numbers that are no longer finite."""

    exit_code = FAILED


class SecondSignal(KeyboardInterrupt):
    """The user has asked twice: the run ends at once. It tells a signal from an environment that raises the like."""


def in_one_line(error: BaseException) -> str:
    """What an exception says, as far as it can be said in a line."""
    try:
        text = str(error)
    except BaseException:  # the exception's class is an environment's own
        text = ""
    shown = " ".join(text[:LONGEST].split()) or "no message"
    return f"{shown} …" if len(text) > LONGEST else shown


def described(error: BaseException) -> str:
    """An exception as one line; one that is not ours with its name."""
    name = "" if isinstance(error, AcerError) else f"{type(error).__name__}: "
    return name + in_one_line(error)


def install(extra: str) -> str:
    """The command that installs what an environment or a command needs."""
    return f"pip install 'acer-rl[{extra}]'"
