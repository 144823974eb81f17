#!/usr/bin/env python3
"""Checks the layers: a file may include only its own layer and those below it (ARCHITECTURE.md).

Prints file:line, the include and what the layer may include for every breach; exit 1 if there is one.
"""
import pathlib
import re
import subprocess
import sys

# The table of ARCHITECTURE.md. A layer may always include itself.
MAY_INCLUDE = {
    "core": [],
    "io": ["core"],
    "text": ["core", "io"],
    "model": ["core", "io", "text"],
    "taper": ["core", "model"],
    "formats": ["core", "io", "text", "model", "taper"],
    "kernels": ["core"],
    "infer": ["core", "io", "text", "model", "taper", "kernels"],
    "report": ["core", "model"],
    "train": ["core", "io", "text", "model", "taper", "kernels"],
}
TORCH_FREE = [layer for layer in MAY_INCLUDE if layer != "train"]
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")


def rule_of(path):
    """(what a file may include of ours, whether it may see torch); None for a file outside the layers."""
    parts = path.parts
    if len(parts) < 3 or parts[0] not in ("src", "tests"):
        return None
    layer = parts[1]
    if parts[0] == "tests":  # a test may compare its layer with any other that it links
        return (TORCH_FREE + ["train", "cli"], True) if layer == "train" else (TORCH_FREE + ["cli"], False)
    if layer == "cli":
        if path.name.startswith("train_"):
            return MAY_INCLUDE["train"] + ["train", "cli"], True
        return TORCH_FREE + ["cli"], False
    if parts[:3] == ("src", "train", "fused"):
        return MAY_INCLUDE["train"] + ["train"], False
    if layer not in MAY_INCLUDE:
        return [], False
    return MAY_INCLUDE[layer] + [layer], layer == "train"


def breaches(path, text):
    rule = rule_of(path)
    if rule is None:
        return
    allowed, torch = rule
    layers = set(MAY_INCLUDE) | {"cli", path.parts[1]}
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, name = match.groups()
        first = name.split("/")[0]
        if TORCH.match(name) and not torch:
            yield f"{path}:{number}: includes <{name}>; only src/train, its tests and src/cli/train_* may see torch"
        elif quote == '"' and "/" in name and first in layers and first not in allowed:
            may = ", ".join(sorted(allowed)) or "nothing of ours"
            where = "/".join(path.parts[:2])
            yield f'{path}:{number}: includes "{name}"; {where} may include: {may}'


def main():
    listed = subprocess.run(["git", "ls-files", "--", "src/*", "tests/*"], check=True, capture_output=True, text=True)
    files = [pathlib.Path(name) for name in listed.stdout.splitlines()]
    files = [path for path in files if path.suffix in (".h", ".cpp", ".cu") and path.exists()]
    found = [line for path in files for line in breaches(path, path.read_text(encoding="utf-8"))]
    for line in found:
        print(f"error: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
