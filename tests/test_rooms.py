"""Imports point one way: a room knows those below it, never those above."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "acer"
FLOORS = [  # from the roof down; rooms of one floor do not know each other
    {"__main__"},
    {"cli"},
    {"commands"},
    {"tune"},
    {"model", "callbacks", "experiments", "report", "bench"},
    {"run"},
    {"homes"},
    {"learner"},
    {"config"},
    {"envs"},
    {"console", "machine"},
    {"errors"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_rooms(path: Path) -> set[str]:
    """Rooms of this package that a module imports, wherever in the file; the names that the package itself has are
    none."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    rooms = {name.split(".")[1] for name in found if name.startswith("acer.")}
    return rooms & FLOOR.keys()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
    own = room_of(path)
    for room in imported_rooms(path) - {own}:
        assert FLOOR[room] > FLOOR[own], f"{own} must not import {room}"


def test_every_room_is_on_a_floor() -> None:
    assert {room_of(path) for path in MODULES} == FLOOR.keys()


@pytest.mark.parametrize(
    "room", ["commands", "config", "learner", "homes", "run", "envs", "experiments", "report", "bench", "tune"]
)
def test_every_room_says_what_lives_there(room: str) -> None:
    text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
    assert text is not None and "May import" in text
