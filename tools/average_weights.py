#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Averages the weights of two models of one shape: (1 - share) * first + share * second, number by number.

    python3 tools/average_weights.py FIRST/model.safetensors SECOND/model.safetensors --share 0.5 --out model.safetensors

Where the second was taught further from the first, the middle of both is often better than either [Wortsman 2022, robust fine-tuning].
Both files hold bf16 or f32 numbers under the same names and shapes; sums are rounded to nearest, ties to even.
"""

import argparse
import array
import json
import struct
import sys


def read(path):
    """The header's bytes, its tensors, and the numbers' bytes."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 8 or len(data) - 8 < struct.unpack("<Q", data[:8])[0]:
        sys.exit(f"{path}: expected a safetensors file, got {len(data)} bytes")
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = json.loads(data[8:begin])
    tensors.pop("__metadata__", None)
    return data[:begin], tensors, data[begin:]


def floats(data, dtype):
    """Numbers as f32."""
    if dtype == "F32":
        return array.array("f", data)
    words = array.array("H", data)
    return array.array("f", array.array("I", (w << 16 for w in words)).tobytes())


def stored(numbers, dtype):
    if dtype == "F32":
        return numbers.tobytes()
    bits = array.array("I", numbers.tobytes())
    return array.array("H", ((b + 0x7FFF + (b >> 16 & 1)) >> 16 & 0xFFFF for b in bits)).tobytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--share", type=float, default=0.5, help="of the second, 0 to 1")
    parser.add_argument("--out", required=True)
    asked = parser.parse_args()
    if not 0 <= asked.share <= 1:
        sys.exit(f"--share: expected 0 to 1, got {asked.share}")
    header, first, numbers = read(asked.first)
    _, second, others = read(asked.second)
    if first.keys() != second.keys():
        sys.exit(f"{asked.second}: expected the tensors of {asked.first}, got {sorted(first.keys() ^ second.keys())[:3]} in one of them")
    out = bytearray(numbers)
    for name, tensor in first.items():
        other = second[name]
        if (tensor["dtype"], tensor["shape"]) != (other["dtype"], other["shape"]) or tensor["dtype"] not in ("BF16", "F32"):
            sys.exit(f"{asked.second}: {name}: expected {tensor['shape']} numbers of BF16 or F32 in both, got {other['dtype']} {other['shape']}")
        a = floats(numbers[slice(*tensor["data_offsets"])], tensor["dtype"])
        b = floats(others[slice(*other["data_offsets"])], tensor["dtype"])
        mean = array.array("f", ((1 - asked.share) * x + asked.share * y for x, y in zip(a, b)))
        out[slice(*tensor["data_offsets"])] = stored(mean, tensor["dtype"])
    with open(asked.out, "wb") as file:
        file.write(header + out)


if __name__ == "__main__":
    main()
