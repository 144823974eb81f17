#!/usr/bin/env python3
"""Writes tests/infer/goldens/: tiny Llama models of the Hugging Face class and the logits it computes.

    python3 -m venv venv && venv/bin/pip install torch==2.11.0 transformers==4.57.6 safetensors numpy
    venv/bin/python tools/make_llama_goldens.py               # rewrite the goldens
    venv/bin/python tools/make_llama_goldens.py --check DIR   # load DIR, a checkpoint that taper wrote, with
                                                              # their class and print the logits' checksum

Each model is a directory as save_pretrained leaves it, and logits.json: {"ids": [...], "logits": [[...]]},
computed in double precision from the fp32 weights. Neither building nor testing needs this script.
"""

import argparse
import json
import pathlib

import torch
from transformers import LlamaConfig, LlamaForCausalLM

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "infer" / "goldens"
# Grouped heads whose ratio is not the number of key/value heads, odd widths, eps and theta off the defaults.
CASES = {
    "tied": dict(num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-3,
                 rope_theta=500.0),
    "untied": dict(num_attention_heads=3, num_key_value_heads=1, tie_word_embeddings=False, rms_norm_eps=1e-6,
                   rope_theta=10000.0),
}


def logits(model, ids):
    with torch.no_grad():
        return model.double()(torch.tensor([ids])).logits[0]


def write(name, case):
    torch.manual_seed(len(name))
    config = LlamaConfig(vocab_size=37, hidden_size=24, intermediate_size=29, num_hidden_layers=2,
                         max_position_embeddings=32, attn_implementation="eager", **case)
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():  # no weight is 0 or 1
        scale = 0.25 if parameter.dim() > 1 else 0.0
        torch.nn.init.normal_(parameter, std=scale) if scale else torch.nn.init.uniform_(parameter, 0.6, 1.4)
    folder = GOLDENS / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    ids = [(7 * i + 3) % 37 for i in range(20)]
    rows = [[round(x, 9) for x in row] for row in logits(model, ids).tolist()]
    (folder / "logits.json").write_text(json.dumps({"ids": ids, "logits": rows}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", metavar="DIR")
    arguments = parser.parse_args()
    if arguments.check:
        folder = pathlib.Path(arguments.check)
        model, info = LlamaForCausalLM.from_pretrained(folder, output_loading_info=True,
                                                       torch_dtype=torch.float32, attn_implementation="eager")
        problems = {key: value for key, value in info.items() if value}
        golden = json.loads((folder / "logits.json").read_text())
        worst = (logits(model, golden["ids"]) - torch.tensor(golden["logits"], dtype=torch.float64)).abs().max()
        print(json.dumps({"problems": str(problems), "max_abs_difference": worst.item()}))
        return
    for name, case in CASES.items():
        write(name, case)


if __name__ == "__main__":
    main()
