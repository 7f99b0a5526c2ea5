"""What the scripts that make golden files share: settings, first weights, the reference's run, its files and the tar.

A model is run in f32 on the CPU: logits, loss and gradients of batch 0, then AdamW steps, step i on batch i. A copy in f64
(transformers keeps norms and softmax in f32) does the same, to say how far rounding goes. A case's four files:
    config.json         as a public checkpoint has it
    model.safetensors   initial weights, under the names of the public checkpoints
    io.safetensors      tokens, targets i32 [steps, B, T] (target -100: no loss there); for batch 0: logits f32 [B, T, V],
                        loss f32 [1], and one gradient per parameter as grad.<name>
    steps.json          losses and gradient norms of AdamW steps, step i on batch i, and the settings that made them
"""

import copy
import io
import json
import sys
import tarfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import save
from torch.nn.functional import cross_entropy

STEPS = 10
OPTIMIZER = {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
CLIP_NORM = 1.0
IGNORE = -100
TREE_BYTES = 4 << 20  # files of one script that are kept in the tree are smaller
# Rounding in the reference that is well inside the tolerances of test_decoders.c and test_bert.c: logits, loss, each
# gradient, losses of steps, and gradients that are rounding and nothing else, relative to the largest one.
ROUNDING = {"logits": 2e-6, "loss": 3e-7, "gradients": 2e-5, "steps": 2e-6, "nothing": 1e-6}


def built(model_class, config):
    """The model as its formulas say, with first weights of its own."""
    config._attn_implementation = "eager"
    model = model_class(config).float().train()
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert model.config._attn_implementation == "eager"
    return model


def filled(model, seed):
    """The model with weights far from the usual small start: every part then matters in the logits and gradients."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            if name.lower().endswith("norm.weight"):
                parameter.copy_(1.0 + 0.1 * noise)
            else:
                parameter.copy_((0.05 if name.endswith("bias") else 0.15) * noise)
    return model


def text_batches(vocabulary, rows, length, seed):
    """Tokens and the tokens behind them; the end of the last row is padding, in every batch."""
    generator = torch.Generator().manual_seed(seed)
    text = torch.randint(0, vocabulary, (STEPS, rows, length + 1), generator=generator)
    targets = text[..., 1:].clone()
    targets[:, -1, -3:] = IGNORE
    return text[..., :-1].contiguous(), targets.contiguous()


def decoder_logits(model, tokens):
    return model(input_ids=tokens).logits


def loss_of(logits, targets):
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=IGNORE)


def adamw(parameters):
    """Matrices decay, vectors do not."""
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": OPTIMIZER["weight_decay"]},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=OPTIMIZER["lr"], betas=tuple(OPTIMIZER["betas"]),
                             eps=OPTIMIZER["eps"], foreach=False, fused=False)


def relative(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def furthest(losses, exact):
    return max(abs(a - b) / b for a, b in zip(losses, exact))


class Run:
    """A model on its batches. `data` is tokens, targets, and what else `logits_of` takes, each [steps, ...]."""

    def __init__(self, model, data, logits_of):
        self.model, self.data, self.logits_of = model, data, logits_of
        self.parameters = dict(model.named_parameters())  # one that is shared is there once, under its first name
        self.logits, self.loss, self.gradients = self.first_batch()
        self.losses, self.norms = self.train()

    def forward(self, step):
        tokens, targets, *more = (part[step] for part in self.data)
        logits = self.logits_of(self.model, tokens, *more)
        return logits, loss_of(logits, targets)

    def first_batch(self):
        self.model.zero_grad(set_to_none=True)
        logits, loss = self.forward(0)
        loss.backward()
        missing = [name for name, p in self.parameters.items() if p.grad is None]
        assert not missing, f"no gradient: {missing}"
        gradients = {name: p.grad.detach().clone() for name, p in self.parameters.items()}
        return logits.detach().clone(), loss.item(), gradients

    def train(self):
        every = list(self.parameters.values())
        optimizer = adamw(every)
        losses, norms = [], []
        for step in range(STEPS):
            optimizer.zero_grad(set_to_none=True)
            _, loss = self.forward(step)
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(every, CLIP_NORM).item())
            losses.append(loss.item())
            optimizer.step()
        return losses, norms


def faults_of(name, run, exact, nothing):
    """What makes the run no reference; how far rounding goes is printed. `nothing`: gradients that are rounding only."""
    seen = [key for key in run.gradients if key not in nothing]
    apart = {key: relative(run.gradients[key], exact.gradients[key]) for key in seen}
    worst = max(apart, key=apart.get)
    largest = max(run.gradients[key].double().norm().item() for key in seen)
    measured = {
        "logits": relative(run.logits, exact.logits),
        "loss": abs(run.loss - exact.loss) / exact.loss,
        "gradients": apart[worst],
        "steps": furthest(run.losses, exact.losses),
        "nothing": max((run.gradients[key].double().norm().item() / largest for key in nothing), default=0.0),
    }
    print(f"{name}: {sum(p.numel() for p in run.parameters.values())} parameters, loss {run.loss:.6f}, "
          f"norms {min(run.norms):.3f}..{max(run.norms):.3f}, f32 against f64: "
          + ", ".join(f"{key} {value:.1e}" for key, value in measured.items()) + f" (worst gradient: {worst})")
    faults = [f"{name}: rounding in the reference is near the tolerances: {key} {value:.1e}"
              for key, value in measured.items() if not value < ROUNDING[key]]
    if max(run.norms) <= CLIP_NORM:
        faults.append(f"{name}: no step is clipped")
    return faults


def case_files(name, model, config, data, logits_of=decoder_logits, nothing=(), more=None):
    """A case's files by name, and its faults. `more`: tensors of io.safetensors beside those of all models."""
    weights = {key: p.detach().clone().contiguous() for key, p in model.named_parameters()}
    copied = copy.deepcopy(model).double()
    assert [key for key, _ in copied.named_parameters()] == list(weights), "the copy shares other weights"
    run, exact = Run(model, data, logits_of), Run(copied, data, logits_of)
    tokens, targets = data[:2]
    tensors = {"tokens": tokens.int(), "targets": targets.int(), "logits": run.logits.contiguous(),
               "loss": torch.tensor([run.loss]), **(more or {})}
    tensors.update({f"grad.{key}": value.contiguous() for key, value in run.gradients.items() if key not in nothing})
    steps = {"losses": run.losses, "norms": run.norms, "optimizer": OPTIMIZER, "clip_norm": CLIP_NORM,
             "made_by": made_by()}
    files = {
        "config.json": (json.dumps(config, indent=2, sort_keys=True) + "\n").encode(),
        "model.safetensors": save(weights, metadata={"format": "pt"}),
        "io.safetensors": save(tensors),
        "steps.json": (json.dumps(steps, indent=2) + "\n").encode(),
    }
    return files, faults_of(name, run, exact, nothing)


def made_by():
    return {"torch": torch.__version__, "transformers": transformers.__version__}


def folder_asked(usage):
    """The folder on the command line; everything after it runs on one thread."""
    if len(sys.argv) != 2:
        sys.exit(usage)
    torch.set_num_threads(1)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    return out


def write_tar(path, files):
    """Files by their names in the tar, in that order. Returns what is wrong with them."""
    total = sum(len(data) for data in files.values())
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(data))
    print(f"{path}: {total} bytes in {len(files)} files")
    return ["the files are too large to be kept in the tree"] if total >= TREE_BYTES else []


def main(usage, tar, cases, make):
    """Writes the tar with the files of all cases, which are named by their folders; make(name, case, number) returns
    a case's files and its faults. Fails after writing when there are faults: a miss in a test must be headroom's."""
    out = folder_asked(usage)
    torch.use_deterministic_algorithms(True)
    files, faults = {}, []
    for number, (name, case) in enumerate(cases.items()):
        made, found = make(name, case, number)
        files.update({f"{name}/{file}": data for file, data in made.items()})
        faults += found
    faults += write_tar(out / tar, files)
    if faults:
        sys.exit("\n".join(faults))
