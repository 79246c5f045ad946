# SPDX-License-Identifier: Apache-2.0
"""What PyTorch and transformers need on this device for the work that `slipstream bench` measures: a line of JSON for each.

    python3 baselines.py --out FILE [--seconds N] [--cpu-dry-run]

The shape is Qwen2.5-VL-3B's text decoder (36 layers, hidden size 2048, 16 query and 2 key heads of 128, MLP 11008, 151,936 ids), random bf16
weights. A pass: W rows behind 2,000 cached keys, logits of every row (a prompt: of the last), argmax. Times are medians of CUDA events, after a warm-up; every case
runs eagerly, eagerly in a captured CUDA graph, and, while --seconds last, compiled (`torch.compile`) in a captured CUDA graph. Ceilings: a copy of
2 GiB and a product of 8192^3.
"""
import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD, MLP, VOCAB = 36, 2048, 16, 2, 128, 11008, 151936
KEYS = 2000


class Layer(nn.Module):
    def __init__(self, keys):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN, eps=1e-6), nn.RMSNorm(HIDDEN, eps=1e-6)
        self.qkv = nn.Linear(HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD)
        self.o = nn.Linear(HEADS * HEAD, HIDDEN, bias=False)
        self.gate_up = nn.Linear(HIDDEN, 2 * MLP, bias=False)
        self.down = nn.Linear(MLP, HIDDEN, bias=False)
        self.register_buffer("k", torch.zeros(1, KV_HEADS, keys, HEAD))
        self.register_buffer("v", torch.zeros(1, KV_HEADS, keys, HEAD))

    def forward(self, x, cos, sin, mask, slots):
        rows = x.shape[0]
        q, k, v = self.qkv(self.norm1(x)).split([HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD], dim=-1)
        q, k, v = (t.view(rows, -1, HEAD).transpose(0, 1).unsqueeze(0) for t in (q, k, v))
        q, k = (t * cos + torch.cat((-t[..., HEAD // 2 :], t[..., : HEAD // 2]), -1) * sin for t in (q, k))
        self.k.index_copy_(2, slots, k)
        self.v.index_copy_(2, slots, v)
        a = F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask, enable_gqa=True)
        x = x + self.o(a.squeeze(0).transpose(0, 1).reshape(rows, HEADS * HEAD))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, layers, keys):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer(keys) for _ in range(layers))
        self.norm = nn.RMSNorm(HIDDEN, eps=1e-6)

    def forward(self, ids, cos, sin, mask, slots, wanted):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, cos, sin, mask, slots)
        return F.linear(self.norm(x[-wanted:]), self.embedding.weight).argmax(-1)


def inputs_of(rows, keys, behind, device):
    positions = torch.arange(behind, behind + rows, device=device)
    angles = positions[:, None] / (1e6 ** (torch.arange(0, HEAD, 2, device=device) / HEAD))[None]
    angles = torch.cat((angles, angles), -1)
    dtype = torch.bfloat16
    mask = torch.arange(keys, device=device)[None] <= positions[:, None]
    ids = torch.randint(0, VOCAB, (rows,), device=device)
    return (ids, angles.cos().to(dtype), angles.sin().to(dtype), mask[None, None], positions, rows if behind else 1)


class Clock:
    """Milliseconds of a call: CUDA events on a device, the wall clock elsewhere."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"

    def median(self, work, repeats=30, warm=5):
        for _ in range(warm):
            work()
        times = []
        for _ in range(repeats):
            if self.cuda:
                a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                a.record()
                work()
                b.record()
                torch.cuda.synchronize()
                times.append(a.elapsed_time(b))
            else:
                began = time.perf_counter()
                work()
                times.append(1e3 * (time.perf_counter() - began))
        return statistics.median(times), min(times)


def captured(model, inputs):
    """The model's call as one CUDA graph; inputs stay where they are."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(*inputs)
    return graph.replay


def ceilings(clock, device, say):
    size = 1 << 31 if device.type == "cuda" else 1 << 24
    a = torch.empty(size, dtype=torch.uint8, device=device)
    b = torch.empty_like(a)
    ms, _ = clock.median(lambda: b.copy_(a), 10)
    say("copy", gb_per_s=2 * size / ms / 1e6)
    n = 8192 if device.type == "cuda" else 256
    x, y = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    ms, _ = clock.median(lambda: x @ y, 10)
    say("product", tflop_per_s=2 * n**3 / ms / 1e9)


def passes(clock, device, say, layers, widths, prefill, until):
    keys = KEYS + max(widths)
    with torch.device(device):
        model = Decoder(layers, max(keys, prefill)).to(torch.bfloat16).eval()
    cases = [("pass", w, KEYS) for w in widths] + [("prefill", prefill, 0)]
    for name, rows, behind in cases:
        inputs = inputs_of(rows, max(keys, prefill), behind, device)
        ms, least = clock.median(lambda: model(*inputs))
        say(name, how="eager", rows=rows, keys=behind, ms=ms, min_ms=least)
        if device.type == "cuda":
            ms, least = clock.median(captured(model, inputs))
            say(name, how="eager, CUDA graph", rows=rows, keys=behind, ms=ms, min_ms=least)
    yield
    if device.type != "cuda":
        return
    compiled = torch.compile(model, dynamic=False)
    for name, rows, behind in sorted(cases, key=lambda c: c[1] not in (8, prefill)):
        if time.monotonic() > until:
            say(name, how="compiled, CUDA graph", rows=rows, keys=behind, skipped="no time was left")
            continue
        inputs = inputs_of(rows, max(keys, prefill), behind, device)
        ms, least = clock.median(captured(compiled, inputs))
        say(name, how="compiled, CUDA graph", rows=rows, keys=behind, ms=ms, min_ms=least)


def transformers_model(clock, device, say, tiny):
    import transformers
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    text = dict(hidden_size=HIDDEN, intermediate_size=MLP, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
                vocab_size=VOCAB, tie_word_embeddings=True, rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]})
    vision = dict(depth=32, hidden_size=1280, intermediate_size=3420, num_heads=16, out_hidden_size=HIDDEN)
    if tiny:
        text.update(num_hidden_layers=1)
        vision.update(depth=1, fullatt_block_indexes=[0])
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision)
    with torch.device(device):
        model = Qwen2_5_VLForConditionalGeneration(config).to(torch.bfloat16).eval()
    grid = torch.tensor([[1, 32, 28]] * 3, device=device)  # three cameras of 448 x 392 pixels
    pixels = torch.randn(int(grid.prod(-1).sum()), 3 * 2 * 14 * 14, device=device, dtype=torch.bfloat16)
    ms, least = clock.median(lambda: model.model.visual(pixels, grid_thw=grid), 10, 2)
    say("tower", how=f"transformers {transformers.__version__}", rows=len(pixels), ms=ms, min_ms=least)
    ids = torch.randint(0, 150000, (1, 1440), device=device)
    for tokens in (1, 65):
        how = dict(max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
        ms, least = clock.median(lambda: model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **how), 3, 1)
        say("generate", how=f"transformers {transformers.__version__}", rows=1440, tokens=tokens, ms=ms, min_ms=least)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=420, help="no further case is compiled after so many")
    parser.add_argument("--cpu-dry-run", action="store_true", help="one layer on the processor: does the script run?")
    options = parser.parse_args()
    device = torch.device("cpu" if options.cpu_dry_run else "cuda")
    dry = options.cpu_dry_run
    with open(options.out, "a", encoding="utf-8") as file, torch.inference_mode():

        def say(what, **facts):
            name = "cpu" if dry else torch.cuda.get_device_name()
            line = json.dumps({"what": what, "device": name, "torch": torch.__version__, **facts})
            print(line, flush=True)
            file.write(line + "\n")
            file.flush()  # a time limit may end this

        clock = Clock(device)
        until = time.monotonic() + options.seconds
        ours = passes(clock, device, say, 1 if dry else LAYERS, [1, 8] if dry else [1, 8, 32, 64], 64 if dry else 1440, until)
        parts = [
            lambda: ceilings(clock, device, say),
            lambda: next(ours),
            lambda: transformers_model(clock, device, say, dry),
            lambda: next(ours, None),
        ]
        failed = False
        for part in parts:
            try:
                part()
            except Exception as error:  # one part that fails does not lose the others
                failed = True
                say("failed", error=f"{type(error).__name__}: {error}")
        sys.exit(failed)


if __name__ == "__main__":
    main()
