"""The paper's experiments: `acer experiment NAME`.

Each is a module of `catalogue`: its plan, and what it draws. `experiment` goes the way of all of them: plan -> plans ->
jobs, each a worker -> runs -> results -> statistics -> summaries -> figures.

May import: `acer.run` and what lies below it.
"""
