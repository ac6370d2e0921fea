// Legends, and the colours of change, which several views share.

const CHANGE_RAMP = ["#f3d9a4", "#ee9d3c", "#d1532a", "#8c1f3f", "#4b0f45"];

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

// Relative change: the norm of the difference over the norm of what was there, on a log scale from a
// ten-thousandth to all of it.
const CHANGE_LEAST = -4;
const changeLevel = (change) => (change > 0 ? (Math.log10(change) - CHANGE_LEAST) / -CHANGE_LEAST : 0);

function changeColor(model, i) {
    const state = STATES[model.diff.state[i]][0];
    const change = model.diff.change[i];
    if (state === "added") return css("--added");
    if (state === "removed") return css("--removed");
    if (state === "same" || change === 0) return css("--same");
    return Number.isNaN(change) ? css("--other") : ramp(CHANGE_RAMP, changeLevel(change));
}

function changeText(model, i) {
    const text = STATES[model.diff.state[i]][1];
    const change = model.diff.change[i];
    return Number.isNaN(change) || change === 0 ? text : percentText(change) + " (" + text + ")";
}

function changeLegend() {
    return [
        ...swatches([[css("--same"), "unchanged"]]),
        ...scaleBar(CHANGE_RAMP, "0.01" + SPACE + "%", "100" + SPACE + "% relative change and more"),
        ...swatches([
            [css("--added"), "only here"],
            [css("--removed"), "only in the other"],
        ]),
    ];
}
