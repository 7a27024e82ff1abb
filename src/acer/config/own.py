"""Code of the user's own that a setting names."""

from collections.abc import Callable
from typing import Any, Self

import cloudpickle

from acer.errors import SettingsError, described


class OwnCode(str):
    """What Python users give for `module:Class`: its name, as files have it, and the code itself, which no file has."""

    code: Callable[..., Any]

    @classmethod
    def of(cls, code: Callable[..., Any]) -> Self:
        name = getattr(code, "__qualname__", type(code).__name__)
        return cls._named(f"{getattr(code, '__module__', '<own>')}:{name}", code)

    @classmethod
    def _named(cls, name: str, code: Callable[..., Any]) -> Self:
        own = cls(name)
        own.code = code
        return own

    def __reduce__(self) -> Any:
        """For other processes; a function of a script or of a function has no name to be imported by."""
        try:
            return _unpacked, (str(self), cloudpickle.dumps(self.code))
        except Exception as error:
            raise SettingsError(
                f"{self} cannot be sent to another process ({described(error)}): use --home local"
            ) from error

    def __deepcopy__(self, memo: Any) -> Self:
        return self


def _unpacked(name: str, code: bytes) -> OwnCode:
    return OwnCode._named(name, cloudpickle.loads(code))
