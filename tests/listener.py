"""A server on this machine that counts who comes, and has nothing to give."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NOT_FOUND = b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class Listener:
    """Where it listens, and what was asked of it: the first line of each request."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.asked: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            self.asked.append(b"")
            with connection:
                connection.settimeout(1)
                try:
                    self.asked[-1] = connection.recv(1000).partition(b"\r\n")[0]
                    connection.sendall(NOT_FOUND)
                except OSError:
                    continue

    def close(self) -> None:
        self._socket.close()


@contextmanager
def listening() -> Iterator[Listener]:
    """A listener, closed in the end."""
    listener = Listener()
    try:
        yield listener
    finally:
        listener.close()
