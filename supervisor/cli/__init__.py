"""The command line: a client of the API (serve and demo aside)."""
