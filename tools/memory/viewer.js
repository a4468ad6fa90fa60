// SPDX-License-Identifier: Apache-2.0
'use strict';
// The page of tenon-memviz. Everything is computed here from the snapshot's JSON; nothing is fetched.
const opened = performance.now();
const $ = id => document.getElementById(id);
const snapshots = [...document.querySelectorAll('script[type="application/json"]')].map(s => JSON.parse(s.textContent));
const snap = snapshots[snapshots.length - 1];
const KIND = Object.fromEntries(snap.event_kinds.map((name, i) => [name, i]));
const INK = getComputedStyle(document.body).getPropertyValue('--ink').trim();

function bytesText(n) {
  const sign = n < 0 ? '-' : '', units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let v = Math.abs(n), u = 0;
  while (v >= 1024 && u < 4) { v /= 1024; ++u; }
  return sign + (u ? v.toFixed(2) : v) + ' ' + units[u];
}
const timesText = n => n === 1 ? 'once' : n + ' times';
function element(tag, text, attributes = {}) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  return e;
}
function fillTable(table, head, rows) {
  table.replaceChildren();
  const tr = element('tr');
  head.forEach(h => tr.append(element('th', h)));
  table.append(tr);
  for (const row of rows) {
    const r = element('tr');
    row.forEach(c => r.append(c instanceof Node ? c : element('td', c)));
    table.append(r);
  }
}
const bytesCell = (n, name, kind = '') => element('td', n === undefined ? '' : bytesText(n), n === undefined ? {} : {'data-stat': name, 'data-bytes': n, class: kind});

function stackText(s, stack, op, limit = 12) {
  const lines = [];
  if (op >= 0) lines.push('operator ' + s.operators[op]);
  if (stack >= 0) {
    const frames = s.stacks[stack].map(f => s.frames[f]);
    const first = frames.findIndex(f => !f[3]);
    const shown = first < 0 ? frames : frames.slice(first);
    shown.slice(0, limit).forEach(f => lines.push('  ' + f[0]));
    if (shown.length > limit) lines.push('  … ' + (shown.length - limit) + ' more');
  }
  return lines.length ? lines.join('\n') : 'place unknown (not recorded)';
}
function hashColour(n) {
  if (n < 0) return 0xff9aa0a6;
  const h = (n * 137.508) % 360, light = 0.5 + 0.12 * ((n * 7) % 3 - 1), a = 0.5 * Math.min(light, 1 - light);
  const f = k => { const t = (k + h / 30) % 12; return Math.round(255 * (light - a * Math.max(-1, Math.min(t - 3, 9 - t, 1)))); };
  return (0xff000000 | f(4) << 16 | f(8) << 8 | f(0)) >>> 0;
}
const css = c => `rgb(${c & 255},${c >> 8 & 255},${c >> 16 & 255})`;

// --- The history of one allocator -----------------------------------------------------------------------------
// A life: a block from its allocation to its free. What was alive before the first event follows from the frees
// without allocation and from the blocks at the end that no event mentions.
function buildHistory(s, index) {
  const events = s.events.filter(e => e[1] === index);
  const lives = [], open = new Map(), initial = [];
  let reserved = 0;
  const a = s.allocators[index];
  a.segments.forEach(g => reserved += g.size);
  const start = new Int32Array(events.length).fill(-1), end = new Int32Array(events.length).fill(-1);
  const reservedAt = new Float64Array(events.length + 1);
  const delta = new Float64Array(events.length);
  const ooms = [];
  events.forEach((e, i) => {
    const [time, , kind, address, size, requested, stream, stack, op] = e;
    if (kind === KIND.alloc) {
      start[i] = lives.length;
      open.set(address, lives.length);
      lives.push({address, size, requested, stream, stack, op, from: i, to: Infinity, began: time, ended: null});
    } else if (kind === KIND.free_requested) {
      let life = open.get(address);
      if (life === undefined) {
        life = lives.length;
        lives.push({address, size, requested, stream, stack: -1, op: -1, from: -1, to: Infinity, began: null, ended: null});
        initial.push(life);
      }
      lives[life].to = i;
      lives[life].ended = time;
      lives[life].freedBy = stack;
      end[i] = life;
      open.delete(address);
    } else if (kind === KIND.segment_alloc || kind === KIND.segment_map) {
      delta[i] = size;
    } else if (kind === KIND.segment_free || kind === KIND.segment_unmap) {
      delta[i] = -size;
    } else if (kind === KIND.out_of_memory) {
      ooms.push(i);
    }
  });
  for (const g of a.segments) {
    for (const [offset, size, requested, state, stack, op] of g.blocks) {
      if (state !== 'in use' || open.has(g.address + offset)) continue;
      initial.push(lives.length);
      lives.push({address: g.address + offset, size, requested, stream: g.stream, stack, op, from: -1, to: Infinity, began: null, ended: null});
    }
  }
  reservedAt[events.length] = reserved;
  for (let i = events.length; i-- > 0;) reservedAt[i] = reservedAt[i + 1] - delta[i];
  let now = 0, peak = 0;
  initial.forEach(l => now += lives[l].size);
  const allocatedAt = new Float64Array(events.length + 1);
  allocatedAt[0] = peak = now;
  for (let i = 0; i < events.length; ++i) {
    if (start[i] >= 0) now += lives[start[i]].size;
    if (end[i] >= 0) now -= lives[end[i]].size;
    allocatedAt[i + 1] = now;
    if (now > peak) peak = now;
  }
  // The largest lives are drawn one by one, all others together as one grey area at the bottom.
  const kMost = 4000;
  let least = 0;
  if (lives.length > kMost) least = lives.map(l => l.size).sort((x, y) => y - x)[kMost];
  return {events, lives, initial, start, end, reservedAt, allocatedAt, peak, least, ooms, count: events.length};
}

// --- Timeline -------------------------------------------------------------------------------------------------
const state = {allocator: 0, history: null, from: 0, to: 1, kept: false, owner: null};
const scale = window.devicePixelRatio || 1;

function colourOf(life) {
  switch ($('colour').value) {
    case 'op': return hashColour(life.op);
    case 'stream': return hashColour(life.stream);
    case 'size': return hashColour(Math.round(Math.log2(life.size)));
    default: return hashColour(life.stack);
  }
}

// The position on the axis of state number i (0: before the first event, n: after the last).
function positions(h) {
  if ($('axis').value === 'event' || h.count === 0) return i => i;
  const times = h.events.map(e => e[0]);
  return i => i === 0 ? times[0] : times[i - 1];
}

function drawTimeline() {
  const canvas = $('timeline'), h = state.history;
  const width = canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
  const height = canvas.height = Math.max(1, Math.round(canvas.clientHeight * scale));
  const context = canvas.getContext('2d');
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const owner = state.owner = new Int32Array(width * height).fill(-1);
  const at = positions(h);
  const low = at(state.from), span = Math.max(1e-9, at(state.to) - low);
  let top = 1;
  for (let i = state.from; i <= state.to; ++i) top = Math.max(top, h.reservedAt[i], h.allocatedAt[i]);
  top *= 1.04;
  const live = new Map();
  let small = 0;
  const add = l => { const life = h.lives[l]; if (life.size > h.least) live.set(l, life); else small += life.size; };
  const drop = l => { const life = h.lives[l]; if (life.size > h.least) live.delete(l); else small -= life.size; };
  h.initial.forEach(add);
  const colours = new Uint32Array(h.lives.length);
  let next = 0;  // events applied so far
  let column = null;  // the last column drawn, copied while nothing changes
  for (let x = 0; x < width; ++x) {
    const target = low + span * (x + 0.5) / width;
    const before = next;
    while (next < h.count && (next < state.from || at(next + 1) <= target)) {
      if (h.start[next] >= 0) add(h.start[next]);
      if (h.end[next] >= 0) drop(h.end[next]);
      ++next;
    }
    if (column !== null && next === before) {
      for (let y = 0; y < height; ++y) {
        pixels[y * width + x] = pixels[y * width + x - 1];
        owner[y * width + x] = owner[y * width + x - 1];
      }
      continue;
    }
    column = x;
    let sum = small, y = Math.round(height * small / top);
    for (let p = 0; p < y; ++p) pixels[(height - 1 - p) * width + x] = 0xffb0b5ba;
    for (const [l, life] of live) {
      sum += life.size;
      const until = Math.round(height * sum / top);
      if (until === y) continue;
      const colour = colours[l] || (colours[l] = colourOf(life));
      for (let p = y; p < until && p < height; ++p) {
        const i = (height - 1 - p) * width + x;
        pixels[i] = p === y && until - y > 2 ? (colour & 0xfefefe) >>> 1 | 0xff000000 : colour;
        owner[i] = l;
      }
      y = until;
    }
  }
  context.putImageData(image, 0, 0);
  // Reserved bytes above it, and the failures.
  context.strokeStyle = INK;
  context.lineWidth = 1.5 * scale;
  context.beginPath();
  let last = -1;
  for (let i = state.from; i <= state.to; ++i) {
    const x = (at(i) - low) / span * width, y = height - h.reservedAt[i] / top * height;
    if (i === state.from) context.moveTo(x, y);
    else if (y !== last || i === state.to) { context.lineTo(x, last); context.lineTo(x, y); }
    last = y;
  }
  if (h.count === 0) {  // one state: a line from side to side
    const y = height - h.reservedAt[0] / top * height;
    context.moveTo(0, y); context.lineTo(width, y);
  }
  context.stroke();
  context.strokeStyle = '#d1242f';
  for (const i of h.ooms) {
    if (i < state.from || i >= state.to) continue;
    const x = (at(i + 1) - low) / span * width;
    context.beginPath(); context.moveTo(x, 0); context.lineTo(x, height); context.stroke();
  }
  context.fillStyle = INK;
  context.font = `${11 * scale}px system-ui`;
  for (let k = 1; k < 4; ++k) {
    const y = height - height * k / 4;
    context.globalAlpha = 0.25; context.fillRect(0, y, width, 1); context.globalAlpha = 1;
    context.fillText(bytesText(top * k / 4), 4 * scale, y - 3 * scale);
  }
  $('range').textContent = h.count === 0
    ? 'No events: history was not recorded (record_memory_history). The segments below are the state of the snapshot.'
    : `events ${state.from} to ${state.to} of ${h.count}` + (snap.dropped_events ? `, ${snap.dropped_events} older ones were dropped` : '') +
      `; line: reserved; areas: blocks in use, oldest at the bottom; at the end ${bytesText(h.allocatedAt[state.to])} in use, ${bytesText(h.reservedAt[state.to])} reserved`;
}

function lifeText(life) {
  return `${bytesText(life.size)} (${life.size} bytes, asked for ${life.requested})\naddress 0x${life.address.toString(16)}, stream ${life.stream}\n` +
    (life.began === null ? 'alive before the first event' : `allocated at ${life.began} µs`) +
    (life.ended === null ? ', alive at the end\n' : `, freed at ${life.ended} µs\n`) + stackText(snap, life.stack, life.op);
}
function showDetail(text, event) {
  if (state.kept) return;
  const box = $('detail');
  if (!text) { box.hidden = true; return; }
  box.textContent = text;
  box.hidden = false;
  const x = event.clientX + 16, y = event.clientY + 16;
  box.style.left = Math.max(4, Math.min(x, innerWidth - box.offsetWidth - 8)) + 'px';
  box.style.top = Math.max(4, Math.min(y, innerHeight - box.offsetHeight - 8)) + 'px';
}
function keepDetail() {
  state.kept = !state.kept && !$('detail').hidden;
  $('detail').classList.toggle('kept', state.kept);
}
function lifeUnder(event) {
  const canvas = $('timeline'), box = canvas.getBoundingClientRect();
  const x = Math.floor((event.clientX - box.left - canvas.clientLeft) * scale), y = Math.floor((event.clientY - box.top - canvas.clientTop) * scale);
  if (x < 0 || y < 0 || x >= canvas.width || y >= canvas.height) return -1;
  return state.owner[y * canvas.width + x];
}
function setRange(from, to) {
  const n = state.history.count;
  const width = Math.max(Math.min(8, n), Math.min(n, Math.round(to - from)));
  state.from = Math.max(0, Math.min(n - width, Math.round(from)));
  state.to = state.from + width;
  drawTimeline();
}
let drag = null;
$('timeline').addEventListener('mousemove', event => {
  if (drag) {
    const moved = (drag.x - event.clientX) / $('timeline').clientWidth * (drag.to - drag.from);
    drag.moved = drag.moved || Math.abs(drag.x - event.clientX) > 3;
    return setRange(drag.from + moved, drag.to + moved);
  }
  const l = lifeUnder(event);
  showDetail(l >= 0 ? lifeText(state.history.lives[l]) : '', event);
});
$('timeline').addEventListener('mousedown', event => drag = {x: event.clientX, from: state.from, to: state.to, moved: false});
addEventListener('mouseup', () => { if (drag && !drag.moved) keepDetail(); drag = null; });
$('timeline').addEventListener('mouseleave', event => showDetail('', event));
$('timeline').addEventListener('wheel', event => {
  event.preventDefault();
  const share = (event.clientX - $('timeline').getBoundingClientRect().left) / $('timeline').clientWidth;
  const width = (state.to - state.from) * (event.deltaY > 0 ? 1.25 : 0.8), centre = state.from + share * (state.to - state.from);
  setRange(centre - share * width, centre + (1 - share) * width);
}, {passive: false});

// --- Segments -------------------------------------------------------------------------------------------------
let segmentRows = [];
function drawSegments() {
  const canvas = $('segments'), a = snap.allocators[state.allocator], kRow = 15, kMost = 400;
  const order = [...a.segments].sort((x, y) => y.size - x.size);
  segmentRows = order.slice(0, kMost);
  $('segment-note').textContent = `${a.segments.length} ${a.segments.length === 1 ? 'segment' : 'segments'}` + (order.length > kMost ? `, the largest ${kMost} are shown` : '') + '; one row each, as wide as the largest';
  canvas.style.height = Math.max(1, segmentRows.length * kRow + 4) + 'px';
  const width = canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
  canvas.height = Math.max(1, Math.round((segmentRows.length * kRow + 4) * scale));
  const context = canvas.getContext('2d'), largest = segmentRows.length ? segmentRows[0].size : 1;
  const style = getComputedStyle(document.body);
  const fills = {'in use': null, free: style.getPropertyValue('--free'), pending: style.getPropertyValue('--pend')};
  segmentRows.forEach((g, row) => {
    for (const [offset, size, , kind, stack, op] of g.blocks) {
      const x = offset / largest * width, w = size / largest * width;
      context.fillStyle = fills[kind] ?? css(colourOf({stack, op, stream: g.stream, size}));
      context.fillRect(x, (row * kRow + 2) * scale, Math.max(w - (w > 3 ? 1 : 0), 0.5), (kRow - 3) * scale);
    }
    context.strokeStyle = style.getPropertyValue('--line');
    context.strokeRect(0.5, (row * kRow + 2) * scale, g.size / largest * width - 1, (kRow - 3) * scale);
  });
}
$('segments').addEventListener('mousemove', event => {
  const canvas = $('segments'), box = canvas.getBoundingClientRect();
  const g = segmentRows[Math.floor((event.clientY - box.top - 2) / 15)];
  if (!g) return showDetail('', event);
  const offset = (event.clientX - box.left) / box.width * segmentRows[0].size;
  const block = g.blocks.find(b => offset >= b[0] && offset < b[0] + b[1]);
  const where = `segment 0x${g.address.toString(16)}, ${bytesText(g.size)}, ${g.pool} pool, stream ${g.stream}`;
  if (!block) return showDetail(where, event);
  const [at, size, requested, kind, stack, op] = block;
  showDetail(`${kind}: ${bytesText(size)} (${size} bytes` + (kind === 'in use' ? `, asked for ${requested}` : '') +
    `)\naddress 0x${(g.address + at).toString(16)}, offset ${at}\n${where}` + (kind === 'free' ? '' : '\n' + stackText(snap, stack, op)), event);
});
$('segments').addEventListener('mouseleave', event => showDetail('', event));
$('segments').addEventListener('click', keepDetail);

// --- Tables ---------------------------------------------------------------------------------------------------
const STATS = [['allocated', 'Live: blocks in use', 'allocated', 'peak_allocated', 'total_allocated', 'total_freed'],
  ['requested', 'asked for', 'requested', 'peak_requested'], ['active', 'live or waiting for other streams', 'active', 'peak_active'],
  ['reserved', 'Reserved from the device', 'reserved', 'peak_reserved', 'total_reserved', 'total_released']];
function liveSites(s, a) {
  const sites = new Map();
  for (const g of a.segments) {
    for (const [, size, , kind, stack, op] of g.blocks) {
      if (kind !== 'in use') continue;
      const key = stackText(s, stack, op);
      const site = sites.get(key) || {key, bytes: 0, blocks: 0};
      site.bytes += size; ++site.blocks;
      sites.set(key, site);
    }
  }
  return sites;
}
function drawTables() {
  const a = snap.allocators[state.allocator], s = a.stats;
  fillTable($('summary'), ['bytes', 'current', 'peak', 'allocated', 'freed'], [
    ...STATS.map(([, label, ...keys]) => [label, ...keys.map(k => bytesCell(s[k], k))]),
    ['Cached: free, kept', bytesCell(s.reserved - s.active, 'cached')],
    ...(a.tape_bytes ? [['Kept for backward', bytesCell(a.tape_bytes, 'tape_bytes')]] : [])]);
  $('settings').textContent = `${a.source}, ${bytesText(a.total)} in all; ${s.live_blocks} blocks live, ${s.cached_blocks} cached, ${s.segments} segments; ` +
    `${s.allocations} allocations, ${s.segments_allocated} segments taken, ${timesText(s.out_of_memory)} out of memory; settings ${a.settings}; tenon ${snap.tenon}`;
  const sites = [...liveSites(snap, a).values()].sort((x, y) => y.bytes - x.bytes);
  fillTable($('sites'), ['bytes', 'blocks', 'place'], sites.slice(0, 100).map(x => [bytesCell(x.bytes, 'site'), x.blocks, element('td', x.key, {class: 'text'})]));
}
function drawDiff() {
  if (snapshots.length < 2) return;
  $('diff-section').hidden = false;
  const b = snap.allocators[state.allocator], old = snapshots[0], a = old.allocators.find(x => x.name === b.name);
  $('diff-note').textContent = a ? 'the second snapshot less the first' : `the first snapshot has no allocator ${b.name}`;
  if (!a) return;
  const sign = n => n > 0 ? 'more' : n < 0 ? 'less' : '';
  fillTable($('diff-stats'), ['bytes', 'first', 'second', 'difference'], ['allocated', 'peak_allocated', 'requested', 'reserved', 'peak_reserved'].map(k =>
    [k.replace('_', ' '), bytesText(a.stats[k]), bytesText(b.stats[k]), bytesCell(b.stats[k] - a.stats[k], 'diff_' + k, sign(b.stats[k] - a.stats[k]))]));
  const before = liveSites(old, a), after = liveSites(snap, b);
  const rows = [...new Set([...before.keys(), ...after.keys()])].map(key => {
    const x = before.get(key) || {bytes: 0, blocks: 0}, y = after.get(key) || {bytes: 0, blocks: 0};
    return {key, bytes: y.bytes - x.bytes, blocks: y.blocks - x.blocks};
  }).filter(r => r.bytes || r.blocks).sort((x, y) => Math.abs(y.bytes) - Math.abs(x.bytes));
  fillTable($('diff-sites'), ['live bytes', 'blocks', 'place'], rows.slice(0, 100).map(r => [bytesCell(r.bytes, 'diff_site', sign(r.bytes)), (r.blocks > 0 ? '+' : '') + r.blocks, element('td', r.key, {class: 'text'})]));
}

function show(allocator) {
  state.allocator = allocator;
  state.history = buildHistory(snap, allocator);
  state.from = 0;
  state.to = state.history.count;
  drawTables();
  drawTimeline();
  drawSegments();
  drawDiff();
}
snap.allocators.forEach((a, i) => $('allocator').append(element('option', `${a.name} (${bytesText(a.stats.reserved)} reserved)`, {value: i})));
$('allocator').addEventListener('change', () => show(Number($('allocator').value)));
for (const id of ['colour', 'axis']) $(id).addEventListener('change', () => { drawTimeline(); drawSegments(); });
$('reset').addEventListener('click', () => setRange(0, state.history.count));
addEventListener('resize', () => { drawTimeline(); drawSegments(); });
addEventListener('keydown', event => { if (event.key === 'Escape') { state.kept = false; $('detail').hidden = true; } });

// First the allocator with the most events, then with the most memory.
const weight = snap.allocators.map(() => 0);
snap.events.forEach(e => ++weight[e[1]]);
let first = 0;
snap.allocators.forEach((a, i) => {
  const w = [weight[i], a.stats.reserved], best = [weight[first], snap.allocators[first].stats.reserved];
  if (w[0] > best[0] || (w[0] === best[0] && w[1] > best[1])) first = i;
});
if (snap.allocators.length) {
  $('allocator').value = first;
  show(first);
}
window.memviz = {snapshots, state, lifeText, loadMilliseconds: performance.now() - opened};
