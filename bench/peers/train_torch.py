"""The PyTorch model a user would train instead of taper's: a pre-norm Llama.

`taper bench train --against torch-eager,torch-compile` starts this script in .venv and takes turns with it.
It answers each line of its input with a line of JSON:
    N           N training steps: {"seconds": ..., "tokens": ..., "peak_memory_mb": ..., "loss": ...}
    check GATE  {"loss": mean loss, "gradient_norms": {name: L2 norm, ...}}; nothing changes
A step is forward, backward, clipping at 1 and fused AdamW, with plain RMSNorms; fp32, or bf16 by autocast; on random
tokens, or with --weights on what FILE (safetensors) holds: weights in the names of Hugging Face's Llama, `ids` and
`targets` [B, T]. A check tapers the norms with gamma~ and c in FILE; at gate 1 it runs the steps' own, compiled code.
"""
import argparse
import json
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional


def rotary_tables(window, head_width):
    exponents = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    angles = torch.arange(window, dtype=torch.float64)[:, None] * 10000.0**-exponents
    return angles.cos().float(), angles.sin().float()


def rotate(x, cosines, sines):
    first, second = x.split(x.shape[-1] // 2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.head_width = a.head_width
        self.sizes = [heads * a.head_width for heads in (a.heads, a.kv_heads, a.kv_heads)]
        self.in_proj = nn.Linear(a.width, sum(self.sizes), bias=False)
        self.out_proj = nn.Linear(self.sizes[0], a.width, bias=False)

    def forward(self, x, rotary):
        batch, window, _ = x.shape
        parts = self.in_proj(x).split(self.sizes, dim=-1)
        q, k, v = (part.view(batch, window, -1, self.head_width).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(
            rotate(q, *rotary), rotate(k, *rotary), v, is_causal=True, enable_gqa=k.shape[1] != q.shape[1])
        return self.out_proj(mixed.transpose(1, 2).reshape(batch, window, -1))


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.in_proj = nn.Linear(width, 2 * hidden, bias=False)
        self.out_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate, up = self.in_proj(x).chunk(2, dim=-1)
        return self.out_proj(functional.silu(gate) * up)


class Norm(nn.RMSNorm):
    """y = h/r gamma; where there is gamma~, in a check: y = g (h/r) gamma + (1-g) c h gamma~."""
    gate = 1.0  # g, of all norms

    def __init__(self, width, tapered):
        super().__init__(width, eps=1e-5)
        self.taper_weight = nn.Parameter(torch.ones(width)) if tapered else None
        self.taper_scale = nn.Parameter(torch.ones(1), requires_grad=False) if tapered else None

    def forward(self, h):
        y = super().forward(h)
        if Norm.gate == 1 or self.taper_weight is None:
            return y
        return Norm.gate * y + (1 - Norm.gate) * self.taper_scale * h * self.taper_weight


class Llama(nn.Module):
    """`tensors`: the names in FILE, which tell whether there is a head and which norms taper."""

    def __init__(self, a, tensors=()):
        super().__init__()
        kinds = ("input_layernorm", "post_attention_layernorm")
        self.norm_names = [f"model.layers.{i}.{kind}" for i in range(a.layers) for kind in kinds] + ["model.norm"]
        self.embedding = nn.Embedding(a.vocab, a.width)
        self.attention = nn.ModuleList(Attention(a) for _ in range(a.layers))
        self.feed_forward = nn.ModuleList(FeedForward(a.width, a.ffn_width) for _ in range(a.layers))
        self.norms = nn.ModuleList(Norm(a.width, name + ".taper_weight" in tensors) for name in self.norm_names)
        self.head = nn.Linear(a.width, a.vocab, bias=False) if "lm_head.weight" in tensors else self.embedding
        for name, table in zip(("cosines", "sines"), rotary_tables(a.window, a.head_width)):
            self.register_buffer(name, table)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, ids, targets):
        h = self.embedding(ids)
        for i, (attention, feed_forward) in enumerate(zip(self.attention, self.feed_forward)):
            h = h + attention(self.norms[2 * i](h), (self.cosines, self.sines))
            h = h + feed_forward(self.norms[2 * i + 1](h))
        logits = functional.linear(self.norms[-1](h), self.head.weight)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-1)

    def by_name(self, of):
        """{Hugging Face's name: of(parameter)}, those that are fused here cut into their parts."""
        found = {"model.embed_tokens.weight": of(self.embedding.weight)}
        if self.head is not self.embedding:
            found["lm_head.weight"] = of(self.head.weight)
        for i, (attention, feed_forward) in enumerate(zip(self.attention, self.feed_forward)):
            parts = (*of(attention.in_proj.weight).split(attention.sizes), of(attention.out_proj.weight),
                     *of(feed_forward.in_proj.weight).chunk(2), of(feed_forward.out_proj.weight))
            kinds = "self_attn.q self_attn.k self_attn.v self_attn.o mlp.gate mlp.up mlp.down".split()
            found |= {f"model.layers.{i}.{kind}_proj.weight": part for kind, part in zip(kinds, parts)}
        for name, norm in zip(self.norm_names, self.norms):
            found |= {f"{name}.{kind}": of(parameter) for kind, parameter in norm.named_parameters()}
        return found

    def load(self, tensors):
        weights = self.by_name(lambda parameter: parameter.data)
        for name in sorted(weights.keys() | tensors.keys()):
            here, there = (list(x[name].shape) if name in x else None for x in (weights, tensors))
            if here != there:
                raise ValueError(f"{name}: the model has {here}, the file has {there}")
            weights[name].copy_(tensors.pop(name))

    def gradient_norms(self):
        gradients = self.by_name(lambda p: torch.zeros_like(p) if p.grad is None else p.grad)
        return {name: x.double().norm().item() for name, x in gradients.items() if not name.endswith(".taper_scale")}


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = bytearray(file.read())
    dtypes = {"F32": torch.float32, "I64": torch.int64}
    return {name: torch.frombuffer(data[slice(*entry["data_offsets"])], dtype=dtypes[entry["dtype"]])
            .view(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def peak_memory_mb():
    return int(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("layers", "width", "heads", "kv-heads", "ffn-width", "vocab", "batch", "window", "threads"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--head-width", type=int)
    parser.add_argument("--mode", choices=("eager", "compile"), required=True)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), required=True)
    parser.add_argument("--weights", metavar="FILE")
    a = parser.parse_args()
    a.head_width = a.head_width or a.width // a.heads

    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    if a.weights:
        tensors = read_safetensors(a.weights)
        ids, targets = tensors.pop("ids"), tensors.pop("targets")
        model = Llama(a, tensors)
        model.load(tensors)
    else:
        model = Llama(a)
        tokens = torch.randint(a.vocab, (a.batch, a.window + 1))
        ids, targets = tokens[:, :-1], tokens[:, 1:]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0, fused=True)
    compiled = torch.compile(model) if a.mode == "compile" else model

    def mean_loss(forward):
        with torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "bf16"):
            return forward(ids, targets)

    def check(gate):
        Norm.gate = gate
        loss = mean_loss(compiled if gate == 1 else model)
        loss.backward()
        answer = {"loss": loss.item(), "gradient_norms": model.gradient_norms()}
        Norm.gate = 1.0
        optimizer.zero_grad(set_to_none=True)
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew: a check is no cost of training
        return answer

    def train(steps):
        start = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            loss = mean_loss(compiled)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return {"seconds": time.perf_counter() - start, "tokens": steps * ids.numel(),
                "peak_memory_mb": peak_memory_mb(), "loss": loss.item()}

    for line in sys.stdin:
        request = line.split()
        answer = check(float(request[1])) if request[0] == "check" else train(int(request[0]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
