"""Colours as eyes see them: lightness, distance, contrast, and three kinds of colour blindness."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# Machado, Oliveira & Fernandes (2009), severity 1, on linear RGB.
EYES = {
    "usual": np.eye(3),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def lab(color: str, eye: str = "usual") -> Array:
    """Return CIE L*a*b* (D65) of a hexadecimal colour as that eye sees it."""
    xyz = (
        TO_XYZ
        @ np.clip(EYES[eye] @ _linear(color), 0, 1)
        / np.array([0.95047, 1.0, 1.08883])
    )
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, two: str) -> float:
    """Return the contrast of two hexadecimal colours by WCAG 2.2: 1 for equal ones, 21 for black and white."""
    dark, light = sorted(
        float(np.array([0.2126, 0.7152, 0.0722]) @ _linear(color))
        for color in (one, two)
    )
    return (light + 0.05) / (dark + 0.05)


def _linear(color: str) -> Array:
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
