"""Runs on the node: the standard library, libtmux and pynvml only; Python >= 3.10; imports nothing of ours."""
