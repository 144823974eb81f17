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
    "taper": ["core", "model", "kernels"],
    "formats": ["core", "io", "text", "model", "taper"],
    "kernels": ["core"],
    "ops": ["core", "model", "kernels"],
    "infer": ["core", "io", "text", "model", "taper", "kernels", "ops"],
    "report": ["core", "model"],
    "train": ["core", "io", "text", "model", "taper", "kernels", "ops"],
}
MAY_INCLUDE["cli"] = list(MAY_INCLUDE)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def allowed_in(path):
    """The layers of ours that a file may include; None for a file outside the layers."""
    parts = path.parts
    if len(parts) < 3 or parts[0] not in ("src", "tests"):
        return None
    if parts[0] == "tests":  # a test may compare its layer with any other that it links
        return set(MAY_INCLUDE)
    return {parts[1], *MAY_INCLUDE.get(parts[1], [])}


def breaches(path, text):
    allowed = allowed_in(path)
    if allowed is None:
        return
    layers = {*MAY_INCLUDE, path.parts[1]}
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(1)
        first = name.split("/")[0]
        if "/" in name and first in layers and first not in allowed:
            may = ", ".join(sorted(allowed))
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
