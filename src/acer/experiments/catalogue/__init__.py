"""The experiments, one module each; `acer experiment NAME` runs the module NAME.

A module has a docstring whose first line says what the experiment does, and

- `PLAN`, its runs, and `draw(Results)`, which writes its figures and tables; or
- `compute(scale, stem, say)`, where there is nothing to train.

May import: the rest of `acer.experiments`.
"""

import ast
import importlib
import pkgutil
from importlib import resources
from types import ModuleType

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def about(name: str) -> str:
    """The first line of an experiment's docstring, without loading what it needs."""
    text = resources.files(__name__).joinpath(f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def load(name: str) -> ModuleType:
    """One of the experiments."""
    return importlib.import_module(f"{__name__}.{name}")
