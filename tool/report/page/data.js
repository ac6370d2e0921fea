// Turns the page's data (docs/report.md describes the format) into columns, one entry per tensor.

const DTYPE_COLORS = {
    F64: "#7a5195",
    F32: "#2f6fb0",
    F16: "#5ab0de",
    BF16: "#1f9e83",
    F8_E4M3: "#e69f00",
    F8_E5M2: "#d1662a",
    F8_E8M0: "#b98a1d",
    F8_E4M3FNUZ: "#f0b94d",
    F8_E5M2FNUZ: "#e08a55",
    F6_E2M3: "#c4a000",
    F6_E3M2: "#a38600",
    F4: "#d9c64a",
    I8: "#c0568c",
    U8: "#d98ab5",
    I16: "#a0447a",
    U16: "#c77aa6",
    I32: "#8c5fa8",
    U32: "#ab86c4",
    I64: "#6b4c9a",
    U64: "#9079bd",
    BOOL: "#7d8790",
    C64: "#4b5d8c",
};

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

// Two characters per bin: 0 is empty, 4095 the fullest one, a hundred steps for each halving.
function decodeBins(text) {
    const bins = [];
    for (let i = 0; i + 1 < text.length; i += 2) {
        const v = CODE_VALUE[text[i]] * 64 + CODE_VALUE[text[i + 1]];
        bins.push(v ? Math.pow(2, (v - 4095) / 100) : 0);
    }
    return bins;
}

// Histograms are half of a large page, and read when the first one is looked at.
let histograms = null;
function binsOf(tensor) {
    if (!histograms) {
        const { tensor: which, bins } = JSON.parse(byId("bins").textContent);
        byId("bins").remove();
        histograms = new Map(which.map((t, k) => [t, bins[k]]));
    }
    return histograms.has(tensor) ? decodeBins(histograms.get(tensor)) : null;
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
        own: raw.shards.reduce((sum, s) => sum + s.tensors, 0), // the rest are in the other model only
        dtypes: raw.dtypes.map((name) => ({ name, color: DTYPE_COLORS[name] || "#8a8f98" })),
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
    m.hasStats = Boolean(raw.stats);
    for (const [name, values] of Object.entries(raw.stats || {})) m.stats[name] = column(values);
    m.measured = m.hasStats ? (k) => !Number.isNaN(m.stats.zeros[k]) : () => false;
    if (raw.diff) {
        m.diff = {
            state: Uint8Array.from(raw.diff.state),
            otherForm: new Map(raw.others),
            change: column(raw.diff.change),
            max: column(raw.diff.max),
            share: column(raw.diff.share),
        };
    }
    for (const used of ["names", "form", "stats", "diff"]) raw[used] = null;
    m.places = placeTensors(m);
    return m;
}

// The states of a tensor in a comparison; the data holds their place in this list.
const STATES = [
    ["same", "unchanged"],
    ["changed", "values changed"],
    ["reshaped", "type or shape changed"],
    ["added", "only in this model"],
    ["removed", "only in the other"],
    ["unread", "not compared"],
];

// A layer is the first number in a path; the kind is what comes after it, other numbers as *.
const SEPARATOR = /[./]/;
const MAX_PARTS = 48; // deeper paths end in one leaf
const pathParts = (name) => name.split(name.includes("/") ? SEPARATOR : ".", MAX_PARTS);
const isDigit = (code) => code >= 48 && code <= 57;
const endsPart = (name, at) => at === name.length || name[at] === "." || name[at] === "/";

// Where the first part that is a number begins and ends, or null. Looks at the first 2,000 characters.
function findNumber(name) {
    const end = Math.min(name.length, 2000);
    for (let at = 0; at < end; at++) {
        let stop = at;
        while (stop < end && isDigit(name.charCodeAt(stop))) stop++;
        if (stop > at && stop - at < 10 && endsPart(name, stop)) return [at, stop];
        at = stop;
        while (at < end && !endsPart(name, at)) at++;
    }
    return null;
}

const kinds = new Map();
function kindOf(rest) {
    let kind = kinds.get(rest);
    if (kind === undefined) {
        kind =
            rest
                .split(SEPARATOR)
                .map((p) => (/^\d{1,9}$/.test(p) ? "*" : p))
                .join(".") || "(itself)";
        kinds.set(rest, kind);
    }
    return kind;
}

// Stack, layer and kind of every tensor; the layer is -1 where the name has no number.
function placeTensors(model) {
    const places = {
        layer: new Int32Array(model.n).fill(-1),
        stack: new Array(model.n),
        kind: new Array(model.n),
    };
    for (let i = 0; i < model.n; i++) {
        const name = model.names[i];
        const found = findNumber(name);
        if (!found) continue;
        places.layer[i] = Number(name.slice(found[0], found[1]));
        places.stack[i] = name.slice(0, Math.max(0, found[0] - 1));
        places.kind[i] = kindOf(name.slice(found[1] + 1, found[1] + 2001));
    }
    return places;
}
