#!/usr/bin/env python3
"""Makes the data of this folder: recordings of activities, questions about them, and a tokenizer of the words.

    python3 recipes/sensors/make.py

16 sessions (8 subjects, two each) of 8 recordings of 4 to 5.5 seconds, one for each activity, in an order of their own:
the wrist at 16 Hz in two channels, the chest at 8 Hz in one. An activity is a shape of both; people differ in strength,
speed and phase, and sensors are noisy. Questions are of four types, about recordings of one session. The tokenizer
(WordPiece) has all the words as tokens. The same files come out every time.
"""
import csv
import json
import math
import os
import random
import shutil

HERE = os.path.dirname(os.path.abspath(__file__))
RATES = {"wrist": 16, "chest": 8}
SUBJECTS, SPLITS, OF_A_TYPE = 8, 2, 16

saw = lambda x: 2 * (x - math.floor(x)) - 1
square = lambda x: 1.0 if x - math.floor(x) < 0.5 else -1.0
sine = lambda x: math.sin(2 * math.pi * x)

# wrist x, wrist y, chest; t in seconds, speeded up and shifted
ACTIVITIES = {
    "stirring": lambda t: (1.2 * sine(0.5 * t), 1.2 * sine(0.5 * t + 0.25), 0.0),
    "chopping": lambda t: (0.0, 1.5 * saw(1.5 * t), 0.2),
    "waving": lambda t: (1.5 * sine(2.5 * t), 1.0, 0.0),
    "walking": lambda t: (0.8 * sine(t), 0.8 * sine(t), 0.8 * sine(2 * t)),
    "jumping": lambda t: (0.3, 2.0 * abs(sine(0.8 * t)), 2.0 * abs(sine(0.8 * t))),
    "lifting": lambda t: (0.0, square(0.5 * t), -0.8),
    "rowing": lambda t: (1.5 * saw(0.5 * t), -1.0, 1.2 * sine(0.5 * t)),
    "resting": lambda t: (0.0, -0.5, 0.0),
}
WHAT = ["what is the person doing ?", "which activity is this ?"]
ORDER = ["in which order do the activities happen ?", "which activities follow each other ?"]
EXISTS = ["is there any {} ?", "does the person do some {} ?"]
RELATIVE = ["does {} come before or after {} ?", "is {} done before or after {} ?"]


def write_recording(rng, name, shape):
    """The streams of a recording; returns their columns of the manifest."""
    seconds, strength, speed, shift = rng.uniform(4.0, 5.5), rng.uniform(0.8, 1.25), rng.uniform(0.9, 1.1), rng.random() * 4
    columns = []
    for stream, rate in RATES.items():
        file = f"streams/{name}_{stream}.csv"
        rows = []
        for i in range(int(seconds * rate)):
            x, y, chest = shape(i / rate * speed + shift)
            values = [x, y] if stream == "wrist" else [chest]
            rows.append([f"{i / rate:g}"] + [f"{strength * v + rng.gauss(0, 0.1):.2f}" for v in values])
        with open(os.path.join(HERE, file), "w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(["time_s"] + (["x", "y"] if stream == "wrist" else ["z"]))
            writer.writerows(rows)
        columns += [file, rate, len(rows[0]) - 1]
    return columns


def questions(rng, names):
    """(type, activity indices, question, answer) of one session, whose activities are `names` in their order."""
    indices = range(len(names))
    some = lambda: sorted(rng.sample(indices, rng.choice([2, 2, 3])))
    for i in indices:
        for text in WHAT:
            yield "simple_activity_recognition", [i], text, names[i]
    for _ in range(OF_A_TYPE):
        chosen = some()
        yield "multi_activity_ordering", chosen, rng.choice(ORDER), " then ".join(names[i] for i in chosen)
    for n in range(OF_A_TYPE):
        chosen = some()
        there, others = [names[i] for i in chosen], [names[i] for i in indices if i not in chosen]
        asked = rng.choice(there if n % 2 else others)
        yield "multi_activity_existence", chosen, rng.choice(EXISTS).format(asked), "yes" if n % 2 else "no"
    for n in range(OF_A_TYPE):
        chosen = some()
        first, second = sorted(rng.sample(range(len(chosen)), 2))
        pair = [names[chosen[first]], names[chosen[second]]]
        text = rng.choice(RELATIVE).format(*(pair if n % 2 else reversed(pair)))
        yield "multi_activity_relative_ordering", chosen, text, "before" if n % 2 else "after"


def write_tokenizer():
    texts = WHAT + ORDER + EXISTS + RELATIVE + list(ACTIVITIES) + [
        "then yes no", "question : instruction : answer the question using the available context . sensor _ context :"]
    words = sorted({word for text in texts for word in text.replace("{}", "").split()})
    special = ["[PAD]", "[UNK]", "[END]", "[SENSOR]"]
    vocabulary = {word: i for i, word in enumerate(special + words)}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, name in enumerate(special)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocabulary},
    }
    for name, content in (("tokenizer.json", tokenizer),
                          ("tokenizer_config.json", {"eos_token": "[END]", "pad_token": "[PAD]", "unk_token": "[UNK]"})):
        with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=0, ensure_ascii=False)
            file.write("\n")


def main():
    rng = random.Random(0)
    folder = os.path.join(HERE, "streams")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    manifest, asked = [], []
    for subject in range(SUBJECTS):
        for split in range(SPLITS):
            names = list(ACTIVITIES)
            rng.shuffle(names)
            who = {"subject": f"S{subject}", "split": str(split)}
            for i, name in enumerate(names):
                columns = write_recording(rng, f"S{subject}_{split}_{i}", ACTIVITIES[name])
                manifest.append([who["subject"], who["split"], i, name] + columns)
            for kind, indices, text, answer in questions(rng, names):
                asked.append({"question_type": kind, **who, "activity_indices": indices,
                              "activity_names": [names[i] for i in indices], "question": text, "answer": answer})
    with open(os.path.join(HERE, "manifest.csv"), "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["subject", "split", "activity_index", "activity_name"] +
                        [f"{s}_{what}" for s in RATES for what in ("csv", "rate_hz", "channels")])
        writer.writerows(manifest)
    with open(os.path.join(HERE, "qa_pairs_templated.jsonl"), "w", encoding="utf-8") as out:
        for one in asked:
            out.write(json.dumps(one) + "\n")
    write_tokenizer()


if __name__ == "__main__":
    main()
