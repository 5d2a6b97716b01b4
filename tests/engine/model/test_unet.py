"""The image encoder: its blocks, sizes that do not halve evenly, and how large it is."""

import numpy as np
import pytest
import torch
from geocfm.model.unet import ResidualBlock, UNet
from torch import nn
from torch.nn import functional


def group_norm(images: torch.Tensor, norm: nn.GroupNorm) -> torch.Tensor:
    count, channels, height, width = images.shape
    grouped = images.reshape(count, 8, -1)
    scaled = (grouped - grouped.mean(dim=2, keepdim=True)) / (
        grouped.var(dim=2, keepdim=True, correction=0) + norm.eps
    ).sqrt()
    scaled = scaled.reshape(count, channels, height, width)
    return scaled * norm.weight[:, None, None] + norm.bias[:, None, None]


def convolve(images: torch.Tensor, layer: nn.Conv2d) -> torch.Tensor:
    """As a matrix product over patches, which is another way than torch's own convolution."""
    size = layer.kernel_size[0]
    patches = functional.unfold(images, size, padding=size // 2)
    found = layer.weight.flatten(1) @ patches + layer.bias[:, None]
    return found.reshape(len(images), -1, *images.shape[2:])


def silu(images: torch.Tensor) -> torch.Tensor:
    return images * torch.sigmoid(images)


def position_norm(images: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
    scaled = (images - images.mean(dim=1, keepdim=True)) / (
        images.var(dim=1, keepdim=True, correction=0) + norm.eps
    ).sqrt()
    return scaled * norm.weight[:, None, None] + norm.bias[:, None, None]


@pytest.mark.parametrize(("kind", "by_hand"), [("group", group_norm), ("position", position_norm)])
@pytest.mark.parametrize("channels", [3, 16])
def test_residual_block(channels, kind, by_hand):
    torch.manual_seed(1)
    block = ResidualBlock(channels, 16, kind)
    for norm in (block.first_norm, block.second_norm):
        assert kind == "position" or norm.num_groups == 8
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    images = torch.randn(2, channels, 9, 7)
    skip = images if channels == 16 else convolve(images, block.skip)
    hidden = silu(by_hand(convolve(images, block.first), block.first_norm))
    hidden = by_hand(convolve(hidden, block.second), block.second_norm)
    torch.testing.assert_close(block(images), silu(hidden + skip), atol=1e-5, rtol=1e-4)


def halve(images: torch.Tensor) -> torch.Tensor:
    count, channels, height, width = images.shape
    return images.reshape(count, channels, height // 2, 2, width // 2, 2).mean(dim=(3, 5))


def test_levels_are_joined_as_the_paper_says():
    """Pool on the way down; on the way up enlarge, project, put the skip beside it, and refine."""
    torch.manual_seed(3)
    unet = UNet(channels=2, width=8, depth=2, features=3)
    images = torch.randn(2, 2, 20, 12)
    fine = unet.down[0](images)
    middle = unet.down[1](halve(fine))
    coarse = unet.down[2](halve(middle))
    for skip, project, refine in (
        (middle, unet.project[1], unet.up[1]),
        (fine, unet.project[0], unet.up[0]),
    ):
        enlarged = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)(coarse)
        coarse = refine(torch.cat([convolve(enlarged, project), skip], dim=1))
    expected = silu(convolve(coarse, unet.final))
    torch.testing.assert_close(unet(images), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("size", [(220, 220), (37, 37), (128, 128), (16, 61)])
def test_features_have_the_size_of_the_image(size):
    unet = UNet(channels=2, width=8, depth=3, features=5).eval()
    with torch.no_grad():
        features = unet(torch.randn(1, 2, *size))
    assert features.shape == (1, 5, *size)
    assert features.min() > -0.2785  # the last step is a SiLU, and this its least value
    assert features.isfinite().all()


@pytest.mark.parametrize("size", [(32, 48), (37, 30), (16, 61)])
def test_with_norms_of_each_place_an_image_ends_with_whole_cells_of_all_levels(size):
    """Filled up by repeating its border, which another may do before."""
    torch.manual_seed(4)
    unet = UNet(channels=2, width=8, depth=2, features=5, stem=2, norm="position").eval()
    images = torch.randn(1, 2, *size)
    rows, cols = (np.minimum(np.arange(-(-length // 8) * 8), length - 1) for length in size)
    filled = images[:, :, rows[:, None], cols]
    with torch.no_grad():
        levels, expected = unet.pyramid(images), unet.pyramid(filled)
    for number, (level, other) in enumerate(zip(levels, expected, strict=True)):
        cell = 2 * 2**number
        assert level.shape[-2:] == (len(rows) // cell, len(cols) // cell)
        torch.testing.assert_close(level, other)


def expected_parameters(channels: int, nf: int, depth: int, features: int) -> int:
    def block(a: int, b: int) -> int:
        skip = a * b + b if a != b else 0
        return (9 * a * b + b) + (9 * b * b + b) + 4 * b + skip

    widths = [nf * 2**level for level in range(depth + 1)]
    down = block(channels, nf) + sum(block(a, 2 * a) for a in widths[:-1])
    up = sum((2 * a * a + a) + block(2 * a, a) for a in widths[:-1])
    return down + up + nf * features + features


@pytest.mark.parametrize(
    ("channels", "nf", "features", "millions"), [(2, 32, 64, 1.89), (8, 48, 128, 4.24)]
)
def test_parameters_of_the_papers_networks(channels, nf, features, millions):
    count = sum(p.numel() for p in UNet(channels, nf, 3, features).parameters())
    assert count == expected_parameters(channels, nf, 3, features)
    assert count / 1e6 == pytest.approx(millions, abs=0.01)


def test_every_parameter_and_every_channel_is_used():
    torch.manual_seed(2)
    unet = UNet(channels=3, width=8, depth=2, features=4)
    images = torch.randn(1, 3, 21, 13, requires_grad=True)
    (unet(images) * torch.randn(1, 4, 21, 13)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in unet.parameters())
    assert (images.grad.abs().amax(dim=(2, 3)) > 0).all()


def test_receptive_field_is_about_a_hundred_pixels():
    """Through convolutions, pooling and upsampling; GroupNorm's statistics reach everywhere."""
    unet = UNet(channels=1, width=8, depth=3, features=1).double()
    for block in [*unet.down, *unet.up]:
        block.first_norm = block.second_norm = nn.Identity()
    for parameter in unet.parameters():
        nn.init.constant_(parameter, 0.01)  # nothing cancels
    images = torch.zeros(1, 1, 160, 160, dtype=torch.float64, requires_grad=True)
    unet(images)[0, 0, 80, 80].backward()
    reached = (images.grad[0, 0] != 0).any(dim=0).nonzero()
    extent = int(reached.max() - reached.min()) + 1
    # by hand: 1 + blocks 4 (1 + 2 + 4 + 8 + 4 + 2 + 1) + pooling 7 + upsampling 14, less alignment
    assert 96 <= extent <= 110
