'use strict';
// The page's data: columns of whole numbers as report/columns.h writes them, and names as report/names.h does.
// All numbers of a column.
function unpack(text) {
  const bytes = atob(text), out = [];
  let at = 0;
  const next = () => {
    let value = 0, scale = 1;
    for (;;) {
      const byte = bytes.charCodeAt(at++);
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  };
  while (at < bytes.length) {
    for (let literals = next(); literals > 0; literals--) out.push(next());
    if (at >= bytes.length) break;
    for (let length = next(), back = next(); length > 0; length--) out.push(out[out.length - back]);
  }
  return out;
}

function signed(value) { return value % 2 ? -(value + 1) / 2 : value / 2; }

function column(text, scale = 1) { return Float64Array.from(unpack(text), (v) => v * scale); }

// Numbers written as differences.
function rising(text, scale = 1) {
  let value = 0;
  return Float64Array.from(unpack(text), (v) => (value += signed(v)) * scale);
}

// A list of names, each made when it is needed.
class Names {
  constructor(patterns, [which, numbers]) {
    this.patterns = patterns;
    this.which = unpack(which);
    this.count = this.which.length;
    this.starts = new Uint32Array(this.count);
    this.numbers = unpack(numbers);
    const before = [];
    for (let i = 0, at = 0; i < this.count; i++) {
      this.starts[i] = at;
      for (let k = 0, holes = patterns[this.which[i]].length - 1; k < holes; k++, at++) this.numbers[at] = before[k] = (before[k] || 0) + signed(this.numbers[at]);
    }
  }
  at(i) {
    const pieces = this.patterns[this.which[i]];
    let name = pieces[0];
    for (let k = 1; k < pieces.length; k++) name += this.numbers[this.starts[i] + k - 1] + pieces[k];
    return name;
  }
}

// A layout (report/layout.h), each part read when it is first asked for.
class Layout {
  constructor(data) { this.data = data; this.unit = data.unit; this.kept = new Map(); }
  keep(key, make) {
    if (!this.kept.has(key)) this.kept.set(key, make());
    return this.kept.get(key);
  }
  get tiers() { return this.data.tiers; }
  get programs() { return this.data.programs; }
  get categories() { return this.data.categories; }
  get buffers() {
    return this.keep('buffers', () => {
      const b = this.data.buffers, n = b.count, names = this.data.names;
      return {
        count: n, name: new Names(names, b.name), module: new Names(names, b.module), shape: new Names(names, b.shape),
        tier: column(b.tier), category: column(b.category), program: column(b.program), owner: column(b.owner),
        bytes: column(b.bytes, this.unit), offset: rising(b.offset, this.unit), first: rising(b.first),
        length: column(b.length), home: rising(b.home),
      };
    });
  }
  // What the nodes of a program are.
  nodes(program) {
    return this.keep('nodes ' + program, () => {
      const p = this.programs[program], names = this.data.names;
      return { op: new Names(names, p.what.op), module: new Names(names, p.what.module), phase: column(p.what.phase) };
    });
  }
  // When each node begins on the stream of kernels, and when the program ends: nodes + 1 numbers.
  times(program) {
    return this.keep('times ' + program, () => {
      const count = Math.max(1, this.programs[program].nodes), out = new Float64Array(count + 1), s = this.stream(program, 0);
      let node = 0, end = 0;
      for (let i = 0; i < s.count; i++) {
        while (node <= s.node[i]) out[node++] = s.begin[i];
        end = s.end[i];
      }
      while (node < count) out[node++] = end;
      out[count] = Math.max(end, this.programs[program].seconds);
      return out;
    });
  }
  // Series of bytes over the nodes; `by` is 'categories' or 'owners'. The last two are gaps and fixed costs.
  areas(tier, program, by) {
    return this.keep(['areas', tier, program, by].join(' '), () => {
      const count = Math.max(1, this.programs[program].nodes), from = this.tiers[tier];
      const series = from.programs[program][by].map(([on, by]) => {
        const out = new Float64Array(count), nodes = unpack(on), changes = unpack(by);
        let value = 0, at = 0;
        for (let i = 0; i < nodes.length; i++) {
          out.fill(value, at, at + nodes[i]);
          at += nodes[i];
          value += signed(changes[i]) * this.unit;
        }
        out.fill(value, at);
        return out;
      });
      series.push(new Float64Array(count).fill(from.fixed_bytes));
      return series;
    });
  }
  // Spans of a stream: node, begin and end in seconds, whether it waits.
  stream(program, stream) {
    return this.keep(['stream', program, stream].join(' '), () => {
      const s = this.programs[program].streams[stream], n = s.count;
      const node = rising(s.node), idle = column(s.idle), length = column(s.length);
      const begin = new Float64Array(n), end = new Float64Array(n), waits = new Uint8Array(n);
      for (let i = 0, at = 0; i < n; i++) {
        waits[i] = length[i] % 2;
        begin[i] = (at + idle[i]) / 1e9;
        at += idle[i] + Math.floor(length[i] / 2);
        end[i] = at / 1e9;
      }
      return { count: n, node, begin, end, waits };
    });
  }
}
