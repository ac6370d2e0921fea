// The heat map: tensor kinds down, layers across. Color shows how far a value is from the usual one
// for its kind (median and median absolute deviation over the layers), so that a broken or unusual
// layer stands out whatever the scale of its kind.

const HEAT_ROWS = 160; // kinds that are drawn; more would not be readable
const HEAT_COLUMNS = 1200;

// A cell combines the tensors that share stack, layer and kind (the experts of a layer, for
// example).
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
            const name = model.names[i];
            const [at] = partEnds(name).slice(-2, -1);
            put(
                "",
                name.slice(0, at ?? 0) || "(top)",
                name.slice(at === undefined ? 0 : at + 1) || "(itself)",
                i,
            );
        }
        list = [...stacks.values()];
        for (const s of list) s.modules = true;
    }
    return list.sort((a, b) => b.count - a.count).slice(0, 200);
}

function median(sorted) {
    const half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// For each metric: how a cell's number is computed from its tensors, shown and scaled. "robust"
// compares a kind's layers on a log scale; "share" and "change" are absolute.
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
        of: (m, list) =>
            sumOf(m.stats.zeros, list) /
            Math.max(
                1,
                list.reduce((sum, i) => sum + m.values(i), 0),
            ),
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

const FLOOR = 0.02; // a spread below 5 % (in decades) gets no color

// Returns the levels of a kind's cells, from -1 (far below the usual) through 0 to 1 (far above).
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

// Returns the state that all tensors of a cell share in a comparison; it says more than any number.
function stateOf(model, list) {
    if (!model.diff) return "";
    const state = STATES[model.diff.state[list[0]]][0];
    return list.every((i) => STATES[model.diff.state[i]][0] === state) ? state : "";
}

function makeHeatmap(model) {
    const stacks = buildStacks(model);
    const measured = model.hasStats;
    const metrics = [...(model.diff ? [CHANGE_METRIC] : []), ...(measured ? METRICS : [SIZE_METRIC])];
    const state = { stack: 0, metric: metrics[0].key };
    const host = byId("heatmap");
    let view = null;

    // Kinds are rows and layers are columns. Modules have long names, so they go down and the kinds
    // across.
    function compute() {
        const stack = stacks[state.stack];
        const flip = Boolean(stack.modules);
        const metric = metrics.find((m) => m.key === state.metric);
        const layers = [...stack.layers]
            .sort((a, b) => (typeof a === "number" ? a - b : 0))
            .slice(0, flip ? HEAT_ROWS : HEAT_COLUMNS);
        const kindsSeen = [...stack.kinds].slice(0, flip ? HEAT_COLUMNS : HEAT_ROWS);
        const rows = kindsSeen.map(([kind, cells]) => {
            const lists = layers.map((layer) => cells.get(layer) || null);
            const usable = (list) =>
                list && (metric.key === "bytes" || metric.key === "change" || list.every(model.measured));
            const values = lists.map((list) => (usable(list) ? metric.of(model, list) : NaN));
            const broken = lists.map((list) =>
                Boolean(list && list.some((i) => model.flags[i] === FLAG_BROKEN)),
            );
            const states = lists.map((list) => (list ? stateOf(model, list) : ""));
            return { kind, lists, values, broken, states, levels: levels(metric, values) };
        });
        return { stack, flip, metric, layers, rows };
    }

    // Returns the kind and the index of the layer that a cell of the drawing stands for.
    const cellAt = (x, y) => (view.flip ? [view.rows[x], y] : [view.rows[y], x]);
    const down = () => (view.flip ? view.layers : view.rows.map((row) => row.kind)).map(String);
    const across = () => (view.flip ? view.rows.map((row) => row.kind) : view.layers).map(String);

    function color(row, k) {
        const level = row.levels[k];
        const changes = view.metric.scale === "change";
        if (row.states[k] === "removed") return css("--removed");
        if (changes && STATE_COLORS[row.states[k]]) return css(STATE_COLORS[row.states[k]]);
        if (changes && row.broken[k] && row.lists[k].some((i) => model.diff.gained.has(i)))
            return css("--gained");
        if (Number.isNaN(level)) return css(changes ? "--other" : "--heat-none");
        if (changes) return level > 0 ? ramp(changeStops(), level) : css("--same");
        return level < 0
            ? mix(css("--heat-mid"), css("--heat-low"), -level)
            : mix(css("--heat-mid"), css("--heat-high"), level);
    }

    // Names of rows are as wide as they need, up to a share of the picture; their ends distinguish
    // them.
    function drawNames(names, narrow) {
        const size = narrow ? 11.5 : 12.5;
        const short = names.map((n) => n.replace(/\.weight$/, ""));
        const bare = new Set(short).size === names.length ? short : names;
        const width = (text) => widthOf(text, size);
        const shown = bare.map((n) => visible(n, 300));
        const room = Math.min(
            host.clientWidth * (narrow ? 0.46 : 0.42),
            Math.max(...shown.map(width), 40) + 14,
        );
        const box = el("div", { class: "kinds" });
        box.style.width = Math.ceil(room) + "px";
        shown.forEach((text, k) =>
            box.append(
                el("div", { text: fitted(text, room - 12, width, true), title: visible(names[k], 300) }),
            ),
        );
        return [box, Math.ceil(room)];
    }

    function draw() {
        if (!stacks.length) {
            byId("heat-note").textContent = "This model has no tensors.";
            return;
        }
        view = compute();
        const narrow = host.clientWidth < 560;
        const [names, labels] = drawNames(down(), narrow);
        const columns = across();
        const cellH = 20;
        const room = host.clientWidth - labels - 2;
        const cellW = Math.max(narrow ? 3 : 5, room / columns.length);
        const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": ariaText() });
        const axis = 22;
        const size = { w: cellW * columns.length, h: cellH * down().length + axis };
        const sharp = Math.min(2, window.devicePixelRatio || 1);
        canvas.width = Math.ceil(size.w * sharp);
        canvas.height = Math.ceil(size.h * sharp);
        canvas.style.width = size.w + "px";
        canvas.style.height = size.h + "px";
        const pen = canvas.getContext("2d");
        pen.scale(sharp, sharp);
        paint(pen, cellW, cellH);
        paintAxis(pen, columns, cellW, size);
        const pane = el("div", { class: "cells" }, canvas);
        host.replaceChildren(names, pane);
        listen(canvas, cellW, cellH);
        drawLegend();
        drawOdd();
    }

    function paint(pen, cellW, cellH) {
        const gap = cellW > 8 ? 1 : 0.5;
        view.rows.forEach((row, r) =>
            row.lists.forEach((list, k) => {
                if (!list) return;
                const x = (view.flip ? r : k) * cellW;
                const y = (view.flip ? k : r) * cellH;
                const fillColor = color(row, k);
                pen.fillStyle = fillColor;
                pen.fillRect(x, y, cellW - gap, cellH - 1);
                if (row.broken[k]) cross(pen, x, y, cellW - gap, cellH - 1, fillColor);
            }),
        );
    }

    // Draws every label that has room, without overlaps.
    function paintAxis(pen, columns, cellW, size) {
        pen.fillStyle = css("--muted");
        pen.font = `11px ${FONT}`;
        pen.textAlign = "center";
        const wide = (text) => pen.measureText(text).width;
        const shown = columns.map((text) =>
            view.flip ? fitted(visible(text, 60), Math.max(cellW - 4, 24), wide) : visible(text, 14),
        );
        const every = view.flip ? 1 : Math.max(1, Math.ceil((Math.max(...shown.map(wide)) + 8) / cellW));
        let free = -Infinity;
        shown.forEach((text, x) => {
            if (x % every || !text) return;
            const half = wide(text) / 2;
            const at = Math.max(half, Math.min(size.w - half, (x + 0.5) * cellW));
            if (at - half < free) return;
            pen.fillText(text, at, size.h - 7);
            free = at + half + 4;
        });
    }

    // NaN and infinity are marked by shape, not only by color.
    function cross(pen, x, y, w, h, under) {
        pen.strokeStyle = inkOn(under);
        pen.lineWidth = 1.5;
        pen.strokeRect(x + 0.75, y + 0.75, w - 1.5, h - 1.5);
        const reach = Math.min(w, h) * 0.25;
        const [mx, my] = [x + w / 2, y + h / 2];
        pen.beginPath();
        pen.moveTo(mx - reach, my - reach);
        pen.lineTo(mx + reach, my + reach);
        pen.moveTo(mx + reach, my - reach);
        pen.lineTo(mx - reach, my + reach);
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
            cursor[0] = Math.max(0, Math.min(across().length - 1, cursor[0] + step[0]));
            cursor[1] = Math.max(0, Math.min(down().length - 1, cursor[1] + step[1]));
            tell(point(), ...cursor);
        });
    }

    const layerText = (k) =>
        typeof view.layers[k] === "number" ? "layer " + view.layers[k] : view.layers[k];

    function valueText(row, k) {
        if (row.states[k] === "removed") return "only in the other";
        if (!Number.isNaN(row.values[k])) return view.metric.show(row.values[k]);
        if (view.metric.scale !== "change") return "not measured";
        return row.states[k] === "added" ? "only in this model" : "not compared";
    }

    function brokenText(list) {
        const sum = list.reduce((all, i) => all + brokenCount(model, i), 0);
        return whole(sum);
    }

    function tell(event, x, y) {
        const [row, k] = cellAt(x, y);
        const list = row && row.lists[k];
        if (!list) return hideTip();
        const known = row.values.filter((v) => !Number.isNaN(v)).sort((a, b) => a - b);
        const rows = [[view.metric.text, valueText(row, k)]];
        if (known.length > 1) rows.push(["Usual for this kind", view.metric.show(median(known))]);
        if (row.broken[k]) rows.push(["NaN / Inf", brokenText(list)]);
        if (list.length > 1) rows.push(["Tensors", whole(list.length)]);
        showTip(event, visible(layerText(k) + " \u00b7 " + row.kind, 120), rows);
    }

    function pick(x, y) {
        const [row, k] = cellAt(x, y);
        if (row) openCell(row, k);
    }

    function openCell(row, k) {
        const list = row.lists[k];
        if (!list) return;
        hideTip();
        if (list.length === 1) openDetail(list[0]);
        else showTensors(list, visible(`${view.stack.name} ${layerText(k)} ${row.kind}`, 80));
    }

    function ariaText() {
        return `${view.metric.text} of ${plural(view.rows.length, "kind")} of tensors in ${plural(view.layers.length, view.flip ? "module" : "layer")}; arrow keys move, Enter opens`;
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
            change: () => changeLegend(model),
        };
        const every = view.rows.flatMap((row) =>
            row.lists.map((list, k) => list && [row, k]).filter(Boolean),
        );
        const none = every.some(
            ([row, k]) => scale !== "change" && row.states[k] !== "removed" && Number.isNaN(row.levels[k]),
        );
        const removed = scale !== "change" && every.some(([row, k]) => row.states[k] === "removed");
        const cells = swatches([
            ...(removed ? [[css("--removed"), "only in the other"]] : []),
            ...(none ? [[css("--heat-none"), "not measured"]] : []),
        ]);
        const crossed = every.some(([row, k]) => row.broken[k])
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
        const { stack, flip } = view;
        const limited = (all, most, what) =>
            all > most ? ` (the first ${most} of ${whole(all)} ${what})` : "";
        const unit = flip ? "module" : "layer";
        const more = limited(stack.kinds.size, flip ? HEAT_COLUMNS : HEAT_ROWS, "kinds");
        const cut = limited(stack.layers.size, flip ? HEAT_ROWS : HEAT_COLUMNS, unit + "s");
        const usual =
            scale === "robust"
                ? ` Each kind is compared with itself: color shows how far a ${unit} lies from the median of its kind.`
                : "";
        const where = flip
            ? `${text} of each tensor kind (across) in each module (down)${more}${cut}: the names have no numbered layers.`
            : `${text} of each tensor kind (down) in each layer (across) of ${visible(stack.name, 60) || "the model"}${more}${cut}.`;
        byId("heat-note").textContent = where + usual;
    }

    // Describes the most unusual cells in words, also for print and screen readers.
    function drawOdd() {
        const odd = [];
        for (const row of view.rows) {
            const known = row.values.filter((v) => !Number.isNaN(v)).sort((a, b) => a - b);
            row.levels.forEach((level, x) => {
                if (!row.lists[x]) return;
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
            const bad = row.broken[x] ? brokenText(row.lists[x]) + " NaN or Inf" : "";
            const value = `${view.metric.text.toLowerCase()} ${view.metric.show(row.values[x])}, usual ${view.metric.show(usual)}`;
            return el(
                "li",
                {},
                el("button", {
                    type: "button",
                    class: "link",
                    on: { click: () => openCell(row, x) },
                    text: visible(layerText(x) + " \u00b7 " + row.kind, 110),
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
                    `${fitted(visible(s.name, 300), 40, (t) => t.length, true) || "(top)"} (${s.layers.size} layers)`,
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
