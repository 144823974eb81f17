#!/usr/bin/env python3
"""Runs clang-tidy over the torch-free sources, JOBS at a time, and remembers those that passed.

usage: tidy.py BUILD_FOLDER [FILE...]   (BUILD_FOLDER holds compile_commands.json)

A file is checked again only when the file, a header of ours that it reaches, its compile command, the list of
checks or clang-tidy itself has changed; the record is build/tidy/. Prints the findings; exit 1 if there are any.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "build" / "tidy"
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.M)
LEFT_OUT = re.compile(r"^(src/train/|src/cli/train_)")  # minutes a file: the torch headers


@functools.cache
def own_includes(path):
    """The files of ours that `path` includes directly."""
    found = []
    for name in INCLUDE.findall(path.read_bytes()):
        for folder in (ROOT / "src", path.parent):
            if (folder / name.decode()).is_file():
                found.append((folder / name.decode()).resolve())
                break
    return found


def reached(path):
    """`path` and every file of ours that it reaches."""
    seen, queue = {path}, [path]
    while queue:
        for header in own_includes(queue.pop()):
            if header not in seen:
                seen.add(header)
                queue.append(header)
    return sorted(seen)


def key(entry, common):
    digest = hashlib.sha256(common + entry["command"].encode())
    for path in reached(pathlib.Path(entry["file"])):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def check(path, build):
    run = subprocess.run(["clang-tidy", "--quiet", "-p", str(build), str(path)], capture_output=True, text=True)
    return run.returncode == 0, run.stdout.strip() or run.stderr.strip()


def main():
    build = pathlib.Path(sys.argv[1])
    only = {str(pathlib.Path(name).resolve()) for name in sys.argv[2:]}
    entries = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if not path.is_relative_to(ROOT / "src") or LEFT_OUT.match(str(path.relative_to(ROOT))):
            continue
        if path.exists() and (not only or str(path) in only):
            entries[str(path)] = entry
    RECORD.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True).stdout
    common = version + (ROOT / ".clang-tidy").read_bytes()
    keys = {name: key(entry, common) for name, entry in entries.items()}
    due = [name for name in sorted(entries) if not (RECORD / keys[name]).exists()]
    failed = 0
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for name, (clean, output) in zip(due, pool.map(lambda name: check(name, build), due)):
            if clean:
                (RECORD / keys[name]).touch()
            else:
                failed += 1
                print(output, file=sys.stderr)
    print(f"clang-tidy: {len(entries)} files, {len(due)} checked, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
