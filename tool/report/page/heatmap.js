// The heat map: tensor kinds down, layers across. Colour says how far a value lies from what is usual
// for its kind (median and median absolute deviation over the layers), so that a broken or odd layer
// stands out whatever the scale of its kind is.

const HEAT_ROWS = 160; // kinds that are drawn; more would be no picture any more
const HEAT_COLUMNS = 1200;

// One cell sums the tensors that share stack, layer and kind (the experts of a layer, say).
function buildStacks(model) {
    const stacks = new Map();
    const put = (stack, layer, kind, i) => {
        let s = stacks.get(stack);
        if (!s) stacks.set(stack, (s = { name: stack, layers: new Set(), kinds: new Map(), count: 0 }));
        let row = s.kinds.get(kind);
        if (!row) s.kinds.set(kind, (row = new Map()));
        let cell = row.get(layer);
        if (!cell) row.set(layer, (cell = []));
        cell.push(i);
        s.layers.add(layer);
        s.count++;
    };
    for (let i = 0; i < model.n; i++) {
        const { layer, stack, kind } = model.places;
        if (layer[i] >= 0) put(stack[i], layer[i], kind[i], i);
    }
    let list = [...stacks.values()].filter((s) => s.layers.size > 1);
    if (!list.length) {
        stacks.clear();
        for (let i = 0; i < model.n; i++) {
            const parts = pathParts(model.names[i]);
            const kind = parts.pop();
            put("modules", parts.join(".") || "(top)", kind || "(no name)", i);
        }
        list = [...stacks.values()];
    }
    return list.sort((a, b) => b.count - a.count).slice(0, 200);
}

function median(sorted) {
    const half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// Per metric: how a cell's number comes from its tensors, how it is told, and how it is scaled.
// "robust" compares a kind's layers on a log scale; "share" and "change" are absolute.
const sumOf = (values, list) => list.reduce((sum, i) => sum + values[i], 0);
const METRICS = [
    {
        key: "norm",
        text: "Norm",
        scale: "robust",
        show: numberText,
        of: (m, list) => Math.sqrt(list.reduce((sum, i) => sum + m.stats.norm[i] * m.stats.norm[i], 0)),
    },
    {
        key: "max",
        text: "Largest value",
        scale: "robust",
        show: numberText,
        of: (m, list) =>
            list.reduce((most, i) => Math.max(most, Math.abs(m.stats.min[i]), Math.abs(m.stats.max[i])), 0),
    },
    {
        key: "zeros",
        text: "Zeros",
        scale: "share",
        show: percentText,
        of: (m, list) => sumOf(m.stats.zeros, list) / Math.max(1, sumOf(m.elements, list)),
    },
    {
        key: "broken",
        text: "NaN / Inf",
        scale: "count",
        show: whole,
        of: (m, list) => sumOf(m.stats.nan, list) + sumOf(m.stats.inf, list),
    },
];
const CHANGE_METRIC = {
    key: "change",
    text: "Change",
    scale: "change",
    show: percentText,
    of: (m, list) => {
        const known = list.filter((i) => !Number.isNaN(m.diff.change[i]));
        return known.length
            ? Math.sqrt(known.reduce((s, i) => s + m.diff.change[i] ** 2, 0) / known.length)
            : NaN;
    },
};
const SIZE_METRIC = {
    key: "bytes",
    text: "Size",
    scale: "robust",
    show: bytesText,
    of: (m, list) => sumOf(m.bytes, list),
};

const FLOOR = 0.02; // a spread below 5 % (in decades) is not worth a colour

// Levels of a kind's cells, from -1 (far below the usual) over 0 to 1 (far above).
function levels(metric, values) {
    if (metric.scale === "share") return values.map((v) => v);
    if (metric.scale === "count") return values.map((v) => (v > 0 ? 1 : 0));
    if (metric.scale === "change") return values.map((v) => (Number.isNaN(v) ? NaN : changeLevel(v)));
    const logs = values.map((v) => (v > 0 ? Math.log10(v) : NaN));
    const known = logs.filter((v) => !Number.isNaN(v)).sort((a, b) => a - b);
    if (!known.length) return values.map(() => 0);
    const middle = median(known);
    const spread = median(known.map((v) => Math.abs(v - middle)).sort((a, b) => a - b)) * 1.4826;
    return logs.map((v, i) => {
        if (Number.isNaN(v)) return Number.isNaN(values[i]) ? NaN : -1;
        return Math.max(-1, Math.min(1, (v - middle) / Math.max(spread, FLOOR) / 6));
    });
}

// On a phone the end of a kind tells more than its beginning.
function shortKind(kind) {
    const text = visible(kind.replace(/\.weight$/, ""), 48);
    return text.length > 18 ? "\u2026" + text.slice(-17) : text;
}

function makeHeatmap(model) {
    const stacks = buildStacks(model);
    const measured = model.hasStats;
    const metrics = [...(model.diff ? [CHANGE_METRIC] : []), ...(measured ? METRICS : [SIZE_METRIC])];
    const state = { stack: 0, metric: metrics[0].key };
    const host = byId("heatmap");
    let view = null;

    function compute() {
        const stack = stacks[state.stack];
        const metric = metrics.find((m) => m.key === state.metric);
        const layers = [...stack.layers]
            .sort((a, b) => (typeof a === "number" ? a - b : 0))
            .slice(0, HEAT_COLUMNS);
        const rows = [...stack.kinds].slice(0, HEAT_ROWS).map(([kind, cells]) => {
            const lists = layers.map((layer) => cells.get(layer) || null);
            const usable = (list) =>
                list && (metric.key === "bytes" || metric.key === "change" || list.every(model.measured));
            const values = lists.map((list) => (usable(list) ? metric.of(model, list) : NaN));
            const broken = lists.map((list) =>
                Boolean(list && measured && list.some((i) => model.stats.nan[i] + model.stats.inf[i] > 0)),
            );
            return { kind, lists, values, broken, levels: levels(metric, values) };
        });
        return { stack, metric, layers, rows };
    }

    function color(level) {
        if (Number.isNaN(level)) return css("--heat-none");
        if (view.metric.scale === "change") return level > 0 ? ramp(CHANGE_RAMP, level) : css("--same");
        return level < 0
            ? mix(css("--heat-mid"), css("--heat-low"), -level)
            : mix(css("--heat-mid"), css("--heat-high"), level);
    }

    function draw() {
        if (!stacks.length) {
            byId("heat-note").textContent = "This model has no tensors.";
            return;
        }
        view = compute();
        const narrow = host.clientWidth < 560;
        const labels = narrow
            ? 132
            : Math.min(300, 24 + 7 * Math.max(...view.rows.map((r) => Math.min(r.kind.length, 40))));
        const cellH = 20;
        const room = host.clientWidth - labels - 2;
        const cellW = Math.max(
            narrow ? 3 : 5,
            Math.min(view.layers.length < 8 ? 120 : 84, room / view.layers.length),
        );
        const names = el("div", { class: "kinds" });
        names.style.width = labels + "px";
        for (const row of view.rows)
            names.append(
                el("div", {
                    text: narrow ? shortKind(row.kind) : visible(row.kind, 48),
                    title: visible(row.kind, 300),
                }),
            );
        const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": ariaText() });
        const axis = 22;
        const size = { w: cellW * view.layers.length, h: cellH * view.rows.length + axis };
        const sharp = Math.min(2, window.devicePixelRatio || 1);
        canvas.width = Math.ceil(size.w * sharp);
        canvas.height = Math.ceil(size.h * sharp);
        canvas.style.width = size.w + "px";
        canvas.style.height = size.h + "px";
        const pen = canvas.getContext("2d");
        pen.scale(sharp, sharp);
        paint(pen, cellW, cellH, size);
        const pane = el("div", { class: "cells" }, canvas);
        host.replaceChildren(names, pane);
        listen(canvas, cellW, cellH);
        drawLegend();
        drawOdd();
    }

    function paint(pen, cellW, cellH, size) {
        const gap = cellW > 8 ? 1 : 0.5;
        view.rows.forEach((row, y) =>
            row.levels.forEach((level, x) => {
                if (!row.lists[x]) return;
                pen.fillStyle = color(level);
                pen.fillRect(x * cellW, y * cellH, cellW - gap, cellH - 1);
                if (row.broken[x]) cross(pen, x * cellW, y * cellH, cellW - gap, cellH - 1);
            }),
        );
        pen.fillStyle = css("--muted");
        pen.font = "11px system-ui, sans-serif";
        pen.textAlign = "center";
        const longest = Math.max(...view.layers.map((l) => Math.min(String(l).length, 14)));
        const every = Math.max(1, Math.ceil((longest * 6.5 + 8) / cellW));
        view.layers.forEach((layer, x) => {
            if (x % every) return;
            const text = visible(String(layer), 14);
            const half = pen.measureText(text).width / 2;
            pen.fillText(text, Math.max(half, Math.min(size.w - half, (x + 0.5) * cellW)), size.h - 7);
        });
    }

    // NaN and infinity are marked by form, not only by colour.
    function cross(pen, x, y, w, h) {
        pen.strokeStyle = css("--broken");
        pen.lineWidth = 1.5;
        pen.strokeRect(x + 0.75, y + 0.75, w - 1.5, h - 1.5);
        pen.beginPath();
        pen.moveTo(x + w * 0.25, y + h * 0.25);
        pen.lineTo(x + w * 0.75, y + h * 0.75);
        pen.moveTo(x + w * 0.75, y + h * 0.25);
        pen.lineTo(x + w * 0.25, y + h * 0.75);
        pen.stroke();
    }

    function listen(canvas, cellW, cellH) {
        const at = (event) => {
            const box = canvas.getBoundingClientRect();
            return [
                Math.floor((event.clientX - box.left) / cellW),
                Math.floor((event.clientY - box.top) / cellH),
            ];
        };
        const cursor = [0, 0];
        const point = () => {
            const box = canvas.getBoundingClientRect();
            return {
                clientX: box.left + (cursor[0] + 0.5) * cellW,
                clientY: box.top + (cursor[1] + 0.5) * cellH,
            };
        };
        canvas.addEventListener("pointermove", (event) => tell(event, ...at(event)));
        canvas.addEventListener("pointerleave", hideTip);
        canvas.addEventListener("blur", hideTip);
        canvas.addEventListener("click", (event) => pick(...at(event)));
        canvas.addEventListener("keydown", (event) => {
            const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[
                event.key
            ];
            if (event.key === "Enter") pick(...cursor);
            if (!step) return;
            event.preventDefault();
            cursor[0] = Math.max(0, Math.min(view.layers.length - 1, cursor[0] + step[0]));
            cursor[1] = Math.max(0, Math.min(view.rows.length - 1, cursor[1] + step[1]));
            tell(point(), ...cursor);
        });
    }

    function tell(event, x, y) {
        const row = view.rows[y];
        const list = row && row.lists[x];
        if (!list) return hideTip();
        const known = row.values.filter((v) => !Number.isNaN(v)).sort((a, b) => a - b);
        const rows = [
            [
                view.metric.text,
                Number.isNaN(row.values[x]) ? "not measured" : view.metric.show(row.values[x]),
            ],
        ];
        if (known.length > 1) rows.push(["Usual for this kind", view.metric.show(median(known))]);
        if (row.broken[x])
            rows.push(["NaN / Inf", whole(sumOf(model.stats.nan, list) + sumOf(model.stats.inf, list))]);
        if (list.length > 1) rows.push(["Tensors", whole(list.length)]);
        const title = typeof view.layers[x] === "number" ? "layer " + view.layers[x] : view.layers[x];
        showTip(event, visible(title + " \u00b7 " + row.kind, 120), rows);
    }

    function pick(x, y) {
        const list = view.rows[y] && view.rows[y].lists[x];
        if (!list) return;
        hideTip();
        if (list.length === 1) openDetail(list[0]);
        else showTensors(list, visible(view.stack.name + "." + view.layers[x] + " " + view.rows[y].kind, 80));
    }

    function ariaText() {
        return `${view.metric.text} of ${plural(view.rows.length, "kind")} of tensors in ${plural(view.layers.length, "layer")}; arrow keys move, Enter opens`;
    }

    function drawLegend() {
        const { scale, text } = view.metric;
        const parts = {
            robust: () =>
                scaleBar(
                    [css("--heat-low"), css("--heat-mid"), css("--heat-high")],
                    "lower than usual",
                    "higher than usual for its kind",
                ),
            share: () =>
                scaleBar([css("--heat-mid"), css("--heat-high")], "0" + SPACE + "%", "100" + SPACE + "%"),
            count: () =>
                swatches([
                    [css("--heat-mid"), "none"],
                    [css("--heat-high"), text + " present"],
                ]),
            change: changeLegend,
        };
        const cells = swatches([[css("--heat-none"), "not measured"]]);
        const crossed = measured
            ? [
                  el(
                      "span",
                      {},
                      el("b", { class: "crossed", text: "\u00d7" }),
                      document.createTextNode("holds NaN or Inf"),
                  ),
              ]
            : [];
        byId("heat-legend").replaceChildren(...parts[scale](), ...cells, ...crossed);
        const stack = view.stack;
        const more =
            stack.kinds.size > HEAT_ROWS
                ? ` (the first ${HEAT_ROWS} of ${whole(stack.kinds.size)} kinds)`
                : "";
        const cut =
            stack.layers.size > HEAT_COLUMNS
                ? ` (the first ${HEAT_COLUMNS} of ${whole(stack.layers.size)} layers)`
                : "";
        const usual =
            scale === "robust"
                ? " Each row is compared with itself: colour shows how far a layer lies from the median of its kind."
                : "";
        byId("heat-note").textContent =
            `${text} of each tensor kind (down) in each layer (across) of ${visible(stack.name, 60) || "the model"}${more}${cut}.${usual}`;
    }

    // The most unusual cells in words, for readers of print and of screen readers too.
    function drawOdd() {
        const odd = [];
        for (const row of view.rows) {
            const known = row.values.filter((v) => !Number.isNaN(v)).sort((a, b) => a - b);
            row.levels.forEach((level, x) => {
                const far = view.metric.scale === "robust" && known.length > 3 && Math.abs(level) >= 1;
                if (row.broken[x] || far)
                    odd.push({
                        row,
                        x,
                        usual: median(known),
                        weight:
                            (row.broken[x] ? 1e9 : 0) +
                            Math.abs(Math.log(row.values[x] / median(known)) || 0),
                    });
            });
        }
        odd.sort((a, b) => b.weight - a.weight);
        const lines = odd.slice(0, 5).map(({ row, x, usual }) => {
            const layer = view.layers[x];
            const list = row.lists[x];
            const bad = row.broken[x]
                ? whole(sumOf(model.stats.nan, list) + sumOf(model.stats.inf, list)) + " NaN or Inf"
                : "";
            const value =
                view.metric.text.toLowerCase() +
                " " +
                view.metric.show(row.values[x]) +
                ", usual " +
                view.metric.show(usual);
            return el(
                "li",
                {},
                el("button", {
                    type: "button",
                    class: "link",
                    on: { click: () => pick(x, view.rows.indexOf(row)) },
                    text: visible(
                        (typeof layer === "number" ? "layer " + layer : layer) + " \u00b7 " + row.kind,
                        90,
                    ),
                }),
                document.createTextNode(" " + (bad || value)),
            );
        });
        if (odd.length > 5)
            lines.push(el("li", { class: "muted", text: `and ${whole(odd.length - 5)} more` }));
        byId("heat-odd").replaceChildren(...lines);
    }

    const controls = byId("heat-controls");
    if (stacks.length > 1) {
        controls.append(
            select(
                "Stack of layers",
                stacks.map((s, i) => [
                    String(i),
                    `${visible(s.name, 40) || "(top)"} (${s.layers.size} layers)`,
                ]),
                "0",
                (value) => {
                    state.stack = Number(value);
                    draw();
                },
            ),
        );
    }
    if (metrics.length > 1)
        controls.append(
            choice(
                "Metric",
                metrics.map((m) => [m.key, m.text]),
                state.metric,
                (value) => {
                    state.metric = value;
                    draw();
                },
            ),
        );
    redraws.push(draw);
    draw();
}
