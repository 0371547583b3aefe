"""Vigil: launches, watches, diagnoses and corrects remote training runs."""

__version__ = "0.1.0"
