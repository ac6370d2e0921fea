// Decodes the report's data (docs/report.md describes the format) into columns, one entry per
// tensor.

function decodeNames(coded) {
    const names = new Array(coded.rest.length);
    let before = "";
    for (let i = 0; i < names.length; i++) before = names[i] = before.slice(0, coded.keep[i]) + coded.rest[i];
    return names;
}

function column(values) {
    const out = new Float64Array(values.length);
    for (let i = 0; i < values.length; i++) out[i] = values[i] === null ? NaN : values[i];
    return out;
}

const CODE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const CODE_VALUE = Object.fromEntries([...CODE].map((c, i) => [c, i]));

// Decodes counts in base 32, the lowest digit first; digits that are not the last have 32 added.
function decodeBins(text) {
    const bins = [];
    let count = 0;
    let unit = 1;
    for (const c of text) {
        const v = CODE_VALUE[c];
        count += (v & 31) * unit;
        unit *= 32;
        if (v >= 32) continue;
        bins.push(count);
        count = 0;
        unit = 1;
    }
    return bins;
}

// Returns the edges of a tensor's bins as the tool used them: each operation is rounded to a
// double.
function edgesOf(from, to, bins) {
    const step = (to - from) / bins;
    const edges = [];
    for (let k = 0; k < bins; k++) edges.push(from + k * step);
    edges.push(to);
    return edges;
}

// Histograms are half of a large report, so they are decoded when the first one is shown.
let histograms = null;
function readHistograms() {
    if (histograms) return;
    const { tensor: which, bins, base } = JSON.parse(byId("bins").textContent);
    byId("bins").remove();
    histograms = {
        own: new Map(which.map((t, k) => [t, bins[k]])),
        base: new Map(base ? base.tensor.map((t, k) => [t, [base.bins[k], base.range[k]]]) : []),
    };
}

function binsOf(tensor) {
    readHistograms();
    return histograms.own.has(tensor) ? decodeBins(histograms.own.get(tensor)) : null;
}

// The other model's histogram of a tensor that changed, with its own range; null if there is none,
// or if all its values are the same.
function baseBinsOf(tensor) {
    readHistograms();
    const [text, [from, to]] = histograms.base.get(tensor) || ["", [0, 0]];
    return from < to ? { bins: decodeBins(text), from, to } : null;
}

function decode(raw) {
    const names = decodeNames(raw.names);
    const n = names.length;
    const forms = raw.forms.map(([dtype, shape, elements, bytes]) => ({ dtype, shape, elements, bytes }));
    const m = {
        raw,
        names,
        n,
        forms,
        form: Uint32Array.from(raw.form),
        own: raw.shards.reduce((sum, s) => sum + s.tensors, 0), // the rest are in the other model
        dtypes: raw.dtypes.map((name, k) => ({ name, color: raw.dtype_colors[k] })),
        dtype: new Uint16Array(n),
        bytes: new Float64Array(n),
        elements: new Float64Array(n),
        shard: new Uint32Array(n),
        offset: new Float64Array(n),
        stats: {},
        diff: null,
    };
    for (let i = 0; i < n; i++) {
        const form = forms[m.form[i]];
        m.dtype[i] = form.dtype;
        m.bytes[i] = form.bytes;
        m.elements[i] = form.elements;
    }
    const gaps = new Map(raw.gaps);
    let i = 0;
    raw.shards.forEach((shard, s) => {
        let at = shard.data;
        for (let k = 0; k < shard.tensors; k++, i++) {
            at += gaps.get(i) || 0;
            m.shard[i] = s;
            m.offset[i] = at;
            at += m.bytes[i];
        }
    });
    decodeStats(m, raw.stats);
    m.dead = { row: deadLines(raw.dead_rows), column: deadLines(raw.dead_columns) };
    if (raw.diff) m.diff = decodeDiff(raw);
    for (const used of ["names", "form", "stats", "diff"]) raw[used] = null;
    m.flags = flagTensors(m);
    m.places = placeTensors(m);
    return m;
}

// Minimums and maximums have the digits that restore a float; for these dtypes, a double.
const WIDE = new Set(["F64", "I32", "U32", "I64", "U64", "C64"]);

function decodeStats(m, stats) {
    m.hasStats = Boolean(stats);
    for (const [name, values] of Object.entries(stats || {})) m.stats[name] = column(values);
    m.measured = m.hasStats ? (k) => !Number.isNaN(m.stats.zeros[k]) : () => false;
    const complex = m.dtypes.map((d) => (d.name === "C64" ? 2 : 1)); // real, imaginary
    m.values = (k) => m.elements[k] * complex[m.dtype[k]];
    if (!stats) return;
    const narrow = m.dtypes.map((d) => !WIDE.has(d.name));
    for (const values of [m.stats.min, m.stats.max])
        for (let i = 0; i < m.n; i++) if (narrow[m.dtype[i]]) values[i] = Math.fround(values[i]);
}

// The tensors that have dead rows, or dead columns.
function deadLines(list) {
    return new Map((list || []).map(([i, zero, constant, count, first]) => [i, { zero, constant, count, first }]));
}

// The states of a tensor in a comparison; the data holds indexes into this list, except of the last
// one: whatever else changed, the user must see values that became NaN or infinite.
const STATES = [
    ["same", "unchanged"],
    ["changed", "values changed"],
    ["reshaped", "type or shape changed"],
    ["added", "only in this model"],
    ["removed", "only in the other"],
    ["unread", "not compared"],
    ["gained", "gained NaN or Inf"],
];
const GAINED = 6;

function decodeDiff(raw) {
    const diff = {
        state: Uint8Array.from(raw.diff.state),
        otherForm: new Map(raw.others),
        change: column(raw.diff.change),
        max: column(raw.diff.max),
        share: column(raw.diff.share),
        unlike: new Map(raw.diff.nonfinite_mismatches),
        gained: new Map(raw.diff.nonfinite_gained),
    };
    for (const i of diff.gained.keys()) diff.state[i] = GAINED;
    return diff;
}

// What is wrong with a tensor's values, as in `tenmap check --values`: some are NaN or infinite, or
// all are zero.
const FLAG_ZERO = 1;
const FLAG_BROKEN = 2;

function flagTensors(m) {
    const flags = new Uint8Array(m.n);
    for (let i = 0; i < m.n; i++) {
        const broken = m.hasStats && m.stats.nan[i] + m.stats.inf[i] > 0;
        if (broken || (m.diff && m.diff.gained.has(i))) flags[i] = FLAG_BROKEN;
        else if (m.hasStats && m.elements[i] > 1 && m.stats.zeros[i] === m.values(i)) flags[i] = FLAG_ZERO;
    }
    return flags;
}

// Returns how many values are NaN or infinite; if nothing was measured, those that a comparison
// found.
function brokenCount(m, i) {
    if (m.measured(i)) return m.stats.nan[i] + m.stats.inf[i];
    return (m.diff && m.diff.gained.get(i)) || 0;
}

// Numbers and parts in names, as tool/model/module_numbers.h describes them. A number has a
// separator or an end of the name on both sides. Parts end at . and /, and at a _ or - before or
// after a number.
const MAX_PARTS = 48; // deeper paths end in one leaf
const isDigit = (code) => code >= 48 && code <= 57;
const isJoint = (code) => code === 95 || code === 45;
const isSeparator = (code) => code === 46 || code === 47 || code === 95 || code === 45;

// Returns where the number that begins here ends, or the same position if none does.
function numberEnd(name, at) {
    let end = at;
    while (end < name.length && isDigit(name.charCodeAt(end))) end++;
    const ended = end === name.length || isSeparator(name.charCodeAt(end));
    return ended && end - at < 10 ? end : at;
}

// Returns where the parts of a name end, before their separators; the last one ends with the name.
function partEnds(name) {
    const ends = [];
    let number = numberEnd(name, 0) > 0;
    for (let at = 0; at < name.length && ends.length < MAX_PARTS - 1; at++) {
        const code = name.charCodeAt(at);
        if (!isSeparator(code)) continue;
        const before = number;
        number = numberEnd(name, at + 1) > at + 1;
        if (!isJoint(code) || before || number) ends.push(at);
    }
    ends.push(name.length);
    return ends;
}

// Returns where the first number at or after `from` begins and ends, or null. Searches 2,000
// characters.
function findNumber(name, from) {
    const most = Math.min(name.length, 2000);
    for (let at = from; at < most; at++) {
        const end = numberEnd(name, at);
        if (end > at && end <= most) return [at, end];
        while (at < most && !isSeparator(name.charCodeAt(at))) at++;
    }
    return null;
}

// Returns what follows a layer's number, with other numbers as *, unless a part ends in one: fc_1
// stays.
const INNER = /(^|[./_-])\d{1,9}(?=[_-])|(^|[./])\d{1,9}(?=[./]|$)/g;
const kinds = new Map();
function kindOf(rest) {
    let kind = kinds.get(rest);
    if (kind === undefined) {
        kind = rest.replace(INNER, (_, a, b) => (a ?? b) + "*").replace(/\//g, ".") || "(itself)";
        kinds.set(rest, kind);
    }
    return kind;
}

// Returns stack, layer and kind of every tensor; the layer is -1 if the name has no number. If
// there are several numbers, the first whose stack has more than one layer counts; if there is
// none, the first.
function placeTensors(model) {
    const places = {
        layer: new Int32Array(model.n).fill(-1),
        stack: new Array(model.n),
        kind: new Array(model.n),
    };
    const place = ([i, begin, end]) => {
        const name = model.names[i];
        places.layer[i] = Number(name.slice(begin, end));
        places.stack[i] = name.slice(0, Math.max(0, begin - 1));
        places.kind[i] = kindOf(name.slice(end + 1, end + 2001));
    };
    let asked = [];
    for (let i = 0; i < model.n; i++) {
        const found = findNumber(model.names[i], 0);
        if (found) asked.push([i, ...found]);
    }
    for (let round = 0; round < 4 && asked.length; round++) {
        const stacks = new Map(); // the only layer of a stack, or -1 if there are several
        const numbers = asked.map(([i, begin, end]) => {
            const stack = model.names[i].slice(0, Math.max(0, begin - 1));
            const layer = Number(model.names[i].slice(begin, end));
            const known = stacks.get(stack);
            if (known === undefined) stacks.set(stack, layer);
            else if (known !== layer) stacks.set(stack, -1);
            return stack;
        });
        const left = [];
        asked.forEach((number, k) => {
            const several = stacks.get(numbers[k]) === -1;
            if (several || round === 0) place(number);
            const next = several ? null : findNumber(model.names[number[0]], number[2] + 1);
            if (next) left.push([number[0], ...next]);
        });
        asked = left;
    }
    return places;
}
