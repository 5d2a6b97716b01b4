"""A stand-in for the engine, for tests of the plugin; see __main__.py."""

__version__ = "0.0.0"
