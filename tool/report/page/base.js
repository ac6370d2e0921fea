// Helpers that every view uses. Text from a model reaches the document only through textContent; no
// view builds markup from strings.

const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) {
        if (value === null || value === undefined || value === false) continue;
        if (key === "text") node.textContent = value;
        else if (key === "on") for (const [name, f] of Object.entries(value)) node.addEventListener(name, f);
        else node.setAttribute(key, value === true ? "" : value);
    }
    for (const child of children) if (child) node.append(child);
    return node;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svgEl = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Characters that are invisible, or that reorder or break the surrounding text, are shown as their
// code. The space, U+0020, is not one of them.
const HIDDEN =
    /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;
const codeOf = (c) => c.codePointAt(0).toString(16).padStart(4, "0");

function visible(text, limit) {
    let out = text;
    if (limit && out.length > limit) {
        const tail = Math.floor(limit / 3);
        out = out.slice(0, limit - tail - 1) + "\u2026" + out.slice(out.length - tail);
    }
    return out.replace(HIDDEN, (c) => "\\u" + (c.length > 1 ? `{${codeOf(c)}}` : codeOf(c)));
}

const SPACE = "\u202f";
const group = new Intl.NumberFormat("en-US");
const whole = (n) => group.format(n);

function scaled(n, units, gap) {
    let unit = 0;
    let x = n;
    while (x >= 999.5 && unit + 1 < units.length) {
        x /= 1000;
        unit++;
    }
    const digits = unit === 0 || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2;
    return x.toFixed(digits) + (units[unit] ? gap + units[unit] : "");
}

const bytesText = (n) => scaled(n, ["B", "KB", "MB", "GB", "TB", "PB"], SPACE);
const countText = (n) => scaled(n, ["", "K", "M", "B", "T", "Q"], "");

// Formats four digits (or as many as asked for), as people write them: 0.0123, 1.2e-7, 12,340.
function numberText(x, digits = 4) {
    if (x === null || x === undefined) return "";
    if (!Number.isFinite(x)) return x > 0 ? "\u221e" : x < 0 ? "\u2212\u221e" : "NaN";
    const size = Math.abs(x);
    let text;
    if (size === 0) text = "0";
    else if (size >= 1e6 || size < 1e-3) text = size.toExponential(2).replace("e+", "e");
    else if (size >= 1000) text = whole(Math.round(size));
    else text = String(Number(size.toPrecision(digits)));
    return x < 0 ? "\u2212" + text : text;
}

function percentText(share) {
    if (share === 0) return "0" + SPACE + "%";
    const p = share * 100;
    if (p < 0.01) return "<" + SPACE + "0.01" + SPACE + "%";
    const digits = p >= 99.995 ? whole(Math.round(p)) : p >= 10 && p < 99.9 ? p.toFixed(1) : p.toFixed(2);
    return digits + SPACE + "%";
}

const plural = (n, one, many) => whole(n) + " " + (n === 1 ? one : many || one + "s");
const shapeText = (shape) =>
    shape === "" ? "scalar" : visible(shape.replace(/,/g, "\u2009\u00d7\u2009"), 60);

// Compares names as people order them: layers.2 before layers.10.
const natural = new Intl.Collator("en", { numeric: true });
const PLAIN = /^[\x20-\x7e]*$/;
function compareNames(a, b) {
    return PLAIN.test(a) && PLAIN.test(b) ? natural.compare(a, b) : a < b ? -1 : a > b ? 1 : 0;
}

// Colors. Drawings read everything that they need of the theme from the style sheet, so that light,
// dark and print stay in one place.
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function parseColor(hex) {
    const n = parseInt(hex.slice(1), 16);
    return [n >> 16, (n >> 8) & 255, n & 255];
}

function mix(from, to, share) {
    const a = parseColor(from);
    const b = parseColor(to);
    const part = a.map((x, i) => Math.round(x + (b[i] - x) * share));
    return "#" + part.map((x) => x.toString(16).padStart(2, "0")).join("");
}

// Returns a color along evenly spaced stops; `at` is between 0 and 1.
function ramp(stops, at) {
    const x = Math.min(Math.max(at, 0), 1) * (stops.length - 1);
    const i = Math.min(Math.floor(x), stops.length - 2);
    return mix(stops[i], stops[i + 1], x - i);
}

// Relative luminance as WCAG defines it.
function luminance(hex) {
    const [r, g, b] = parseColor(hex).map((x) => {
        const s = x / 255;
        return s <= 0.03928 ? s / 12.92 : Math.pow((s + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// Black or white, whichever is more readable on a color: at 0.179 both have a contrast of 4.58,
// elsewhere the better one has more.
const inkOn = (hex) => (luminance(hex) > 0.179 ? "#000000" : "#ffffff");

// Appends a name that can break after dots, slashes and numbers, and in long parts between words.
// Copying it gives the plain name.
function breakable(node, text) {
    const LONG = 8;
    let from = 0;
    let number = false;
    for (let at = 0; at < text.length; at++) {
        const code = text.charCodeAt(at);
        if (!isSeparator(code)) {
            number = isDigit(code) && (number || at === 0 || isSeparator(text.charCodeAt(at - 1)));
            continue;
        }
        // A number stays with its word.
        const within = at - from < LONG || isDigit(text.charCodeAt(at + 1));
        if (isJoint(code) && !number && within) continue;
        node.append(document.createTextNode(text.slice(from, at + 1)), el("wbr"));
        from = at + 1;
        number = false;
    }
    node.append(document.createTextNode(text.slice(from)));
    return node;
}

// Measures the width of text in the report's font; drawings leave out what does not fit.
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const ruler = document.createElement("canvas").getContext("2d");
function widthOf(text, size = 11.5, weight = 400) {
    ruler.font = `${weight} ${size}px ${FONT}`;
    return ruler.measureText(text).width;
}

// Returns as much of a text as fits. It keeps the end if asked to or if the text ends in a number,
// which distinguishes it from its neighbors. Returns "" if too little would be left.
function fitted(text, room, width, end) {
    if (width(text) <= room) return text;
    const digits = text.match(/\d+$/);
    const last = end || digits;
    const least = digits ? digits[0].length : 3;
    const cut = (n) => (last ? "\u2026" + text.slice(text.length - n) : text.slice(0, n) + "\u2026");
    let low = 0;
    let high = text.length;
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (width(cut(middle)) <= room) low = middle;
        else high = middle - 1;
    }
    if (low >= least) return cut(low);
    return digits && width(digits[0]) <= room ? digits[0] : "";
}

// One tooltip for the whole report: a title and pairs of label and value.
const tip = byId("tip");
function showTip(event, title, rows) {
    tip.replaceChildren(el("strong", { text: title }));
    const list = el("dl");
    for (const [label, value] of rows) list.append(el("dt", { text: label }), el("dd", { text: value }));
    tip.append(list);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const below = event.clientY + 18;
    const y = below + box.height > innerHeight - 8 ? event.clientY - box.height - 12 : below;
    tip.style.left = Math.max(8, x) + "px";
    tip.style.top = Math.max(8, y) + "px";
}
const hideTip = () => {
    tip.hidden = true;
};

// A row of buttons, one of which is pressed.
function choice(label, options, current, pick) {
    const box = el("div", { class: "choice", role: "group", "aria-label": label });
    const buttons = options.map(([value, text]) => {
        const press = () => {
            for (const b of buttons) b.setAttribute("aria-pressed", String(b === button));
            pick(value);
        };
        const button = el("button", {
            type: "button",
            text,
            "data-value": value,
            "aria-pressed": String(value === current),
            on: { click: press },
        });
        return button;
    });
    box.append(...buttons);
    return box;
}

function select(label, options, current, pick) {
    const list = el("select", { "aria-label": label, on: { change: () => pick(list.value) } });
    for (const [value, text] of options)
        list.append(el("option", { value, text, selected: value === current }));
    return list;
}

// Functions to call when the theme or the width changes.
const redraws = [];
