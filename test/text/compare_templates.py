#!/usr/bin/env python3
"""Renders public chat templates with random conversations, once by jinja2 as transformers sets it up and once by
headroom, and compares every byte and every range of {% generation %}. An error of one must be an error of the other.

    compare_templates.py RENDERER FOLDER [--count 1000] [--seed 1] [--only TEXT]
    compare_templates.py RENDERER --random COUNT [--seed 1]

RENDERER is build/render_template; FOLDER has templates as *.jinja (models/templates of llama.cpp, trl/chat_templates of
trl, examples of vLLM). With --random COUNT instead, COUNT templates are made up (random_templates.py), of which those that
headroom calls unsupported are counted, not compared. Needs the Python package jinja2."""
import argparse
import datetime
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox

import random_templates

NOW = 1767323045  # 2026-01-02 03:04:05 UTC


class Generation(jinja2.ext.Extension):
    """{% generation %}: notes where what it makes lies in the text."""
    tags = {'generation'}

    def __init__(self, environment):
        super().__init__(environment)
        environment.extend(blocks=[], ranges=[])

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method('_note'), [], [], body).set_lineno(line)

    def _note(self, caller):
        made = caller()
        begin = len(''.join(self.environment.blocks))
        self.environment.ranges.append((begin, begin + len(made)))
        return made


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW).strftime(form)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters['tojson'] = tojson
    made.globals['raise_exception'] = raise_exception
    made.globals['strftime_now'] = strftime_now
    return made


def reference(env, template, variables):
    """(text, ranges in bytes), or None where it fails."""
    env.blocks[:] = []
    env.ranges[:] = []
    try:
        for block in template.generate(**variables):
            env.blocks.append(block)
    except Exception as error:  # whatever Python finds wrong
        return None, f'{type(error).__name__}: {error}'
    text = ''.join(env.blocks)
    ranges = [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in env.ranges]
    return (text, ranges), None


WORDS = ['hello', 'what', 'is', 'the', 'weather', 'in', 'Zürich', '東京', '🙂', '\u00a0', '<think>', '</think>', 'a\nb', '  ', '\t',
         '"quoted"', "it's", '\\', '{{x}}', '{%', '<|im_end|>', 'é', 'ΑΣ', 'ß', '\u200b', '\u2028', '\x1f', '\x7f', '1.5', '{"a": 1}',
         '<tool_call>', '\n\n', 'I am', 'ǅ', '[', ']', '&', '<b>', 'None']
NAMES = ['get_weather', 'search', 'run', 'ipython', 'python', 'browser', 'Größe']


class Conversations:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.style = 'any'

    def text(self):
        if self.rng.random() < 0.1:
            return ''
        count = self.rng.randint(1, 6)
        return self.rng.choice(['', '', ' ']).join(self.rng.choice(WORDS) + self.rng.choice(['', ' ', '\n'])
                                                  for _ in range(count))

    def value(self, depth=0):
        kind = self.rng.random()
        if depth < 2 and kind < 0.2:
            return {self.rng.choice(['a', 'B', 'c d', 'items', 'é', 'type', 'location']): self.value(depth + 1)
                    for _ in range(self.rng.randint(0, 3))}
        if depth < 2 and kind < 0.35:
            return [self.value(depth + 1) for _ in range(self.rng.randint(0, 3))]
        return self.rng.choice([None, True, False, 0, -1, 7, 2**53, 1.5, 2.0, 1e20, 1e-7, 0.1, self.text(), 'x'])

    def arguments(self):
        return {name: self.value() for name in self.rng.sample(['location', 'unit', 'n', 'Q', 'items', 'k'],
                                                               self.rng.randint(0, 3))}

    def schema(self):
        rng = self.rng
        kind = rng.choice(['string', 'integer', 'number', 'boolean', 'array', 'object', ['string', 'null']])
        made = {'type': kind}
        if rng.random() < 0.7:
            made['description'] = self.text()
        if rng.random() < 0.2:
            made['enum'] = [self.text() for _ in range(rng.randint(0, 3))]
        if kind == 'array' and rng.random() < 0.8:
            made['items'] = {'type': 'string'}
        if kind == 'object' and rng.random() < 0.8:
            made['properties'] = {'x': {'type': 'integer'}}
        if rng.random() < 0.1:
            made['default'] = self.value()
        if rng.random() < 0.1:
            made['nullable'] = True
        return made

    def tool(self):
        names = self.rng.sample(['location', 'unit', 'n', 'query'], self.rng.randint(0, 3))
        function = {'name': self.rng.choice(NAMES), 'description': self.text(),
                    'parameters': {'type': 'object', 'properties': {name: self.schema() for name in names},
                                   'required': names[:self.rng.randint(0, len(names))]}}
        if self.rng.random() < 0.15:
            del function['parameters'][self.rng.choice(['required', 'properties', 'type'])]
        if self.rng.random() < 0.15:
            function['return'] = {'type': 'string', 'description': self.text()}
        return {'type': 'function', 'function': function} if self.rng.random() < 0.9 else function

    def call(self):
        arguments = self.arguments()
        function = {'name': self.rng.choice(NAMES),
                    'arguments': json.dumps(arguments) if self.rng.random() < 0.25 else arguments}
        if self.rng.random() < 0.1:
            return function
        made = {'type': 'function', 'function': function}
        if self.rng.random() < 0.7:
            made['id'] = self.rng.choice(['call_1', 'abcdefghi', 'a'])
        return made

    def content(self):
        if self.style == 'plain':
            return self.text()
        if self.style == 'parts':
            return [{'type': 'text', 'text': self.text()} for _ in range(self.rng.randint(1, 2))]
        chance = self.rng.random()
        if chance < 0.02:
            return None
        if chance < 0.06:
            return [self.rng.choice([{'type': 'text', 'text': self.text()}, {'type': 'image'},
                                     {'type': 'image_url', 'image_url': {'url': 'x'}}, self.text(),
                                     {'text': self.text()}]) for _ in range(self.rng.randint(0, 3))]
        if chance < 0.065:
            return self.value()
        return self.text()

    def message(self, role):
        rng = self.rng
        made = {'role': role}
        if self.style != 'any':
            return made | {'content': self.content()}
        if rng.random() < 0.99:
            made['content'] = self.content()
        if role == 'assistant' and rng.random() < 0.3:
            made['tool_calls'] = [self.call() for _ in range(rng.randint(0 if rng.random() < 0.2 else 1, 2))]
        if role == 'assistant' and rng.random() < 0.2:
            made[rng.choice(['reasoning_content', 'thinking', 'reasoning'])] = rng.choice([self.text(), None])
        if role == 'tool' and rng.random() < 0.8:
            made['tool_call_id'] = rng.choice(['call_1', 'abcdefghi'])
        if rng.random() < (0.7 if role == 'tool' else 0.05):
            made['name'] = rng.choice(NAMES)
        if rng.random() < 0.05:
            made['tool_calls'] = None
        return made

    def messages(self):
        rng = self.rng
        self.style = rng.choice(['any', 'any', 'any', 'plain', 'parts'])  # the last two: what every template takes
        if self.style != 'any':
            roles = (['user', 'assistant'] * rng.randint(1, 3))[:rng.randint(1, 6)]
        elif rng.random() < 0.15:  # in any order
            roles = [rng.choice(['system', 'user', 'assistant', 'tool', 'developer', 'ipython', 'context'])
                     for _ in range(rng.randint(0, 5))]
        else:
            roles = ['system'] if rng.random() < 0.4 else []
            for _ in range(rng.randint(1, 3)):
                roles += ['user', 'assistant']
                if rng.random() < 0.3:
                    roles += ['tool'] * rng.randint(1, 2) + ['assistant']
            if rng.random() < 0.5:
                roles = roles[:-1]
        return [self.message(role) for role in roles]

    def variables(self):
        rng = self.rng
        made = {'messages': self.messages(), 'add_generation_prompt': rng.random() < 0.5, 'tools': None, 'documents': None,
                'bos_token': '<s>', 'eos_token': '</s>', 'pad_token': '<pad>', 'unk_token': '<unk>'}
        if rng.random() < 0.4:
            made['tools'] = [self.tool() for _ in range(rng.randint(0 if rng.random() < 0.2 else 1, 2))]
        if rng.random() < 0.05:
            made['documents'] = [{'title': self.text(), 'text': self.text(), 'doc_id': rng.randint(0, 9)}]
        for name, values in {'functions': [made['tools'], self.text()], 'datetime': [self.text()], 'enable_thinking': [True, False], 'thinking': [True, False], 'date_string': ['26 Jul 2024'],
                             'reasoning_effort': ['low', 'high'], 'custom_tools': [made['tools']], 'tools_in_user_message': [True, False],
                             'builtin_tools': [['code_interpreter'], None], 'controls': [{'length': 'long'}],
                             'keep_past_thinking': [True], 'xml_tools': [made['tools']], 'add_vision_id': [True]}.items():
            if rng.random() < 0.12:
                made[name] = rng.choice(values)
        return made


class Renderer:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, path, variables):
        request = json.dumps({'template': path, 'variables': variables, 'now': NOW})
        self.process.stdin.write(request.encode() + b'\n')
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f'the renderer died on {request}')
        return json.loads(line)


class Tally:
    """What was compared, with the first differences of each template shown."""

    def __init__(self):
        self.same = self.refused = self.unsupported = self.differ = self.ranges = 0

    def compare(self, label, wanted, why, got, unsupported_counts, quiet=False):
        """Whether they agree."""
        if wanted is None and 'error' in got:
            self.refused += 1
        elif unsupported_counts and got.get('unsupported'):
            self.unsupported += 1
        elif wanted is not None and got.get('text') == wanted[0] and got['ranges'] == wanted[1]:
            self.same += 1
            self.ranges += len(wanted[1])
        else:
            self.differ += 1
            if not quiet:
                print(f'{label}\n  jinja2:   {why or wanted}\n  headroom: {got}')
            return False
        return True

    def __str__(self):
        return (f'{self.same} renderings the same ({self.ranges} ranges), {self.refused} refused by both, '
                f'{self.unsupported} unsupported, {self.differ} differ')


def parsed(text):
    """(environment, template, None), or why jinja2 refuses it."""
    env = environment()
    try:
        return env, env.from_string(text), None
    except Exception as error:  # constants are computed here already
        return env, None, f'{type(error).__name__}: {error}'


def compare_public(args, renderer, tally):
    paths = [p for p in sorted(glob.glob(os.path.join(args.folder, '*.jinja'))) if args.only in p]
    for number, path in enumerate(paths):
        with open(path, encoding='utf-8') as file:
            env, template, refused = parsed(file.read())
        source = Conversations(args.seed * 1000003 + number)
        shown, before = 0, tally.same
        for _ in range(args.count):
            variables = source.variables()
            wanted, why = (None, refused) if refused else reference(env, template, variables)
            label = f'{os.path.basename(path)}: {json.dumps(variables)}'
            shown += not tally.compare(label, wanted, why, renderer.render(path, variables), False, shown >= 3)
        if tally.same == before:
            print(f'{os.path.basename(path)}: refused whatever the conversation: {why}')
    return f'{len(paths)} templates'


def compare_random(args, renderer, tally):
    source = random_templates.Templates(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.random):
            text = source.template()
            path = os.path.join(folder, f'{number}.jinja')
            with open(path, 'w', encoding='utf-8', newline='') as file:
                file.write(text)
            env, template, refused = parsed(text)
            wanted, why = (None, refused) if refused else reference(env, template, random_templates.VARIABLES)
            got = renderer.render(path, random_templates.VARIABLES)
            tally.compare(repr(text), wanted, why, got, True, tally.differ >= 20)
            os.unlink(path)
    return f'{args.random} made up'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('renderer')
    parser.add_argument('folder', nargs='?')
    parser.add_argument('--count', type=int, default=1000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', default='')
    parser.add_argument('--random', type=int, default=0)
    args = parser.parse_args()
    if not args.random and not args.folder:
        parser.error('name a folder of templates, or --random COUNT')
    os.environ['TZ'] = 'UTC'
    warnings.simplefilter('ignore')  # of code that jinja2 makes
    renderer = Renderer(args.renderer)
    tally = Tally()
    print(f'{(compare_random if args.random else compare_public)(args, renderer, tally)}: {tally}')
    return 1 if tally.differ or not tally.same else 0


sys.exit(main())
