// Figures in the words of `headroom plan`, and text that cannot do harm.

// Names come from files: control characters, those that turn the direction of text, and those that nobody sees are shown as escapes.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
function plain(text) {
  return String(text).replace(UNSEEN, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

function size(bytes) {
  if (bytes == null) return '–';
  if (bytes < 0) return '-' + size(-bytes);
  if (bytes < 1024) return Math.round(bytes) + ' B';
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let value = bytes / 1024, unit = 0;
  for (; value >= 1023.995 && unit < units.length - 1; unit++) value /= 1024;
  return value.toFixed(2) + ' ' + units[unit];
}

function seconds(value) {
  if (value == null) return '–';
  if (value < 0) return '-' + seconds(-value);
  if (value >= 100) return value.toFixed(0) + ' s';
  if (value >= 1) return value.toFixed(2) + ' s';
  if (value >= 1e-3) return (value * 1e3).toFixed(1) + ' ms';
  return (value * 1e6).toFixed(1) + ' us';
}

function amount(count) {
  if (count >= 1e9) return (count / 1e9).toFixed(2) + ' B';
  if (count >= 1e6) return (count / 1e6).toFixed(2) + ' M';
  if (count >= 1e3) return (count / 1e3).toFixed(1) + ' k';
  return String(count);
}

function rate(value) { return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3))); }
function percent(share) { return (100 * share).toFixed(1) + ' %'; }
function whole(number) { return Math.round(number).toLocaleString('en-US'); }
function figure(value) {
  if (value == null) return '–';
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? Number(value.toPrecision(4)).toExponential() : String(Number(value.toPrecision(5)));
}

// Round numbers between two ends; `binary` for bytes, which are divided by powers of two.
function ticks(least, most, about, binary) {
  const span = most - least;
  if (!(span > 0)) return [least];
  let step;
  if (binary) {
    step = 2 ** Math.ceil(Math.log2(span / about));
  } else {
    const power = 10 ** Math.floor(Math.log10(span / about));
    step = power * [1, 2, 5, 10].find((m) => power * m >= span / about);
  }
  const out = []; // bounded: steps that are lost in a number's last digits would never end
  for (let t = Math.ceil(least / step) * step; t <= most + step * 1e-9 && out.length < 64; t += step) out.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  return out;
}

// Ends of a logarithmic axis are logarithms: 1, 2 and 5 times powers of ten, or only the powers where there are many.
function logTicks(least, most, about) {
  const out = [];
  for (const steps of [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1]]) {
    out.length = 0;
    for (let power = Math.floor(least); power <= most; power++) for (const m of steps) { const t = power + Math.log10(m); if (t >= least && t <= most) out.push(t); }
    if (out.length <= 1.6 * about) break;
  }
  return out.length > 1 ? out : ticks(least, most, about);
}
