"""What the tests of the program share: running it, a small recipe, and checks that say what they saw."""
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADROOM = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(ROOT, 'build', 'headroom')
RECIPES = os.path.join(ROOT, 'recipes')

TINY = """\
model:
  family: llama
  config: { hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4,
            num_key_value_heads: 2, vocab_size: 256 }
data: { source: synthetic, sequence_length: 16 }
training:
  batch_size: 2
  steps: 8
  optimizer: { lr: 1e-3 }
"""

failures = []
checks = 0


def check(condition, what):
    """Counts, and goes on: one run shows every fault."""
    global checks
    checks += 1
    if not condition:
        failures.append(what)
        print('FAILED:', what, flush=True)
    return condition


class Result:
    def __init__(self, command, done):
        self.command = shlex.join(command[1:])
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError:
            check(False, f'{self.command}: no JSON on stdout: {self.out[:200]!r} (stderr {self.err[:300]!r})')
            return {}

    def expect(self, code, *parts):
        """Exit code, and parts that must be somewhere in the output."""
        text = self.out + self.err
        ok = check(self.code == code, f'{self.command}: exit {self.code}, expected {code}\n{text[:600]}')
        for part in parts:
            ok = check(part in text, f'{self.command}: {part!r} is not in the output:\n{text[:600]}') and ok
        return self


def run(*arguments, cwd=None, env=None, timeout=300, limit_bytes=None, user=None):
    """`limit_bytes`: no file can grow beyond that, as on a full disk. `user`: whose rights it has (as root only)."""
    command = [HEADROOM, *map(str, arguments)]

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, timeout=timeout, text=True,
                          errors='replace', env={**os.environ, **(env or {})}, check=False,
                          preexec_fn=limit if limit_bytes else None, user=user)
    return Result(command, done)


class Folder:
    """A temporary folder that is gone afterwards; `listing` tells whether anything was written."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix='headroom-test-')
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def write(self, name, content):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def listing(self):
        found = []
        for folder, folders, names in os.walk(self.path):
            found += [os.path.join(folder, name) for name in folders + names]
        return sorted(found)


def finish():
    print(f'{checks} checks, {len(failures)} failures')
    sys.exit(1 if failures else 0)
