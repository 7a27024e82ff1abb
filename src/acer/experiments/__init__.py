"""The paper's experiments: `acer experiment NAME`.

plans -> jobs, each a worker -> runs -> statistics -> summaries -> figures; `experiment` goes that way. Theory has no
runs: its rows go to the figures.

May import: `acer.run` and what lies below it.
"""
