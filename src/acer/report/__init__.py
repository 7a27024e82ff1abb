"""One HTML page about runs: `gather` finds and reads them, `content` makes them small, `page` writes the file."""

from acer.report.page import write

__all__ = ["write"]
