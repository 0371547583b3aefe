"""A trainer for DFlash drafters: block-parallel draft models for speculative decoding.

Read `train.py` first: it builds the parts in the order in which they are needed and holds the loop. This package stands
alone; nothing here knows who started the process or who reads its log.
"""
