#!/usr/bin/env python3
"""Writes tests/text/goldens/: what the Hugging Face `tokenizers` library says, for the C++ tests.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tools/make_tokenizer_goldens.py              # rewrite the goldens
    venv/bin/python tools/make_tokenizer_goldens.py --check T    # compare T with `taper tokenizer encode`
                                                                 #   (needs build/release/bin/taper)

Files: corpus.txt (training text, made here), hf_trained.json (their trainer's result on it), texts.json
(texts and their ids under several settings of that vocabulary), classes.json (the class of every code
point: runs of [first, last, class]). Neither building nor testing needs this script.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests" / "text" / "goldens"
END = "<|endoftext|>"
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

NOUNS = "gate taper fold norm layer river mill miller stone wheel grain scale weight candle window".split()
VERBS = "turns holds carries weighs measures follows leaves lifts keeps counts warms crosses".split()
PLACES = "by the river|in the old mill|under the bridge|near the window|on the hill".split("|")
EXTRA = [
    "I'll say it's done; they've said we're late, and you'd know I'm not. Don't!",
    "Füße, naïve café, Übergrößen über Übergrößen, coöperate, déjà vu, déjà lu.",
    "Съешь ещё этих мягких французских булок, да выпей чаю. Съешь ещё!",
    "日本語の文章です。日本語の文章を読みます。数字は１２３です。",
    "def f(x):\n    if x > 10:\n        return x ** 2\n    return 0\n",
    "In 1999, 2024 and 12345 there were 100,000 grains, 3.14159 of them round.",
    "aaaaaaaaaaaaaaaa bbbbbbbb abababab === ---- .... !!!! ???",
    "A smile 😀 and a family 👨‍👩‍👧 and a flag 🇨🇭, twice: 😀 😀.",
]


def corpus(rng):
    documents = []
    for _ in range(60):
        lines = []
        for _ in range(rng.randint(1, 6)):
            subject, thing = rng.choice(NOUNS), rng.choice(NOUNS)
            lines.append(f"The {subject} {rng.choice(VERBS)} the {thing} {rng.choice(PLACES)}.")
        if rng.random() < 0.5:
            lines.append(rng.choice(EXTRA))
        documents.append(rng.choice([" ", "\n", "\n\n"]).join(lines))
    return documents


def texts(rng, documents):
    result = ["", " ", "  ", "\n", " \n", "\n ", "\t\t x", "a  b", "a \n b", "a\n\n\nb", "a   ", "   a"]
    result += EXTRA + documents[:6]
    result += ["it's it'S 's 't 're 've 'm 'll 'd 'l 'r 'v ''s '''t", "x'sx", " 's", "'", "''", "don't'"]
    result += [f"a {END} b", END, END + END, f"{END[:-1]}", f" {END} \n", "<|pad|><|end", "<<|pad|>"]
    result += ["a\u00a0b", "a\u3000\u3000b", "\u2028x", "a\u0085b", "a\u200bb", "\ufeffa", "e\u0301e\u0301"]
    result += ["１２３", "Ⅷ ⅷ", "½ ¼", "x²", "٣٤٥", "\u0000\u0001\u007f", "a" * 500, "ab" * 300, " " * 70]
    alphabet = list("abcdeABCXYZ 0123456789 '\"!?.,\n\t ") + ["  ", "'s", " the", "é", "ß", "日", "я", "😀", END]
    spaces = [chr(c) for c in (9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, 0x2003, 0x2029, 0x202F, 0x3000)]
    for _ in range(150):
        result.append("".join(rng.choice(alphabet) for _ in range(rng.randint(1, 40))))
    for _ in range(100):
        result.append("".join(rng.choice(spaces + ["a", "1", "!", "'t"]) for _ in range(rng.randint(1, 12))))
    # Code points assigned before Unicode 12 in the main: later ones depend on the library's version.
    ranges = [(0x20, 0x7F), (0xA0, 0x24F), (0x370, 0x5FF), (0x900, 0xD7F), (0x2000, 0x2BFF),
              (0x3040, 0x30FF), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1F300, 0x1F64F)]
    for _ in range(150):
        low, high = rng.choice(ranges)
        result.append("".join(chr(rng.randint(low, high)) if rng.random() < 0.8 else " "
                              for _ in range(rng.randint(1, 20))))
    return result


def trained(documents):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, min_frequency=2, special_tokens=[END],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(documents, trainer)
    return tokenizer


def variants(tokenizer):
    """Settings of the same vocabulary, as (name, tokenizer)."""
    def with_steps(*steps):
        copy = Tokenizer.from_str(tokenizer.to_str())
        copy.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(list(steps))
        return copy

    byte_level = pre_tokenizers.ByteLevel
    added = with_steps(byte_level(add_prefix_space=False))
    added.add_tokens(["<|pad|>", "the river", "<|"])
    added.add_special_tokens(["<|end"])
    whole = json.loads(tokenizer.to_str())
    whole["model"]["ignore_merges"] = True
    return [
        ("plain", tokenizer),
        ("prefix_space", with_steps(byte_level(add_prefix_space=True))),
        ("no_regex", with_steps(byte_level(add_prefix_space=False, use_regex=False))),
        ("split", with_steps(pre_tokenizers.Split(Regex(GPT2), "isolated"),
                             byte_level(add_prefix_space=False, use_regex=False))),
        ("digits", with_steps(pre_tokenizers.Digits(individual_digits=True), byte_level(add_prefix_space=False))),
        ("digit_runs_prefix", with_steps(pre_tokenizers.Digits(), byte_level(add_prefix_space=True))),
        ("added", added),
        ("ignore_merges", Tokenizer.from_str(json.dumps(whole))),
    ]


def settings(tokenizer):
    """The file without its vocabulary, which every variant shares."""
    root = json.loads(tokenizer.to_str())
    del root["model"]["vocab"], root["model"]["merges"]
    return root


def classes():
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    runs = []
    for c in range(0x110000):
        if 0xD800 <= c <= 0xDFFF:
            kind = "O"
        else:
            kind = next((k for k, before in (("L", "a"), ("N", "1"), ("O", "!"))
                         if len(split.pre_tokenize_str(before + chr(c))) == 1), "S")
        if runs and runs[-1][2] == kind:
            runs[-1][1] = c
        else:
            runs.append([c, c, kind])
    return [run for run in runs if run[2] != "O"]


def check(path):
    """Our ids of the texts under `path` against theirs."""
    theirs = Tokenizer.from_file(path)
    rng = random.Random(7)
    bad = 0
    all_texts = [t for t in texts(rng, corpus(rng)) if t and "\0" not in t]
    for text in all_texts:
        ours = json.loads(subprocess.run(
            [ROOT / "build/release/bin/taper", "tokenizer", "encode", "--tokenizer", path, "--allow-special",
             "--json", f"--text={text}"], check=True, capture_output=True).stdout)["ids"]
        if ours != theirs.encode(text, add_special_tokens=False).ids:
            bad += 1
            print("differs:", repr(text))
    print(f"{len(all_texts) - bad} of {len(all_texts)} texts agree")
    return bad != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", metavar="TOKENIZER_JSON")
    arguments = parser.parse_args()
    if arguments.check:
        sys.exit(check(arguments.check))
    rng = random.Random(20240607)
    documents = corpus(rng)
    GOLDENS.mkdir(parents=True, exist_ok=True)
    (GOLDENS / "corpus.txt").write_text(("\n" + END + "\n").join(documents), newline="")
    tokenizer = trained(documents)
    (GOLDENS / "hf_trained.json").write_text(tokenizer.to_str(pretty=False))
    cases = texts(rng, documents)
    golden = {"generator": f"tokenizers {tokenizers.__version__}", "texts": cases, "variants": []}
    for name, variant in variants(tokenizer):
        encode = lambda text: variant.encode(text, add_special_tokens=False).ids
        entry = {"name": name, "settings": settings(variant), "allow": [encode(t) for t in cases]}
        variant.encode_special_tokens = True
        as_text = [encode(t) for t in cases]
        entry["as_text"] = {i: ids for i, ids in enumerate(as_text) if ids != entry["allow"][i]}
        golden["variants"].append(entry)
    (GOLDENS / "texts.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")))
    (GOLDENS / "classes.json").write_text(json.dumps(classes(), separators=(",", ":")))


if __name__ == "__main__":
    main()
