#!/usr/bin/env python3
"""Writes tests/train/goldens/: tiny tapered Llama models, one batch each, and what PyTorch's autograd makes of them.

    python3 -m venv venv && venv/bin/pip install torch==2.11.0 numpy
    venv/bin/python tools/make_training_goldens.py            # rewrite the goldens
    venv/bin/python tools/make_training_goldens.py --check    # compute them again and compare

A second implementation of docs/method.md, section 1, from its formulas alone: losses, statistics and every gradient
in double. NAME.safetensors holds `param.<tensor>` and `grad.<tensor>` (F64, a checkpoint's names; a taper_scale has
no gradient), `ids` and `targets` (I64, [B, T]; a target of -1 is not counted). The weights are fp32 values, so a pass
in fp32 starts from the same ones. NAME.json holds everything that is a number: config (as in config.json), scope,
gate, folded (norms that are identities), tapered (norms that have gamma~), anchor_target (null: no anchor),
loss_weight, anchor_weight, skip_first_position and expected:

    loss_sum, count          cross-entropies over the counted rows, and how many there are
    logit_norm_sum           L2 norms of the logits over the same rows
    scale_sum, scale_count   s = sqrt(mean(h^2) + eps) at the final norm's input, and how many rows
    anchor_sum               (s - s_tgt)^2 over the same rows; null without a target
    calibration              at gate 1, norms in scope: {norm: [sum ||h gamma||^2 / r, sum ||h gamma||^2, sum r, rows]}

The gradients are those of loss_weight * loss_sum + anchor_weight * anchor_sum. With skip_first_position the first
position of each window counts in the loss, not in the anchor and the statistics. Neither building nor testing needs
this script.
"""

import argparse
import json
import math
import pathlib
import random
import sys

import torch

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "train" / "goldens"
FINAL_NORM = "model.norm"

# Odd widths; six heads on two key/value heads, so that their ratio is not their number; heads that do not fill the
# width, and some that do. eps is large enough to matter, theta far off the default.
SHAPES = {
    "grouped": dict(vocab_size=11, hidden_size=5, intermediate_size=7, num_hidden_layers=2, num_attention_heads=6,
                    num_key_value_heads=2, head_dim=4, rms_norm_eps=1e-3, rope_theta=50.0),
    "wide": dict(vocab_size=19, hidden_size=21, intermediate_size=13, num_hidden_layers=1, num_attention_heads=6,
                 num_key_value_heads=2, head_dim=4, rms_norm_eps=1e-2, rope_theta=10000.0),
    "small": dict(vocab_size=13, hidden_size=7, intermediate_size=9, num_hidden_layers=1, num_attention_heads=3,
                  num_key_value_heads=1, head_dim=6, rms_norm_eps=1e-5, rope_theta=500.0),
    "filled": dict(vocab_size=17, hidden_size=8, intermediate_size=5, num_hidden_layers=1, num_attention_heads=4,
                   num_key_value_heads=4, head_dim=2, rms_norm_eps=1e-3, rope_theta=100.0),
    "single": dict(vocab_size=5, hidden_size=3, intermediate_size=1, num_hidden_layers=1, num_attention_heads=1,
                   num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-4, rope_theta=20.0),
}


def case(shape, scope, gate, tied, time, anchor=None, skip_first=False, begun=True, folded=""):
    """`begun`: norms in scope have gamma~ and c. `folded`: "", "internal" or "all"."""
    return dict(locals())


CASES = {
    "none": case("grouped", "none", 1.0, tied=False, time=7),
    "none_anchor": case("filled", "none", 0.4, tied=True, time=5, anchor=0.9, skip_first=True),
    "internal_before": case("grouped", "internal", 1.0, tied=True, time=6, skip_first=True, begun=False),
    "internal_gate1": case("small", "internal", 1.0, tied=False, time=5, anchor=1.5),
    "internal_gate04": case("wide", "internal", 0.4, tied=False, time=7, anchor=1.2),
    "internal_gate0": case("grouped", "internal", 0.0, tied=True, time=7, anchor=2.0, skip_first=True),
    "final_before": case("filled", "final", 1.0, tied=True, time=6, begun=False),
    "final_gate04": case("small", "final", 0.4, tied=True, time=7, skip_first=True),
    "final_gate0": case("small", "final", 0.0, tied=False, time=6, anchor=1.1),
    "all_before": case("grouped", "all", 1.0, tied=False, time=5, anchor=0.8, begun=False),
    "all_gate1": case("filled", "all", 1.0, tied=False, time=5, anchor=1.4, skip_first=True),
    "all_gate04": case("small", "all", 0.4, tied=True, time=7, anchor=0.7, skip_first=True),
    "all_gate0": case("grouped", "all", 0.0, tied=False, time=6),
    "single_head": case("single", "all", 0.4, tied=True, time=6),
    "folded_internal": case("small", "internal", 0.0, tied=True, time=5, anchor=1.3, folded="internal"),
    "folded_all": case("single", "all", 0.0, tied=False, time=7, folded="all"),
}
BATCH = 3
LOSS_WEIGHT, ANCHOR_WEIGHT = 0.0625, 0.03125


def norm_names(config):
    blocks = [f"model.layers.{n}." for n in range(config["num_hidden_layers"])]
    return [b + kind for b in blocks for kind in ("input_layernorm", "post_attention_layernorm")] + [FINAL_NORM]


def in_scope(norm, scope):
    return scope == "all" or scope == ("final" if norm == FINAL_NORM else "internal")


def build_case(c):
    """What the case says, as NAME.json has it, without the results."""
    config = {"model_type": "llama", **SHAPES[c["shape"]], "max_position_embeddings": 16,
              "tie_word_embeddings": c["tied"]}
    folded = [n for n in norm_names(config) if c["folded"] and in_scope(n, c["folded"])]
    tapered = [n for n in norm_names(config) if c["begun"] and in_scope(n, c["scope"]) and n not in folded]
    return {"config": config, "scope": c["scope"], "gate": c["gate"], "folded": folded, "tapered": tapered,
            "anchor_target": c["anchor"], "loss_weight": LOSS_WEIGHT, "anchor_weight": ANCHOR_WEIGHT,
            "skip_first_position": c["skip_first"]}


def random_parameters(description, draw):
    """{name: tensor}, in the order of the forward pass. Python's generator: the same in every version of PyTorch."""
    config = description["config"]
    vocab, width, ffn = config["vocab_size"], config["hidden_size"], config["intermediate_size"]
    q_width = config["num_attention_heads"] * config["head_dim"]
    kv_width = config["num_key_value_heads"] * config["head_dim"]
    parameters = {}

    def fp32(values):
        return torch.tensor(values, dtype=torch.float32).double()

    def matrix(name, rows, columns, std):
        parameters[name] = fp32([[draw.gauss(0, std) for _ in range(columns)] for _ in range(rows)])

    def norm(name):
        if name in description["folded"]:
            return
        parameters[name + ".weight"] = fp32([draw.uniform(0.7, 1.3) for _ in range(width)])
        if name in description["tapered"]:
            parameters[name + ".taper_weight"] = fp32([draw.uniform(0.7, 1.3) for _ in range(width)])
            parameters[name + ".taper_scale"] = fp32([draw.uniform(0.5, 1.1)])

    matrix("model.embed_tokens.weight", vocab, width, 0.8)
    for n in range(config["num_hidden_layers"]):
        block = f"model.layers.{n}."
        norm(block + "input_layernorm")
        for name, rows in ("q", q_width), ("k", kv_width), ("v", kv_width):
            matrix(block + f"self_attn.{name}_proj.weight", rows, width, 1.2 / math.sqrt(width))
        matrix(block + "self_attn.o_proj.weight", width, q_width, 0.8 / math.sqrt(q_width))
        norm(block + "post_attention_layernorm")
        matrix(block + "mlp.gate_proj.weight", ffn, width, 1.2 / math.sqrt(width))
        matrix(block + "mlp.up_proj.weight", ffn, width, 1.2 / math.sqrt(width))
        matrix(block + "mlp.down_proj.weight", width, ffn, 0.8 / math.sqrt(ffn))
    norm(FINAL_NORM)
    if not config["tie_word_embeddings"]:
        matrix("lm_head.weight", vocab, width, 0.6)
    return parameters


def random_batch(vocab, time, draw):
    """ids and targets [B, T]. Two targets and the end of the last window are not counted."""
    ids = torch.tensor([[draw.randrange(vocab) for _ in range(time)] for _ in range(BATCH)])
    targets = torch.tensor([[draw.randrange(vocab) for _ in range(time)] for _ in range(BATCH)])
    targets[0, draw.randrange(time)] = targets[1, 0] = -1
    targets[2, time - 2:] = -1
    return ids, targets


class Model:
    """B batch, T time, D width, H query heads, G key/value heads, K head width."""

    def __init__(self, description, parameters):
        self.description, self.config, self.parameters = description, description["config"], parameters
        self.calibration = {}

    def scale(self, h_BTD):
        """r(h) = sqrt(mean(h^2) + eps), [B, T, 1]."""
        return (h_BTD.square().mean(dim=-1, keepdim=True) + self.config["rms_norm_eps"]).sqrt()

    def norm(self, name, h):
        """y = g (h/r) gamma + (1-g) c h gamma~; the plain norm before gamma~ exists; nothing when folded."""
        if name in self.description["folded"]:
            return h
        gamma, r = self.parameters[name + ".weight"], self.scale(h)
        plain = h / r * gamma
        if in_scope(name, self.description["scope"]):
            self.calibration[name] = self.calibration_sums(h.detach(), r.detach(), gamma.detach())
        if name not in self.description["tapered"]:
            return plain
        gate, c = self.description["gate"], self.parameters[name + ".taper_scale"]
        return gate * plain + (1 - gate) * c * h * self.parameters[name + ".taper_weight"]

    def counted_rows(self, values_BT):
        """Without the first position of each window where the statistics leave it out."""
        return values_BT[:, 1:] if self.description["skip_first_position"] else values_BT

    def calibration_sums(self, h, r, gamma):
        weight = (h * gamma).square().sum(dim=-1, keepdim=True)
        sums = [self.counted_rows(x).sum().item() for x in (weight / r, weight, r)]
        return sums + [self.counted_rows(r).numel()]

    def rotate(self, x_BTHK):
        """Channel i turns with channel i + K/2 by the angle position * theta^(-2i/K)."""
        time, half = x_BTHK.shape[1], x_BTHK.shape[3] // 2
        frequencies = torch.tensor([self.config["rope_theta"] ** (-i / half) for i in range(half)], dtype=torch.float64)
        angles = torch.arange(time).double()[:, None, None] * frequencies
        first, second = x_BTHK[..., :half], x_BTHK[..., half:]
        return torch.cat((first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()),
                         dim=-1)

    def attention(self, prefix, x_BTD):
        batch, time, _ = x_BTD.shape
        heads, kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        q, k, v = ((x_BTD @ self.parameters[f"{prefix}{name}_proj.weight"].T).view(batch, time, -1,
                                                                                   self.config["head_dim"])
                   for name in "qkv")
        q, k = self.rotate(q), self.rotate(k)
        causal = torch.ones(time, time, dtype=torch.bool).tril()
        mixed = []
        for head in range(heads):
            kv_head = head // (heads // kv_heads)
            scores = q[:, :, head] @ k[:, :, kv_head].transpose(1, 2) / math.sqrt(self.config["head_dim"])
            mixed.append(scores.masked_fill(~causal, -math.inf).softmax(dim=-1) @ v[:, :, kv_head])
        return torch.cat(mixed, dim=-1) @ self.parameters[prefix + "o_proj.weight"].T

    def mlp(self, prefix, x):
        gate, up = (x @ self.parameters[f"{prefix}{name}_proj.weight"].T for name in ("gate", "up"))
        return (gate * torch.sigmoid(gate) * up) @ self.parameters[prefix + "down_proj.weight"].T

    def forward(self, ids_BT):
        """The final norm's input [B, T, D] and the logits [B, T, V]."""
        h = self.parameters["model.embed_tokens.weight"][ids_BT]
        for n in range(self.config["num_hidden_layers"]):
            block = f"model.layers.{n}."
            h = h + self.attention(block + "self_attn.", self.norm(block + "input_layernorm", h))
            h = h + self.mlp(block + "mlp.", self.norm(block + "post_attention_layernorm", h))
        head = "model.embed_tokens.weight" if self.config["tie_word_embeddings"] else "lm_head.weight"
        return h, self.norm(FINAL_NORM, h) @ self.parameters[head].T

    def objective(self, ids_BT, targets_BT):
        """What backward() is called on, and NAME.json's `expected`."""
        d = self.description
        h, logits = self.forward(ids_BT)
        counted = targets_BT >= 0
        losses = logits.logsumexp(dim=-1) - logits.gather(-1, targets_BT.clamp(min=0)[..., None])[..., 0]
        loss_sum = losses[counted].sum()
        s = self.counted_rows(self.scale(h))
        total = d["loss_weight"] * loss_sum
        anchor_sum = None
        if d["anchor_target"] is not None:
            anchor_sum = (s - d["anchor_target"]).square().sum()
            total = total + d["anchor_weight"] * anchor_sum
        return total, {"loss_sum": loss_sum.item(), "count": int(counted.sum()),
                       "logit_norm_sum": logits[counted].square().sum(dim=-1).sqrt().sum().item(),
                       "scale_sum": s.sum().item(), "scale_count": s.numel(),
                       "anchor_sum": None if anchor_sum is None else anchor_sum.item(),
                       "calibration": self.calibration if d["gate"] == 1 else {}}


def differentiate(description, parameters, ids, targets):
    """`expected`, and the gradient of every parameter but the fixed scales."""
    leaves = {name: value.clone().requires_grad_(not name.endswith(".taper_scale"))
              for name, value in parameters.items()}
    total, expected = Model(description, leaves).objective(ids, targets)
    total.backward()
    return expected, {name: leaf.grad for name, leaf in leaves.items() if leaf.requires_grad}


def golden(c, seed):
    draw = random.Random(seed)
    description = build_case(c)
    parameters = random_parameters(description, draw)
    ids, targets = random_batch(description["config"]["vocab_size"], c["time"], draw)
    expected, gradients = differentiate(description, parameters, ids, targets)
    tensors = {"param." + name: value for name, value in parameters.items()}
    tensors |= {"grad." + name: value for name, value in gradients.items()}
    tensors |= {"ids": ids, "targets": targets}
    return tensors, {**description, "expected": expected}


def safetensors_bytes(tensors):
    header, data = {"__metadata__": {"format": "pt"}}, bytearray()
    for name, tensor in tensors.items():
        begin = len(data)
        data += tensor.contiguous().numpy().tobytes()
        dtype = {torch.float64: "F64", torch.float32: "F32", torch.int64: "I64"}[tensor.dtype]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + bytes(data)


def read_safetensors(path):
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = (begin + offset for offset in entry["data_offsets"])
        dtype = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64}[entry["dtype"]]
        tensors[name] = torch.frombuffer(bytearray(content[first:last]), dtype=dtype).view(entry["shape"])
    return tensors


def numbers(value):
    """The numbers of nested lists and objects, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [x for item in value for x in numbers(item)]
    return [value] if isinstance(value, (int, float)) else []


def differences(name, tensors, case_json):
    """Where the files of `name` differ from what was computed now; gradients and sums may by rounding."""
    stored, stored_json = read_safetensors(GOLDENS / f"{name}.safetensors"), json.loads(
        (GOLDENS / f"{name}.json").read_text())
    if list(stored) != list(tensors):
        return ["the names of the tensors"]
    found = []
    for key, tensor in tensors.items():
        rounding = 1e-12 * tensor.abs().max().item() if key.startswith("grad.") else 0
        if stored[key].shape != tensor.shape or (stored[key] - tensor).abs().max().item() > rounding:
            found.append(key)
    if {**stored_json, "expected": None} != {**case_json, "expected": None}:
        found.append("the case")
    ours, theirs = numbers(case_json["expected"]), numbers(stored_json["expected"])
    if len(ours) != len(theirs) or not all(math.isclose(a, b, rel_tol=1e-12) for a, b in zip(ours, theirs)):
        found.append("expected")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    torch.set_num_threads(1)
    GOLDENS.mkdir(parents=True, exist_ok=True)
    failed = False
    for seed, (name, c) in enumerate(CASES.items(), start=1):
        tensors, case_json = golden(c, seed)
        if check:
            found = differences(name, tensors, case_json)
            failed |= bool(found)
            print(f"{name}: {'differs in ' + ', '.join(found) if found else 'equal'}")
        else:
            (GOLDENS / f"{name}.safetensors").write_bytes(safetensors_bytes(tensors))
            (GOLDENS / f"{name}.json").write_text(json.dumps(case_json, indent=1) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
