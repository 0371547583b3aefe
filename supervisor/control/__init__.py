"""The loops: which runs are mine, watching one run, carrying decisions out."""
