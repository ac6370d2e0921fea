// Legends, and the colors of change, which several views share.

// The stops of a theme's ramp, from little to much: away from the color of the background. They are
// read once for each theme, since a heat map asks for them for every cell.
const rampsRead = {};
function themeRamp(name) {
    const key = name + document.documentElement.dataset.theme;
    if (!rampsRead[key]) rampsRead[key] = [0, 1, 2, 3, 4].map((k) => css(`--${name}-${k}`));
    return rampsRead[key];
}
const changeStops = () => themeRamp("change");

function swatches(list) {
    return list.map(([color, text]) => {
        const box = el("i", { class: "swatch" });
        box.style.background = color;
        return el("span", {}, box, document.createTextNode(text));
    });
}

function scaleBar(stops, from, to) {
    const bar = el("i", { class: "scale" });
    bar.style.background = "linear-gradient(90deg," + stops.join(",") + ")";
    return [el("span", {}, document.createTextNode(from), bar, document.createTextNode(to))];
}

// Relative change: the norm of the difference divided by the norm of the original, on a log scale
// from 1/10,000 to 1.
const CHANGE_LEAST = -4;
const changeLevel = (change) => (change > 0 ? (Math.log10(change) - CHANGE_LEAST) / -CHANGE_LEAST : 0);

// What the flags of tensors mean.
const FLAG_TEXT = ["", "all zero", "NaN or Inf"];

function flagText(model, i) {
    if (model.flags[i] !== FLAG_BROKEN) return FLAG_TEXT[model.flags[i]];
    if (!model.measured(i)) return whole(model.diff.gained.get(i)) + " became NaN or Inf";
    const { nan, inf } = model.stats;
    const parts = [nan[i] > 0 ? whole(nan[i]) + " NaN" : "", inf[i] > 0 ? whole(inf[i]) + " infinite" : ""];
    return parts.filter(Boolean).join(", ");
}

const STATE_COLORS = { same: "--same", added: "--added", removed: "--removed", gained: "--gained" };

function changeColor(model, i) {
    const state = STATES[model.diff.state[i]][0];
    const change = model.diff.change[i];
    if (STATE_COLORS[state]) return css(STATE_COLORS[state]);
    if (change === 0) return css("--same");
    return Number.isNaN(change) ? css("--other") : ramp(changeStops(), changeLevel(change));
}

function changeText(model, i) {
    const text = STATES[model.diff.state[i]][1];
    const change = model.diff.change[i];
    return Number.isNaN(change) || change === 0 ? text : percentText(change) + " (" + text + ")";
}

// The legend lists only the states that occur.
function changeLegend(model) {
    const seen = new Set(model.diff.state);
    const has = (key) => seen.has(STATES.findIndex(([name]) => name === key));
    const sized = ["changed", "reshaped", "unread"];
    const uncompared = model.diff.state.some(
        (s, i) => sized.includes(STATES[s][0]) && Number.isNaN(model.diff.change[i]),
    );
    return [
        ...(has("gained") ? swatches([[css("--gained"), "gained NaN or Inf"]]) : []),
        ...(has("same") ? swatches([[css("--same"), "unchanged"]]) : []),
        ...(has("changed") || has("reshaped")
            ? scaleBar(changeStops(), "0.01" + SPACE + "%", "100" + SPACE + "% relative change and more")
            : []),
        ...(has("added") ? swatches([[css("--added"), "only here"]]) : []),
        ...(has("removed") ? swatches([[css("--removed"), "only in the other"]]) : []),
        ...(uncompared ? swatches([[css("--other"), "not compared"]]) : []),
    ];
}
