"""Configs of all kinds for the tests of apply: those in configs/, written by hand with ⟦old|new⟧ around each value that a
plan changes, and those of a generator that writes the config before and after side by side. Neither asks a parser."""
import os
import random
import re

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'configs')

# What is applied: one value of every kind of setting.
RECIPE = """\
model:
  family: llama
  config: { hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4,
            num_key_value_heads: 2, vocab_size: 256 }
  precision: bf16-mixed
  adapters: { kind: lora, rank: 4, alpha: 8, dropout: 0.05 }
data: { source: synthetic, sequence_length: 64 }
training:
  batch_size: 4
  effective_batch: 32
  steps: 8
  optimizer: { kind: adamw8bit, lr: 1e-3 }
memory: { checkpoint: every-layer, offload: { optimizer: host } }
"""


def sides(text):
    """Before and after, of a text with marks."""
    return [re.sub(r'⟦(.*?)\|(.*?)⟧', rf'\{side}', text, flags=re.S).encode() for side in (1, 2)]


def by_hand():
    """(name, kind, before, after) of every file in the folder, in several layouts."""
    for name in sorted(os.listdir(FOLDER)):
        with open(os.path.join(FOLDER, name), encoding='utf-8', newline='') as file:
            text = file.read()
        kind = next(kind for kind in KINDS if name.startswith(kind))
        layouts = {'': text, 'crlf-': text.replace('\n', '\r\n'), 'bom-': '\ufeff' + text,
                   'cut-': text.rstrip('\n'), 'all-': '\ufeff' + text.rstrip('\n').replace('\n', '\r\n')}
        if not name.endswith('.json'):
            layouts['head-'] = '# größer 漢字 😀 batch_size: 1\n' + text
            layouts['doc-'] = '%YAML 1.1\n--- # é\n' + text + ('...\n' if text.endswith('\n') else '\n...\n')
        for layout, marked in layouts.items():
            yield layout + name, kind, *sides(marked)


# Keys of each kind that the recipe has a value for: path, what stands there before, and after.
NUMBER, TEXT, BOOL = 'number', 'text', 'bool'
KINDS = {
    'lightning': [('data_loader.batch_size', NUMBER, '45', '4'), ('data_loader.tokenization.max_length', NUMBER, '512', '64'),
                  ('model.lora.r', NUMBER, '16', '4'), ('model.gradient_checkpointing', BOOL, False, True),
                  ('training.trainer.precision', TEXT, '16-mixed', 'bf16-mixed'),
                  ('training.trainer.accumulate_grad_batches', NUMBER, '5', '8')],
    'gestures': [('DATA.dataloader.batch_size', NUMBER, '2', '4'), ('TRAINING.precision', TEXT, '16-mixed', 'bf16-mixed'),
                 ('MODEL.model_init_args.use_checkpoint', BOOL, False, True),
                 ('OPTIMIZER.gradient_accumulation.scheduling.0', NUMBER, '4', '8')],
    'huggingface': [('per_device_train_batch_size', NUMBER, '16', '4'), ('gradient_accumulation_steps', NUMBER, '2', '8'),
                    ('bf16', BOOL, False, True), ('fp16', BOOL, True, False), ('gradient_checkpointing', BOOL, False, True),
                    ('optim', TEXT, 'adafactor', 'adamw_bnb_8bit'), ('max_seq_length', NUMBER, '2048', '64')],
    'torchtune': [('batch_size', NUMBER, '2', '4'), ('gradient_accumulation_steps', NUMBER, '16', '8'),
                  ('enable_activation_checkpointing', BOOL, False, True), ('model.lora_rank', NUMBER, '32', '4'),
                  ('optimizer._component_', TEXT, 'torch.optim.AdamW', 'bitsandbytes.optim.AdamW8bit'),
                  ('tokenizer.max_seq_len', NUMBER, '8192', '64')],
    'axolotl': [('micro_batch_size', NUMBER, '2', '4'), ('gradient_accumulation_steps', NUMBER, '16', '8'),
                ('sequence_len', NUMBER, '4096', '64'), ('lora_r', NUMBER, '32', '4'), ('bf16', BOOL, False, True),
                ('gradient_checkpointing', BOOL, False, True), ('optimizer', TEXT, 'lion_8bit', 'adamw_bnb_8bit')],
    'llama-factory': [('per_device_train_batch_size', NUMBER, '1', '4'), ('gradient_accumulation_steps', NUMBER, '4', '8'),
                      ('cutoff_len', NUMBER, '2048', '64'), ('lora_rank', NUMBER, '8', '4'), ('bf16', BOOL, False, True),
                      ('disable_gradient_checkpointing', BOOL, True, False)],
    'deepspeed': [('train_micro_batch_size_per_gpu', NUMBER, '1', '4'), ('gradient_accumulation_steps', NUMBER, '16', '8'),
                  ('bf16.enabled', BOOL, False, True),
                  ('fp16.enabled', BOOL, True, False),
                  ('zero_optimization.offload_optimizer.device', TEXT, 'none', 'cpu')],
    'accelerate': [('deepspeed_config.gradient_accumulation_steps', NUMBER, '1', '8'), ('mixed_precision', TEXT, 'fp16', 'bf16'),
                   ('deepspeed_config.offload_optimizer_device', TEXT, 'none', 'cpu')],
    'headroom': [('training.batch_size', NUMBER, '1', '4'), ('training.effective_batch', NUMBER, '16', '32'),
                 ('model.precision', TEXT, '32-true', 'bf16-mixed'), ('data.sequence_length', NUMBER, '8', '64'),
                 ('training.optimizer.kind', TEXT, 'adamw', 'adamw8bit'), ('memory.checkpoint', TEXT, 'none', 'every-layer')],
}
LEFT = object()  # a value that must not be touched


class Writer:
    """Writes the same config twice, before and after, from one stream of random choices."""

    def __init__(self, seed, kind, json):
        self.random = random.Random(seed)
        self.kind, self.json = kind, json
        self.before, self.after = [], []
        self.left = 0
        self.tree = {}
        for path, *value in KINDS[kind]:
            section = self.tree
            *folders, last = path.split('.')
            for folder in folders:
                section = section.setdefault(folder, {})
            section[last] = tuple(value)
        self.decoys = [path.split('.')[-1] for path, *_ in KINDS[kind]]

    def pick(self, *choices):
        return self.random.choice(choices)

    def put(self, before, after=None):
        self.before.append(before)
        self.after.append(before if after is None else after)

    def key(self, name, flow):
        if self.json:
            return f'"{name}"'
        return self.pick(name, name, f'"{name}"', f"'{name}'") if not flow else self.pick(name, f'"{name}"')

    def scalar(self, kind, old, new, flow):
        """Puts a value behind its colon, with the space before it."""
        space = self.pick(' ', '  ') if not self.json else self.pick(' ', '', '  ', '\t', '\n ')
        if self.pick(*range(12)) == 0:
            self.left += 1
            self.put(space + '"${somewhere.else}"')
            return
        if kind == NUMBER:
            follows = self.kind in ('deepspeed', 'accelerate')  # its auto is what the trainer's arguments say
            forms = [(old, new), (f'"{old}"', f'"{new}"'), ('"auto"', '"auto"' if follows else new), ('null', new)]
            if not self.json:
                forms += [(f"'{old}'", f"'{new}'"), ('~', new), ('auto', 'auto' if follows else new), (f'&own {old}', f'&own {new}')]
        elif kind == BOOL:
            words = [('false', 'true')]
            if not self.json:
                words += [('False', 'True'), ('no', 'yes'), ('OFF', 'ON'), ('"false"', '"true"')]
            forms = [(pair[old], pair[new]) for pair in words]
        else:
            forms = [(f'"{old}"', f'"{new}"')]
            if not self.json:
                forms += [(old, new), (f"'{old}'", f"'{new}'")]
        if not self.json and not flow and self.pick(*range(10)) == 0 and kind != BOOL:
            self.put('', ' ' + new)  # nothing yet: the value goes right behind the colon
            return
        before, after = self.pick(*forms)
        self.put(space + before, space + after)

    def decoy(self, depth, flow):
        """Something else that looks much alike; a line of its own in a block."""
        name = self.pick(*self.decoys)
        other = f'other_{self.random.randrange(10**6)}'
        if self.json or flow:
            inner = self.key(name, True)
            return f'{self.key(other, True)}: ' + self.pick('"é漢😀: }{,"', f'[1, {{{inner}: 77}}, "x"]', f'{{{inner}: 77}}', '2e-5')
        pad = '  ' * (depth + 1)
        return other + self.pick(f': # {name}: 77\n{pad}{name}: 77', f':\n{pad}- {name}: 77\n{pad}- [1, {{{name}: 77}}]',
                                 f': |\n{pad} {name}: 77\n\n{pad} {name}: 78\n', f': "{name}: 77 # é漢😀"   # {name}: 1',
                                 f": 'it''s {name}: 77'", f': {{{name}: 77, list: [ a, b ]}}', f': plain {name} words',
                                 f': !custom {{{name}: 77}}', ': {}', ':', f': "long\n{pad}  {name}: 1"')

    def flow(self, tree, depth):
        gap = self.pick(' ', '', '  ') if not self.json else self.pick('\n' + '  ' * depth, ' ', '', '\n\t')
        if not self.json and self.pick(0, 1, 2) == 0:
            gap = '\n' + ' ' * (4 * depth + 6)
        self.put('{' + gap)
        first = True
        for name, value in self.shuffled(tree):
            if not first:
                self.put(',' + (gap if gap else self.pick('', ' ')))
            first = False
            if name is None:
                self.put(self.decoy(depth, True))
                continue
            self.put(self.key(name, True) + (self.pick('', ' ') if self.json else '') + ':')
            if isinstance(value, dict):
                self.put(' ')
                self.flow(value, depth + 1)
            else:
                self.scalar(*value, True)
        self.put(gap + '}')

    def shuffled(self, tree):
        items = list(tree.items()) + [(None, None)] * self.random.randrange(3)
        self.random.shuffle(items)
        return items

    def block(self, tree, depth, width):
        pad = ' ' * (width * depth)
        for name, value in self.shuffled(tree):
            self.put(self.pick('', '', '', '\n', pad + '# größer: 漢字 batch_size: 3\n', '      # far out\n'))
            if name is None:
                self.put(pad + self.decoy(max(width * depth, 1), False).lstrip() + '\n')
                continue
            self.put(pad + self.key(name, False) + self.pick('', '', ' ') + ':')
            if not isinstance(value, dict):
                self.scalar(*value, False)
                self.put(self.pick('', '  # why: 5', '\t# tab', '   ') + '\n')
            elif self.pick(0, 1, 2) == 0:
                self.put(' ')
                self.flow(value, depth + 1)
                self.put(self.pick('', ' # flow') + '\n')
            else:
                self.put(self.pick('', ' # section', ' &sec%d' % self.random.randrange(10**6)) + '\n')
                self.block(value, depth + 1, width)

    def write(self):
        if self.json:
            self.put(self.pick('', '\n', '  '))
            self.flow(self.tree, 1)
            self.put(self.pick('', '\n', '\n\n'))
        else:
            self.put(self.pick('', '# head\n', '---\n', '%YAML 1.1\n---\n', '\n\n'))
            self.block(self.tree, 0, self.pick(1, 2, 3, 4, 8))
            self.put(self.pick('', '# tail\n', '...\n'))
        texts = [''.join(side) for side in (self.before, self.after)]
        if self.pick(0, 1, 2) == 0:
            texts = [text.replace('\n', '\r\n') for text in texts]
        if self.pick(0, 1, 2, 3) == 0:
            texts = ['\ufeff' + text for text in texts]
        return [text.encode() for text in texts]


def generated(count):
    """(name, kind, before, after, number of values that are to be left alone)"""
    kinds = list(KINDS)
    for seed in range(count):
        kind = kinds[seed % len(kinds)]
        json = kind == 'deepspeed' or seed % 3 == 2
        writer = Writer(seed, kind, json)
        before, after = writer.write()
        yield f'generated-{seed}.{"json" if json else "yaml"}', kind, before, after, writer.left
