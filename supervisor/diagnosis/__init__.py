"""PURE: a fold over observations; says what is the matter with an attempt.

Reads no clock, no environment, no random number; no file but its own data.
"""
