"""Signals under names that Qt has taken."""


class SignalByName:
    """A signal as an attribute `event`, which is also the name of a method of every QObject.

    A signal of that name on the class would be called by Qt for each of its own events, and QGIS
    would end. This is no callable, so Qt passes it over and finds its own method.
    """

    def __init__(self, signal):
        self.connect = signal.connect
        self.disconnect = signal.disconnect
        self.emit = signal.emit
