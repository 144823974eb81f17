#!/usr/bin/env python3
"""Runs clang-tidy over all sources in src, JOBS at a time, and remembers those that passed.

usage: tidy.py BUILD_FOLDER [FILE...]   (BUILD_FOLDER holds compile_commands.json)

clang-tidy spends nearly all its time in the headers of libraries, so the sources of a layer are checked as one
translation unit, or as several where two of them give a local function the same name. Kernels, which include
themselves once a target, go one by one; so does everything in a unit that does not compile.

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
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "build" / "tidy"
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.M)
ALONE = re.compile(r"^src/kernels/")
LOCAL = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.M | re.S)
LOCAL_NAME = re.compile(r"^\w[^\n;({=]*?(\w+)\s*(?:\[[^\n]*)?[;({=]", re.M)


def relative(path):
    return str(path.relative_to(ROOT))


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


def key(path, command, common):
    digest = hashlib.sha256(common + command.encode())
    for file in reached(path):
        digest.update(relative(file).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def local_names(path):
    blocks = LOCAL.findall(path.read_text(encoding="utf-8"))
    return {name for block in blocks for name in LOCAL_NAME.findall(block)}


def units(paths):
    """Groups of files that can be compiled together."""
    groups = []  # (folder, names, files)
    for path in paths:
        names = local_names(path)
        for folder, taken, files in groups:
            if folder == path.parent and not ALONE.match(relative(path)) and not taken & names:
                taken |= names
                files.append(path)
                break
        else:
            groups.append((path.parent, names, [path]))
    return [files for _, _, files in groups]


def run_tidy(path, flags):
    run = subprocess.run(["clang-tidy", "--quiet", str(path), "--", *flags], capture_output=True, text=True)
    return run.returncode == 0, run.stdout.strip() or run.stderr.strip()


def check(files, flags):
    """[(file, clean, findings)] of one unit."""
    if len(files) > 1:
        unit = RECORD / (hashlib.sha256("\n".join(map(str, files)).encode()).hexdigest()[:16] + ".cpp")
        unit.write_text("".join(f'#include "{path}"\n' for path in files))
        clean, findings = run_tidy(unit, flags)
        unit.unlink()
        if clean:
            return [(path, True, "") for path in files]
        if "clang-diagnostic-error" not in findings:
            return [(path, str(path) + ":" not in findings, "") for path in files] + [(None, False, findings)]
    return [(path, *run_tidy(path, flags)) for path in files]


def flags_of(command):
    """The part of a compile command that clang must know."""
    words = shlex.split(command)
    return [word for word in words if word.startswith(("-D", "-I", "-std=", "-W"))] + [
        part for flag, folder in zip(words, words[1:]) if flag == "-isystem" for part in (flag, folder)]


def main():
    build = pathlib.Path(sys.argv[1])
    only = {str(pathlib.Path(name).resolve()) for name in sys.argv[2:]}
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(ROOT / "src") and path.exists():
            if not only or str(path) in only:
                commands[path] = entry["command"]
    RECORD.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True).stdout
    common = version + (ROOT / ".clang-tidy").read_bytes()
    keys = {path: key(path, command, common) for path, command in commands.items()}
    due = units(path for path in sorted(commands) if not (RECORD / keys[path]).exists())
    failed = checked = 0
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        tasks = [pool.submit(check, files, flags_of(commands[files[0]])) for files in due]
        for task in concurrent.futures.as_completed(tasks):
            for path, clean, findings in task.result():
                if findings and not clean:
                    print(findings, file=sys.stderr, flush=True)
                if path is None:
                    continue
                checked += 1
                if clean:
                    (RECORD / keys[path]).touch()
                else:
                    failed += 1
    print(f"clang-tidy: {len(commands)} files, {checked} checked in {len(due)} units, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
