"""Property tests of this room have no deadline: how busy the machine is says nothing about them."""

from hypothesis import settings

settings.register_profile("vigil", deadline=None)
settings.load_profile("vigil")
