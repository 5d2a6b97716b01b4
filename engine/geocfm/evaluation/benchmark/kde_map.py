"""A Gaussian KDE of points on the pixels of an image, by Fourier transform."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from geocfm.evaluation.metrics import LEAST_KERNEL_VARIANCE

REACH = 4.0  # standard deviations of the kernel that the image is padded by


def kde_map(points: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Density (size, size) of points (N, 2) in pixels: Scott's rule, as in KDE-NLL; sums to 1.

    Counts on the pixels are convolved with the kernel of full covariance; what it spreads beyond
    the image is cut off.
    """
    offset = points - points.mean(axis=0)
    covariance = offset.T @ offset / max(len(points) - 1, 1) * len(points) ** (-1 / 3)
    variances, axes = np.linalg.eigh(covariance)
    kernel = axes @ np.diag(variances.clip(LEAST_KERNEL_VARIANCE)) @ axes.T
    cells = np.clip(points.astype(np.int64), 0, size - 1)
    padded = fft.next_fast_len(size + int(REACH * np.sqrt(kernel.diagonal().max())) + 1, real=True)
    counts = np.zeros((padded, padded))
    np.add.at(counts, (cells[:, 1], cells[:, 0]), 1.0)
    y = 2 * np.pi * fft.fftfreq(padded)[:, None]
    x = 2 * np.pi * fft.rfftfreq(padded)[None, :]
    exponent = kernel[0, 0] * x**2 + 2 * kernel[0, 1] * x * y + kernel[1, 1] * y**2
    smooth = fft.irfft2(fft.rfft2(counts) * np.exp(-exponent / 2), counts.shape)
    inside: NDArray[np.float64] = smooth[:size, :size].clip(0.0)
    return inside / inside.sum()
