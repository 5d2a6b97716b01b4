"""The synthetic benchmark to learn from: new images at every step, without end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from geocfm.data.image import Image
from geocfm.data.patches import Batch, BatchSource, Example, make_batch
from geocfm.data.synthetic import SyntheticSettings, make_image
from geocfm.model.settings import TrainingSettings

CHANNELS = 2  # magnetics and geochemistry
DISJOINT_IMAGES = 200  # of 48,400 cells each: more than methods that look at cells can use
MOST_WORKERS = 4
KEEP_STREAM = 2**30  # keeps the choice of points apart from the noise of the steps


class SyntheticImages:
    """Training images of a seed, of whose points a share is known; and a source of batches.

    Image i is made from the pair (seed, i), which never gives an image of the validation or of
    the test seeds.
    """

    channels = CHANNELS

    def __init__(
        self,
        settings: SyntheticSettings,
        training: TrainingSettings,
        seed: int,
        keep: float = 1.0,
        images: int = DISJOINT_IMAGES,
    ) -> None:
        self._settings, self._training, self._seed = settings, training, seed
        self._keep, self._images = keep, images
        self.workers = min(MOST_WORKERS, os.cpu_count() or 1)

    @property
    def source(self) -> BatchSource:
        """Itself."""
        return self

    def disjoint(self) -> Iterator[Image]:
        """The first images that batches hold too, for methods that look at cells."""
        return map(self.image, range(self._images))

    def image(self, index: int) -> Image:
        """Training image number ``index``, with the points that are known."""
        whole = make_image(self._settings, (self._seed, index)).image()
        count = len(whole.points)
        chooser = np.random.default_rng([self._seed, KEEP_STREAM, index])
        known = chooser.choice(count, round(self._keep * count), replace=False)
        return replace(whole, points=whole.points[np.sort(known)])

    def batch(self, step: int) -> Batch:
        """New images with noise for their points; depends on (seed, step) alone."""
        training = self._training
        generator = np.random.default_rng([self._seed, step])
        first = step * training.batch
        examples = [as_example(self.image(first + k)) for k in range(training.batch)]
        if training.augment:
            examples = [example.turned(generator) for example in examples]
        return make_batch(examples, training, generator)

    def validation(self) -> list[Batch]:
        """None: images never come twice, so nothing is learned by heart, and the end is best."""
        return []


def as_example(image: Image) -> Example:
    """The image with its points in [0, 1]^2."""
    height, width = image.footprint.shape
    points = image.points / (width, height)
    return Example(image.channels, image.footprint, points, np.ones(len(points)))
