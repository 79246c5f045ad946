# SPDX-License-Identifier: Apache-2.0
"""Compares two files of logits: exit 0 if their difference's root mean square is below 1 % of the second's, else 1.

    python3 compare_logits.py A.safetensors B.safetensors
"""
import json
import struct
import sys

import numpy


def read_logits(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        entry = header["logits_TV"]
        begin, end = entry["data_offsets"]
        file.seek(8 + length + begin)
        return numpy.frombuffer(file.read(end - begin), dtype="<f4").reshape(entry["shape"])


def main():
    a, b = (read_logits(path).astype(numpy.float64) for path in sys.argv[1:3])
    if a.shape != b.shape:
        sys.exit(f"expected equal shapes, got {a.shape} and {b.shape}")
    error = numpy.sqrt(((a - b) ** 2).mean()) / numpy.sqrt((b**2).mean())
    agree = (a.argmax(1) == b.argmax(1)).mean()
    print(json.dumps({"relative_rms": error, "argmax_agrees": agree}))
    sys.exit(0 if error < 0.01 else 1)


if __name__ == "__main__":
    main()
