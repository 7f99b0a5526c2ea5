"""A small checker for docs/schema.json: the words of JSON Schema that the file uses, and no others. A property that the
schema does not know is a fault here, although readers of the output may ignore it."""
import json
import os

from support import ROOT, check

with open(os.path.join(ROOT, 'docs', 'schema.json'), encoding='utf-8') as file:
    SCHEMA = json.load(file)
WORDS = {'$ref', 'anyOf', 'enum', 'type', 'minimum', 'required', 'properties', 'items', 'additionalProperties'}
TYPES = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'null': type(None)}


def is_type(value, name):
    if isinstance(name, list):
        return any(is_type(value, one) for one in name)
    if name == 'integer':
        return isinstance(value, int) and not isinstance(value, bool)
    if name == 'number':
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def faults(value, schema, place='$'):
    """What is wrong with a value, as a list of texts."""
    unknown = set(schema) - WORDS
    if unknown:
        return [f'{place}: the checker does not know {sorted(unknown)}']
    if '$ref' in schema:
        beside = {word: rest for word, rest in schema.items() if word != '$ref'}
        return faults(value, SCHEMA['$defs'][schema['$ref'].removeprefix('#/$defs/')], place) + faults(value, beside, place)
    if 'anyOf' in schema:
        tries = [faults(value, one, place) for one in schema['anyOf']]
        return [] if any(not found for found in tries) else min(tries, key=len)
    if 'enum' in schema and value not in schema['enum']:
        return [f'{place}: {value!r} is none of {schema["enum"]}']
    if 'type' in schema and not is_type(value, schema['type']):
        return [f'{place}: {value!r} is no {schema["type"]}']
    found = []
    if 'minimum' in schema and value < schema['minimum']:
        found.append(f'{place}: {value} is below {schema["minimum"]}')
    found += [f'{place}: {key} is missing' for key in schema.get('required', []) if key not in value]
    if 'properties' in schema:
        for key, below in value.items():
            known = schema['properties'].get(key)
            found += faults(below, known, f'{place}.{key}') if known is not None else [f'{place}: unknown {key}']
    if 'additionalProperties' in schema:
        for key, below in value.items():
            found += faults(below, schema['additionalProperties'], f'{place}.{key}')
    for i, item in enumerate(value if 'items' in schema else []):
        found += faults(item, schema['items'], f'{place}[{i}]')
    return found


def conforms(value, name, what):
    """A check as any other."""
    wrong = faults(value, SCHEMA['$defs'][name])
    return check(not wrong, f'{what} is not as docs/schema.json says of {name}: {wrong[:5]}')
