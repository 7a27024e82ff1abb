"""Fails if the installed PyTorch needs CUDA's libraries; its builds for CPUs do not."""

import sys
from importlib.metadata import requires

sys.exit(any(name.startswith(("nvidia-", "cuda-", "triton")) for name in requires("torch") or []))
