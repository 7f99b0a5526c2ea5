#!/usr/bin/env python3
"""What a process that was killed has left in the cache folder goes when the next one makes something there; what another process
is making stays, and so do files of other names."""
import fcntl
import os
import signal
import subprocess
import time

from support import HEADROOM, ROOT, Folder, check, finish, run

RECIPE = f"""\
model:
  family: llama
  config: {{ hidden_size: 16, intermediate_size: 16, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 2, vocab_size: 512 }}
data: {{ source: text, path: text.txt, tokenizer: {ROOT}/test/text/tokenizers/byte-level, sequence_length: 16 }}
training: {{ batch_size: 1, steps: 1 }}
"""

with Folder() as folder:
    os.environ['XDG_CACHE_HOME'] = folder.path
    cache = os.path.join(folder.path, 'headroom')
    recipe = folder.write('r.yaml', RECIPE)
    arguments = ['train', recipe, '--quiet', '--out', os.path.join(folder.path, 'out')]

    def unfinished():
        return sorted(name for name in os.listdir(cache) if name.endswith('.tmp')) if os.path.isdir(cache) else []

    folder.write('text.txt', 'so it is and was ' * 2000000)
    child = subprocess.Popen([HEADROOM, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not unfinished() and child.poll() is None:
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    check(child.wait() == -signal.SIGKILL and len(unfinished()) == 1, f'a killed process leaves a file: {unfinished()}')

    others = ['frames-1.bin.77.3.tmp', 'notes.tmp', '12.tmp', 'a.1..tmp', 'tokens-2.bin.78.0.tmp']
    for name in others:
        with open(os.path.join(cache, name), 'w', encoding='ascii'):
            pass
    os.symlink(recipe, os.path.join(cache, 'link.79.0.tmp'))
    with open(os.path.join(cache, others[0]), 'rb') as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        folder.write('text.txt', 'so it is ' * 100)
        run(*arguments).expect(0)
        check(unfinished() == sorted(others[:4] + ['link.79.0.tmp']), f'left are {unfinished()}')
    check(os.path.exists(recipe), 'what a link leads to is left alone')
finish()
