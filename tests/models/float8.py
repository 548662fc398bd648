"""8-bit floats in NumPy: the number of each encoding, and the nearest of them."""

import numpy as np


def numbers(mantissa, special):
    """Returns the 128 positive numbers of a format; encodings from `special` on have none."""
    exponent, fraction = np.divmod(np.arange(128), 1 << mantissa)
    bias = (1 << (6 - mantissa)) - 1
    normal = (1 + fraction / 2.0**mantissa) * 2.0 ** (exponent - bias)
    number = np.where(exponent == 0, fraction / 2.0**mantissa * 2.0 ** (1 - bias), normal)
    return np.where(np.arange(128) < special, number, np.nan)


FORMATS = {"f8e4m3": numbers(3, 127), "f8e5m2": numbers(2, 124)}


def encode(array, dtype):
    """The nearest number of each element; of two, the one with an even encoding. None may be far beyond the largest."""
    finite = FORMATS[dtype][np.isfinite(FORMATS[dtype])]
    size = np.abs(np.asarray(array, "f8"))
    assert (size < 1.01 * finite[-1]).all()
    size = np.minimum(size, finite[-1])
    above = np.searchsorted(finite, size)
    below = np.maximum(above - 1, 0)
    up, down = finite[above] - size, size - finite[below]
    bits = np.where((up < down) | (up == down) & (above % 2 == 0), above, below)
    return (bits + 128 * np.signbit(array)).astype("u1")


def decode(bits, dtype):
    return (np.where(bits < 128, 1, -1) * FORMATS[dtype][bits % 128]).astype("f4")


def rounded(array, dtype="f8e4m3"):
    return decode(encode(array, dtype), dtype)
