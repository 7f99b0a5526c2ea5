"""Random templates: expressions and statements of every kind that chat templates have, over a few variables."""
import random

FILTERS = ['trim', 'upper', 'lower', 'capitalize', 'title', 'string', 'length', 'list', 'first', 'last', 'tojson', 'items | list',
           'dictsort', 'sort', 'unique | list', 'min', 'max', 'sum', 'int', 'float', 'abs', 'reverse | list', 'join', 'count', 'safe', 'e']
FILTERS_WITH = ['default({0})', 'default({0}, true)', 'join({0})', 'replace({0}, {1})', 'tojson(indent=2)', 'tojson(indent=none)', 'map(attribute={0}) | list',
                'map("upper") | list', 'selectattr({0}) | list', 'selectattr({0}, "equalto", {1}) | list', 'rejectattr({0}) | list',
                'select("string") | list', 'reject("none") | list', 'indent({0})', 'trim({0})', 'sort(reverse=true)', 'format({0})',
                'map("length") | list', 'select | list', 'sort(attribute={0})', 'tojson(sort_keys=true)',
                'tojson(ensure_ascii=true)', "tojson(separators=(',', ':'))", 'dictsort(by="value")', 'dictsort(true)']
TESTS = ['defined', 'undefined', 'none', 'string', 'mapping', 'sequence', 'iterable', 'number', 'boolean', 'true', 'false', 'integer',
         'float', 'odd', 'even', 'lower', 'upper', 'in ({0})', 'equalto({0})', 'eq ({0})', 'divisibleby({0})', 'callable', 'gt ({0})', 'not none']
METHODS = ['strip()', 'lstrip()', 'rstrip({0})', 'split({0})', 'split()', 'split({0}, 1)', 'rsplit({0}, 1)', 'upper()', 'lower()', 'title()',
           'capitalize()', 'startswith({0})', 'endswith({0})', 'replace({0}, {1})', 'items()', 'keys() | list', 'values() | list',
           'get({0})', 'get({0}, {1})', 'join({0})', 'find({0})', 'count({0})', 'index({0})', 'splitlines()', 'format({0}, {1})',
           'removeprefix({0})', 'removesuffix({0})', 'append({0})', 'isspace()', 'copy()', 'rfind({0})', 'strip({0})']
NAMES = ['s', 't', 'n', 'f', 'l', 'd', 'm', 'nothing', 'u', 'b', 'messages', 'nowhere', 'x']
STRINGS = ["'a'", "''", "' '", "'role'", "'content'", "'k'", "'a b'", "'%s-%d'", "'é'", "','", "'{} {}'", '"it\'s"', "'\\n'", "'1'", "'A'"]
BINARY = ['+', '-', '*', '/', '//', '%', '~', '==', '!=', '<', '<=', '>', '>=', 'in', 'not in', 'and', 'or']


class Templates:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.deepest = 3

    def number(self):
        return self.rng.choice(['0', '1', '2', '3', '-1', '10', '1.5', '2.0', '-2', '1e3', '7'])

    def filled(self, pattern, depth):
        return pattern.replace('{0}', self.expression(depth + 2)).replace('{1}', self.expression(depth + 2))

    def atom(self):
        rng = self.rng
        return rng.choice([rng.choice(NAMES), rng.choice(NAMES), rng.choice(STRINGS), self.number(),
                           rng.choice(['true', 'false', 'none', '[]', '{}', '()', 'loop.index', 'loop.last', 'ns.x'])])

    def expression(self, depth=0):
        rng = self.rng
        if depth > self.deepest or rng.random() < 0.3:
            return self.atom()
        inner = self.expression(depth + 1)
        kind = rng.randrange(13)
        if kind == 0:
            return f'({inner}) | {rng.choice(FILTERS)}'
        if kind == 1:
            return f'({inner}) | {self.filled(rng.choice(FILTERS_WITH), depth)}'
        if kind == 2:
            return f'(({inner}) is {self.filled(rng.choice(TESTS), depth)})'
        if kind == 3:
            return f'({inner}).{self.filled(rng.choice(METHODS), depth)}'
        if kind == 4:
            return f"({inner}){rng.choice(['.role', '.content', '.k', '.items', '.x', '[0]', '[-1]', '[1]', chr(91) + self.expression(depth + 2) + ']'])}"
        if kind == 5:
            bounds = [rng.choice(['', '', '0', '1', '2', '-1', '-2', '9']) for _ in range(2)]
            inner = rng.choice(NAMES)  # jinja2 computes slices of constants in another way than it runs them
            return f"({inner})[{bounds[0]}:{bounds[1]}{rng.choice(['', '', ':-1', ':2', ':-2', ':'])}]"
        if kind == 6:
            return f'({inner} if {self.expression(depth + 1)} else {self.expression(depth + 1)})'
        if kind == 7:
            return rng.choice(['not ', '-', '+', 'not ']) + f'({inner})'
        if kind == 8:
            return rng.choice([f'[{inner}, {self.expression(depth + 1)}]', f"{{'k': {inner}}}", f'({inner}, {self.atom()})', f'[{inner}]',
                               f"{{{rng.choice(STRINGS)}: {inner}, 'a': {self.atom()}}}"])
        if kind == 9:
            return f'range({self.number()}, {self.number()}) | list'
        left, right = inner, self.expression(depth + 1)
        text = f'{left} {rng.choice(BINARY)} {right}'
        return text if rng.random() < 0.3 else f'({text})'

    def tag(self, inner):
        rng = self.rng
        return '{%' + rng.choice(['', '', '-', '+']) + f' {inner} ' + rng.choice(['', '', '-', '+']) + '%}' + rng.choice(['', '\n', ' ', '\n  '])

    def output(self):
        rng = self.rng
        return '{{' + rng.choice(['', '-']) + f' {self.expression()} ' + rng.choice(['', '-']) + '}}'

    def statement(self, depth=0):
        rng = self.rng
        kind = rng.randrange(14) if depth < 3 else rng.randrange(4)
        if kind < 3:
            return self.output()
        if kind == 3:
            return rng.choice(['x', ' \n', '\n', '  ', 'é ', '{# c #}\n', '{#- c -#} ', 'a{'])
        body = self.statements(depth + 1)
        if kind == 4:
            return self.tag(f'if {self.expression()}') + body + self.tag('endif')
        if kind == 5:
            return (self.tag(f'if {self.expression()}') + body + self.tag(f'elif {self.expression()}') + self.statements(depth + 1)
                    + self.tag('else') + self.statements(depth + 1) + self.tag('endif'))
        if kind in (6, 7):
            head = rng.choice([f'for i in {self.expression()}', 'for i in l', 'for m in messages', 'for k, v in d.items()',
                               f'for i in l if {self.expression()}', 'for i in range(3)'])
            leave = self.tag(f'if {self.expression()}') + self.tag(rng.choice(['break', 'continue'])) + self.tag('endif')
            other = self.tag('else') + self.statements(depth + 1) if rng.random() < 0.3 else ''
            return self.tag(head) + body + (leave if rng.random() < 0.3 else '') + self.statements(depth + 1) + other + self.tag('endfor')
        if kind == 8:
            return self.tag(f"set {rng.choice(['x', 'y', 'ns.x'])} = {self.expression()}")
        if kind == 9:
            return self.tag(f"set {rng.choice(['x', 'y', 'ns.x', 'x | upper'])}") + body + self.tag('endset')
        if kind == 10:
            return (self.tag(rng.choice(['macro f2(a, b=1)', 'macro f2(a)', "macro f2(a, b='x', c=none)"])) + body + '{{ a }}{{ b }}' + self.tag('endmacro')
                    + f'{{{{ f2({self.expression()}) }}}}' + rng.choice(['', f'{{{{ f2({self.atom()}, {self.atom()}) }}}}', f'{{{{ f2(b={self.atom()}, a=2) }}}}']))
        if kind == 11 and depth == 0:
            return self.tag('generation') + body + self.tag('endgeneration')
        if kind == 12:
            return self.tag('filter ' + rng.choice(['upper', 'trim', 'lower', 'trim | title'])) + body + self.tag('endfilter')
        return self.output()

    def statements(self, depth):
        return ''.join(self.statement(depth) for _ in range(self.rng.randint(1, 2)))

    def template(self):
        self.deepest = self.rng.randint(0, 3)  # most of what is deep is refused for its types
        return '{% set ns = namespace(x=1) %}' + ''.join(self.statement() for _ in range(self.rng.randint(1, 2)))


VARIABLES = {'s': 'Hello wOrld-x', 't': ' a,b\n\té ', 'n': 3, 'f': 2.5, 'l': [3, 'b', 1.0, None, 'a'], 'd': {'k': 1, 'B': [1], 'a': 'x'},
             'm': {'role': 'user', 'content': 'hi', 'items': 5}, 'nothing': None, 'b': True,
             'messages': [{'role': 'user', 'content': 'q\n'}, {'role': 'assistant', 'content': None}, {'role': 'tool', 'content': ['x', {'k': ''}]}]}
