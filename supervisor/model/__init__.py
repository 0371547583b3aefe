"""The nouns of Vigil as frozen types; no I/O. Every room may import them."""
