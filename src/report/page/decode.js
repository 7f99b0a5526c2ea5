'use strict';
// The page's data: columns of whole numbers as report/columns.h writes them, and names as report/names.h does.
// All numbers of a column; `count` is how many there are, where that is known.
function unpack(text, count) {
  const bytes = atob(text), length = bytes.length;
  let out = new Float64Array(count ?? 1024), at = 0, n = 0;
  const next = () => {
    let byte = bytes.charCodeAt(at++);
    if (byte < 128) return byte;
    let value = byte & 127, scale = 128;
    do {
      byte = bytes.charCodeAt(at++);
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte >= 128);
    return value;
  };
  const room = (more) => {
    if (n + more <= out.length) return;
    const larger = new Float64Array(Math.max(2 * out.length, n + more));
    larger.set(out);
    out = larger;
  };
  while (at < length) {
    const literals = next();
    room(literals);
    for (const end = n + literals; n < end; n++) out[n] = next();
    if (at >= length) break;
    const copied = next(), back = next();
    room(copied);
    for (const end = n + copied; n < end; n++) out[n] = out[n - back];
  }
  return n === out.length ? out : out.subarray(0, n);
}

function signed(value) { return value % 2 ? -(value + 1) / 2 : value / 2; }

function column(text, count, scale = 1) {
  const out = unpack(text, count);
  if (scale !== 1) for (let i = 0; i < out.length; i++) out[i] *= scale;
  return out;
}

// Numbers written as differences.
function rising(text, count, scale = 1) {
  const out = unpack(text, count);
  for (let i = 0, value = 0; i < out.length; i++) { value += signed(out[i]); out[i] = value * scale; }
  return out;
}

// A list of names, each made when it is needed.
class Names {
  constructor(patterns, [which, numbers], count) {
    this.patterns = patterns;
    this.which = unpack(which, count);
    this.count = this.which.length;
    this.starts = new Uint32Array(this.count);
    const list = this.numbers = unpack(numbers), before = new Float64Array(16), holes = patterns.map((pieces) => pieces.length - 1);
    for (let i = 0, at = 0; i < this.count; i++) {
      this.starts[i] = at;
      for (let k = 0, end = holes[this.which[i]]; k < end; k++, at++) list[at] = before[k] += signed(list[at]);
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
        count: n, name: new Names(names, b.name, n), module: new Names(names, b.module, n), shape: new Names(names, b.shape, n),
        tier: column(b.tier, n), category: column(b.category, n), program: column(b.program, n), owner: column(b.owner, n),
        bytes: column(b.bytes, n, this.unit), offset: rising(b.offset, n, this.unit), first: rising(b.first, n),
        length: column(b.length, n), home: rising(b.home, n),
      };
    });
  }
  // What the nodes of a program are.
  phase(program) { return this.keep('phase ' + program, () => column(this.programs[program].what.phase, this.programs[program].nodes)); }
  ops(program) { return this.keep('ops ' + program, () => new Names(this.data.names, this.programs[program].what.op, this.programs[program].nodes)); }
  modules(program) { return this.keep('modules ' + program, () => new Names(this.data.names, this.programs[program].what.module, this.programs[program].nodes)); }
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
      const node = rising(s.node, n), idle = column(s.idle, n), length = column(s.length, n);
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
