"""PURE: verdict and history in, decision out. Reads no clock, no environment, no random number."""
