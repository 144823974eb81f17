"""The PyTorch model a user would train instead of taper's: a pre-norm Llama with a tied head.

`taper bench train --against torch-eager,torch-compile` starts this script in .venv and takes turns with it.
It reads one number a line from standard input, makes that many training steps on random tokens and answers
with one line of JSON: {"seconds": ..., "tokens": ..., "peak_memory_mb": ..., "loss": ...}. At the end of the
input it ends. A step is forward, backward, clipping at 1 and fused AdamW; fp32, or bf16 by autocast.
"""
import argparse
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional


def rotary_tables(window, head_width):
    positions = torch.arange(window, dtype=torch.float64)
    exponents = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    angles = positions[:, None] * 10000.0**-exponents
    return angles.cos().float(), angles.sin().float()


def rotate(x, cosines, sines):
    first, second = x.split(x.shape[-1] // 2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.head_width = width // heads
        self.sizes = [heads * self.head_width, kv_heads * self.head_width, kv_heads * self.head_width]
        self.in_proj = nn.Linear(width, sum(self.sizes), bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x, rotary):
        batch, window, width = x.shape
        parts = self.in_proj(x).split(self.sizes, dim=-1)
        q, k, v = (part.view(batch, window, -1, self.head_width).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(
            rotate(q, *rotary), rotate(k, *rotary), v, is_causal=True, enable_gqa=k.shape[1] != q.shape[1])
        return self.out_proj(mixed.transpose(1, 2).reshape(batch, window, width))


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.in_proj = nn.Linear(width, 2 * hidden, bias=False)
        self.out_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate, up = self.in_proj(x).chunk(2, dim=-1)
        return self.out_proj(functional.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.embedding = nn.Embedding(a.vocab, a.width)
        self.attention = nn.ModuleList(Attention(a.width, a.heads, a.kv_heads) for _ in range(a.layers))
        self.feed_forward = nn.ModuleList(FeedForward(a.width, a.ffn_width) for _ in range(a.layers))
        self.norms = nn.ModuleList(nn.RMSNorm(a.width, eps=1e-5) for _ in range(2 * a.layers + 1))
        cosines, sines = rotary_tables(a.window, a.width // a.heads)
        self.register_buffer("cosines", cosines)
        self.register_buffer("sines", sines)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, ids, targets):
        h = self.embedding(ids)
        for i, (attention, feed_forward) in enumerate(zip(self.attention, self.feed_forward)):
            h = h + attention(self.norms[2 * i](h), (self.cosines, self.sines))
            h = h + feed_forward(self.norms[2 * i + 1](h))
        logits = functional.linear(self.norms[-1](h), self.embedding.weight)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def peak_memory_mb():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("layers", "width", "heads", "kv-heads", "ffn-width", "vocab", "batch", "window", "threads"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--mode", choices=("eager", "compile"), required=True)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), required=True)
    a = parser.parse_args()

    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = Llama(a)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0, fused=True)
    forward = torch.compile(model) if a.mode == "compile" else model
    tokens = torch.randint(a.vocab, (a.batch, a.window + 1))
    ids, targets = tokens[:, :-1], tokens[:, 1:]
    for line in sys.stdin:
        steps = int(line)
        start = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "bf16"):
                loss = forward(ids, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "tokens": steps * ids.numel(), "peak_memory_mb": peak_memory_mb(),
                          "loss": loss.item()}), flush=True)


if __name__ == "__main__":
    main()
