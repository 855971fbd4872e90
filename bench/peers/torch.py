#!/usr/bin/env python3
"""Times torch.repeat_interleave on the runs that rle/decode/... are measured on;
called as the other peers are, and prints as they do (peer.cuh)."""

import json
import statistics
import sys

import torch


def hash_of(x):
    """SplitMix64's finaliser; int64 wraps as uint64 does."""

    def right(v, n):
        return (v >> n) & ((1 << (64 - n)) - 1)

    def signed(v):
        return v - (1 << 64) if v >> 63 else v

    x = x + signed(0x9E3779B97F4A7C15)
    x = (x ^ right(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ right(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ right(x, 31)


def runs(n, mean, device):
    """Values and lengths of n elements in runs of a mean length, a power of 2."""
    starts, steps = [], []
    piece = 1 << 26
    for first in range(0, n, piece):
        k = torch.arange(first, min(n, first + piece), dtype=torch.int64, device=device)
        h = hash_of(k)
        head = (h & (mean - 1)) == 0
        if first == 0:
            head[0] = True
        starts.append(k[head])
        steps.append(1 + ((h[head] >> 32) & 0xFFFFFFFF) % 255)
    starts, steps = torch.cat(starts), torch.cat(steps)
    ends = torch.cat([starts[1:], torch.tensor([n], device=device)])
    return (torch.cumsum(steps, 0) & 0xFF).to(torch.uint8), ends - starts


def figure(name, n, values, lengths):
    out = torch.repeat_interleave(values, lengths, output_size=n)
    ends = torch.cumsum(lengths, 0)
    for r in (0, len(values) // 2, len(values) - 1):
        if out[ends[r] - 1] != values[r]:
            sys.exit(f"{name}: run {r} is wrong")
    del out
    times = []
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.repeat_interleave(values, lengths, output_size=n)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    ms = statistics.median(times)
    size = n * values.element_size()
    print(json.dumps({"id": name, "n": n, "ms": ms, "rate": size / ms / 1e6, "unit": "GB/s", "check": len(values)}), flush=True)


def main():
    arguments, device, scale, ids = sys.argv[1:], 0, 0, set()
    while arguments:
        a = arguments.pop(0)
        if a == "-device":
            device = int(arguments.pop(0))
        elif a == "-scale":
            scale = int(arguments.pop(0))
        else:
            ids.add(a)
    torch.cuda.set_device(device)
    print(json.dumps({"about": f"torch {torch.__version__}, repeat_interleave"}), flush=True)
    for mean in (2, 16, 256, 65536):
        name = f"rle/decode/{mean}"
        if not ids or name in ids:
            n = 1 << max(30 - scale, 0)
            figure(name, n, *runs(n, mean, "cuda"))
    name = "rle/decode-uint32/16"
    if not ids or name in ids:
        n = 1 << max(28 - scale, 0)
        values, lengths = runs(n, 16, "cuda")
        figure(name, n, values.to(torch.int32) * 0x01010101, lengths)


main()
