#!/usr/bin/env python3
"""A small folder of the source sensors with what its fields must hold, made by torch in f64.

    python3 test/data/make_sensors.py      writes test/data/sensors

Streams at 10 Hz (two channels) and 100 Hz (one channel), patches of half a second: 5 and 50 samples, resampled to 16.
The recordings are trimmed at the beginning, padded since they are too short, and have streams with different numbers
of patches. Samples have at most 5 patches. expected.safetensors has the fields of every question, in the order of the
file, with bytes as tokens and 0 as the end.
"""
import csv
import json
import os
import random

import torch
from safetensors.torch import save_file

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sensors")
SECONDS, POINTS, MOST, LENGTH = 0.5, 16, 5, 200
STREAMS = {"arm": (10.0, 2), "ear": (100.0, 1)}
# subject, split, activity, name: rows of each stream
RECORDINGS = {
    ("S0", "a", 0, "stir"): {"arm": 23, "ear": 270},
    ("S0", "a", 1, "chop"): {"arm": 3, "ear": 180},
    ("S0", "b", 0, "wave"): {"arm": 12, "ear": 100},
    ("S1", "a", 0, "chop"): {"arm": 5, "ear": 49},
}
QUESTIONS = [
    ("simple_activity_recognition", "S0", "a", [0], "What is it?", "stir"),
    ("multi_activity_ordering", "S0", "a", [0, 1], "What came first?", "stir, chop"),
    ("simple_activity_recognition", "S0", "b", [0], "What is it?", "wave"),
    ("multi_activity_existence", "S0", "a", [1, 0, 1], "Is there a w\u00e4ve?", "no"),
    ("simple_activity_recognition", "S1", "a", [0], "What is it?", "chop"),
]


def patches(values, samples):
    """[rows, channels] -> [patches, samples, channels]: from the end on, short ones padded in front."""
    if len(values) < samples:
        values = torch.cat([values.new_zeros(samples - len(values), values.shape[1]), values])
    count = len(values) // samples
    return values[len(values) - count * samples:].reshape(count, samples, -1)


def resampled(x):
    """[P, samples, D] -> [P, D, POINTS]"""
    return torch.nn.functional.interpolate(x.permute(0, 2, 1), size=POINTS, mode="linear", align_corners=False)


def statistics(x):
    """[P, samples, D] -> [P, D, 6]"""
    energy = x.pow(2).mean(1) + 1e-6
    return torch.stack([x.amin(1), x.amax(1), x.mean(1), x.std(1, unbiased=False), energy.sqrt(), energy.log()], -1)


def fields(question, made):
    kind, subject, split, indices, text, answer = question
    parts = [made[subject, split, i] for i in indices]
    values = torch.cat([p[0] for p in parts])[-MOST:]
    raw = torch.cat([p[1] for p in parts])[-MOST:]
    n = len(values)
    scaled = (raw - raw.mean((0, 1))) / raw.std((0, 1), unbiased=False).clamp_min(1e-6)
    pad = lambda a, behind: torch.cat([a, a.new_zeros((behind,) + a.shape[1:])]).float()
    before = (f"QUESTION: {text}\nINSTRUCTION: Answer the question using the available context.\n"
              "SENSOR_CONTEXT:").encode()
    mark, said = b"\nANSWER:", f" {answer}".encode()
    whole = list(before) + [-1] * n + list(mark) + list(said) + [0]
    tokens = [max(t, 0) for t in whole[:-1]]
    prompt = len(before) + n + len(mark)
    targets = [whole[i + 1] if i + 1 >= prompt else -1 for i in range(len(tokens))]
    placement = [LENGTH + i - len(before) if len(before) <= i < len(before) + n else i for i in range(LENGTH)]
    behind = LENGTH - len(tokens)
    whole_numbers = lambda list_: torch.tensor(list_, dtype=torch.int32)
    return {
        "patches": pad(values, MOST - n),
        "statistics": pad(scaled, MOST - n),
        "patch_counts": whole_numbers([n]),
        "patch_mask": torch.tensor([i < n for i in range(MOST)], dtype=torch.uint8),
        "patch_positions": whole_numbers([MOST - n + i if i < n else 0 for i in range(MOST)]),
        "patch_size": whole_numbers([int(SECONDS * STREAMS["arm"][0])]),
        "tokens": whole_numbers(tokens + [0] * behind),
        "targets": whole_numbers(targets + [-1] * behind),
        "placement": whole_numbers(placement),
        "prompt": whole_numbers([prompt]),
    }


def main():
    rng = random.Random(3)
    os.makedirs(HERE, exist_ok=True)
    made, rows = {}, []
    for (subject, split, index, name), lengths in RECORDINGS.items():
        row, counts, native = [subject, split, index, name], [], []
        for stream, (rate, channels) in STREAMS.items():
            file = f"{subject}_{split}_{index}_{stream}.csv"
            values = [[round(rng.gauss(10 * c - 4, 3), 4) for c in range(channels)] for _ in range(lengths[stream])]
            with open(os.path.join(HERE, file), "w", newline="") as out:
                writer = csv.writer(out, lineterminator="\n")
                writer.writerow(["time_s"] + [f"{stream}_{c}" for c in range(channels)])
                writer.writerows([f"{i / rate:.3f}"] + line for i, line in enumerate(values))
            row += [file, rate, channels]
            native.append(patches(torch.tensor(values, dtype=torch.float64), int(SECONDS * rate)))
            counts.append(len(native[-1]))
        rows.append(row)
        n = min(counts)
        native = [x[-n:] for x in native]
        made[subject, split, index] = (torch.cat([resampled(x) for x in native], 1),
                                       torch.cat([statistics(x) for x in native], 1))
    # columns are not in the order of the names
    with open(os.path.join(HERE, "manifest.csv"), "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["subject", "split", "activity_index", "activity_name"] +
                        [f"{s}_{what}" for s in reversed(list(STREAMS)) for what in ("csv", "rate_hz", "channels")])
        writer.writerows(r[:4] + r[7:] + r[4:7] for r in rows)
    names = {(s, p, i): n for s, p, i, n in RECORDINGS}
    with open(os.path.join(HERE, "qa_pairs_templated.jsonl"), "w", encoding="utf-8") as out:
        for kind, subject, split, indices, text, answer in QUESTIONS:
            out.write(json.dumps({"question_type": kind, "subject": subject, "split": split, "activity_indices": indices,
                                  "activity_names": [names[subject, split, i] for i in indices], "question": text,
                                  "answer": answer}, ensure_ascii=False) + "\n")
    expected = {}
    for i, question in enumerate(QUESTIONS):
        for name, value in fields(question, made).items():
            expected[f"{i}.{name}"] = value.contiguous()
    save_file(expected, os.path.join(HERE, "expected.safetensors"))


if __name__ == "__main__":
    main()
