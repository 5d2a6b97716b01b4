"""Batches made ahead of training by threads, in the order of their steps."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from geocfm.data.patches import Batch, BatchSource


class BatchesAhead:
    """The batches of a source from a step on, without end: one more on the way than makers."""

    def __init__(self, source: BatchSource, first: int) -> None:
        self._source, self._next = source, first
        self._makers = ThreadPoolExecutor(source.workers, thread_name_prefix="batches")
        self._coming: deque[Future[Batch]] = deque()
        for _ in range(source.workers + 1):
            self._order()

    def _order(self) -> None:
        self._coming.append(self._makers.submit(self._source.batch, self._next))
        self._next += 1

    def __next__(self) -> Batch:
        batch = self._coming.popleft().result()
        self._order()
        return batch

    def close(self) -> None:
        """Make no more; those being made are waited for, as they may hold files open."""
        self._makers.shutdown(cancel_futures=True)
