"""A run and its files: the training loop, checkpoints, logs, evaluation, progress, curves and videos.

`training` is the loop. `checkpoint` is the file format.

May import: `acer.homes` and what lies below it.
"""
