#!/usr/bin/env python3
"""Makes codes.csv and tokenizer.json of this folder: a taxonomy whose siblings share meaning, not words.

    python3 recipes/taxonomy/make.py

8 sectors (two digits) of 5 groups (three digits) of 26 industries (five digits), 1,088 codes. Sectors and groups each
have a set of synonyms, made-up words that no other has. Every industry is described by few of its group's and its
sector's, spread over its four texts among words that say nothing, so that two siblings seldom have a word in common.
The tokenizer (WordPiece) has all these words as tokens. The same files come out every time.
"""
import csv
import json
import os
import random

SECTORS, GROUPS, INDUSTRIES = 8, 5, 26
SYNONYMS, FILLERS = 7, 60
HERE = os.path.dirname(os.path.abspath(__file__))


def words(rng, count):
    """Made-up words of three syllables, all different."""
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    seen, out = set(), []
    while len(out) < count:
        word = "".join(rng.choice(syllables) for _ in range(3))
        if word not in seen:
            seen.add(word)
            out.append(word)
    return out


def text(rng, meaning, fillers, length):
    """The words that mean something at random places among fillers."""
    parts = meaning + rng.sample(fillers, max(0, length - len(meaning)))
    rng.shuffle(parts)
    return " ".join(parts)


def texts(rng, group, sector, fillers, foreign):
    """title, description, excluded, examples. `foreign` is a word of another group."""
    return [
        text(rng, group[:1], fillers, 2),
        text(rng, group[1:2] + sector[:1], fillers, 5),
        text(rng, [foreign], fillers, 3) if rng.random() < 0.5 else "",
        text(rng, group[2:3] + sector[1:2], fillers, 4),
    ]


def main():
    rng = random.Random(4)
    all_words = words(rng, FILLERS + SECTORS * (1 + GROUPS) * SYNONYMS)
    fillers, rest = all_words[:FILLERS], all_words[FILLERS:]
    take = lambda: [rest.pop() for _ in range(SYNONYMS)]
    sectors = [take() for _ in range(SECTORS)]
    groups = [[take() for _ in range(GROUPS)] for _ in range(SECTORS)]
    rows = []
    for s in range(SECTORS):
        code = str(11 + s)
        any_group = rng.choice(groups[(s + 1) % SECTORS])
        rows.append([code] + texts(rng, rng.sample(sectors[s], 3), rng.sample(sectors[s], 2), fillers,
                                   rng.choice(any_group)) + [""])
        for g in range(GROUPS):
            rows.append([f"{code}{g + 1}"] + texts(rng, rng.sample(groups[s][g], 3), rng.sample(sectors[s], 2), fillers,
                                                   rng.choice(any_group)) + [""])
            for i in range(INDUSTRIES):
                other = (s + rng.randrange(1, SECTORS)) % SECTORS
                foreign = rng.choice(groups[other][rng.randrange(GROUPS)])
                excluded = f"{11 + other}{rng.randrange(GROUPS) + 1}" if rng.random() < 0.1 else ""
                rows.append([f"{code}{g + 1}{i + 10}"] + texts(rng, rng.sample(groups[s][g], 3),
                                                               rng.sample(sectors[s], 2), fillers, foreign) + [excluded])
    with open(os.path.join(HERE, "codes.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["code", "title", "description", "excluded", "examples", "excluded_codes"])
        writer.writerows(rows)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: i for i, word in enumerate(special + sorted(all_words))}
    token = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, name in enumerate(special)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [token("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, token("[SEP]")],
            "pair": [token("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, token("[SEP]"),
                     {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [special.index(name)], "tokens": [name]}
                               for name in ("[CLS]", "[SEP]")},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocabulary},
    }
    with open(os.path.join(HERE, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file, indent=0, ensure_ascii=False)
        file.write("\n")


if __name__ == "__main__":
    main()
