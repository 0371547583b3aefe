"""A real node on one machine: sshd on loopback, LXC containers made of this machine's own root, a link to cut.

What a test needs of it are the fixtures in `tests/conftest.py`. On Debian 12: `apt-get install lxc openssh-server tmux
tini`.
"""
