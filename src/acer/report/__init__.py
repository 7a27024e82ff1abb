"""One HTML page about runs: `gather` finds and reads them, `content` makes them small, `page` writes the file.

May import: `acer.run` and what lies below it.
"""

from acer.report.page import write

__all__ = ["write"]
