// The map: a squarified treemap over the paths of the names. A click or Enter goes down one level,
// Escape goes up. Only what is large enough to see is laid out, so the cost does not grow with the
// model; the rest of a group is drawn as one hatched area.

const LEAST_AREA = 70; // in square pixels, on the average: a group of smaller parts is drawn as one
const LAYER_RAMP = ["#3b4a8c", "#2f7f9e", "#35a583", "#9cc04a", "#f2c84b"];

// The share of the bytes that the most common type has.
function mainShare(model) {
    const sums = model.dtypes.map(() => 0);
    for (let i = 0; i < model.n; i++) sums[model.dtype[i]] += model.bytes[i];
    const total = sums.reduce((a, b) => a + b, 0);
    return Math.max(...sums) / Math.max(1, total);
}

function makeTreemap(model) {
    const root = buildTree(model);
    const layers = { least: Infinity, most: -Infinity };
    for (const layer of model.places.layer) {
        if (layer < 0) continue;
        layers.least = Math.min(layers.least, layer);
        layers.most = Math.max(layers.most, layer);
    }
    // Where one type has nearly all the bytes, colour says more about layers, if there are any.
    const typed = mainShare(model) < 0.95 || layers.most < 0;
    const state = { node: root, measure: "bytes", color: model.diff ? "change" : typed ? "dtype" : "layer" };
    const host = byId("treemap");

    const colorings = {
        dtype: (i) => model.dtypes[model.dtype[i]].color,
        layer: (i) => {
            const layer = model.places.layer[i];
            return layer < 0
                ? css("--other")
                : ramp(LAYER_RAMP, (layer - layers.least) / Math.max(1, layers.most - layers.least));
        },
        change: (i) => changeColor(model, i),
    };

    function draw() {
        const width = host.clientWidth;
        const height = Math.round(Math.max(320, Math.min(560, width * 0.52)));
        const picture = svgEl("svg", {
            viewBox: `0 0 ${width} ${height}`,
            width,
            height,
            role: "group",
            "aria-label": "Treemap of " + (pathText(state.node) || "the whole model"),
        });
        picture.append(
            svgEl(
                "defs",
                {},
                svgEl(
                    "pattern",
                    {
                        id: "hatch",
                        width: 6,
                        height: 6,
                        patternUnits: "userSpaceOnUse",
                        patternTransform: "rotate(45)",
                    },
                    svgEl("rect", { width: 6, height: 6, fill: css("--hatch-a") }),
                    svgEl("rect", { width: 3, height: 6, fill: css("--hatch-b") }),
                ),
            ),
        );
        const total = state.node[state.measure];
        const items =
            total > 0 ? joinSmall(itemsOf(model, state.node, state.measure), width * height, total) : [];
        if (!items.length)
            picture.append(
                svgEl("text", { x: 16, y: 32, class: "hint", text: "No data here: every tensor is empty." }),
            );
        squarify(items, { x: 0, y: 0, w: width, h: height }, (item, box) =>
            picture.append(topItem(item, box)),
        );
        host.replaceChildren(picture);
        drawCrumbs();
        drawLegend();
    }

    // One focusable group per item of the current level, with what is inside it drawn in it.
    function topItem(item, box) {
        const g = svgEl("g", {
            class: item.rest ? "rest" : "item",
            tabindex: item.rest ? null : 0,
            role: item.rest ? null : "button",
            "aria-label": item.rest ? null : describe(item),
        });
        drawItem(g, item, box, 0);
        if (item.rest) return g;
        const open = () => (item.node ? zoom(item.node) : openDetail(item.tensor));
        g.addEventListener("click", (event) => {
            hideTip();
            const inner = event.target.zoomTo;
            if (inner) zoom(inner);
            else open();
        });
        g.addEventListener("keydown", (event) => {
            if (event.key !== "Enter" && event.key !== " ") return;
            event.preventDefault();
            open();
        });
        return g;
    }

    function drawItem(g, item, box, depth) {
        const gap = depth === 0 ? 1.5 : 0.75;
        const r = { x: box.x + gap, y: box.y + gap, w: box.w - 2 * gap, h: box.h - 2 * gap };
        if (r.w < 0.8 || r.h < 0.8) {
            r.x = box.x;
            r.y = box.y;
            r.w = box.w;
            r.h = box.h;
        }
        const inside = item.node && r.w > 26 && r.h > 26 ? itemsOf(model, item.node, state.measure) : null;
        if (inside && r.w * r.h > LEAST_AREA * inside.length) drawGroup(g, item, inside, r, depth);
        else drawLeaf(g, item, r);
    }

    function rect(r, attributes) {
        const f = (x) => x.toFixed(1);
        return svgEl("rect", {
            x: f(r.x),
            y: f(r.y),
            width: f(Math.max(0, r.w)),
            height: f(Math.max(0, r.h)),
            ...attributes,
        });
    }

    function drawGroup(g, item, parts, r, depth) {
        const strip = r.w > 54 && r.h > 44 ? 18 : 0;
        const frame = rect(r, { class: "frame d" + Math.min(depth, 2), rx: 3 });
        frame.zoomTo = item.node;
        frame.item = item;
        g.append(frame);
        if (strip) {
            const text = label(item.label, r.w - 12, true);
            const size = bytesOrCount(item.value);
            const fits = widthOf(text, true) + widthOf(size) + 12 < r.w - 12;
            const name = svgEl("text", {
                x: (r.x + 6).toFixed(1),
                y: (r.y + 13).toFixed(1),
                class: "group",
                text,
            });
            name.zoomTo = item.node;
            g.append(name);
            if (fits)
                g.append(
                    svgEl("text", {
                        x: (r.x + r.w - 6).toFixed(1),
                        y: (r.y + 13).toFixed(1),
                        class: "group size",
                        text: size,
                    }),
                );
        }
        const inside = {
            x: r.x + 2,
            y: r.y + Math.max(2, strip),
            w: r.w - 4,
            h: r.h - Math.max(2, strip) - 2,
        };
        squarify(joinSmall(parts, inside.w * inside.h, item.value), inside, (child, box) =>
            drawItem(g, child, box, depth + 1),
        );
    }

    function drawLeaf(g, item, r) {
        const tensor = item.node ? item.node.largest : item.tensor;
        const color = tensor >= 0 ? colorings[state.color](tensor) : null;
        const shape = rect(r, { fill: color || "url(#hatch)", rx: 2, class: "leaf" });
        shape.item = item;
        g.append(shape);
        if (r.w < 28 || r.h < 18) return;
        const ink = color ? inkOn(color) : css("--ink");
        const text = label(item.label, r.w - 9);
        if (text)
            g.append(
                svgEl("text", {
                    x: (r.x + 5).toFixed(1),
                    y: (r.y + 14).toFixed(1),
                    class: "leaf",
                    fill: ink,
                    text,
                }),
            );
        const size = bytesOrCount(item.value);
        if (r.h > 36 && widthOf(size) < r.w - 9) {
            g.append(
                svgEl("text", {
                    x: (r.x + 5).toFixed(1),
                    y: (r.y + 28).toFixed(1),
                    class: "leaf size",
                    fill: ink,
                    text: size,
                }),
            );
        }
    }

    // As much of a text as fits, by the width that its font gives it.
    const pen = document.createElement("canvas").getContext("2d");
    const widthOf = (text, bold) => {
        pen.font =
            (bold ? "550 " : "") +
            "11.5px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
        return pen.measureText(text).width;
    };

    function label(text, room, bold) {
        let shown = visible(text, 80);
        if (widthOf(shown, bold) > room) shown = shown.replace(/\.weight$/, "");
        if (widthOf(shown, bold) <= room) return shown;
        let most = shown.length;
        while (most > 2 && widthOf(shown.slice(0, most) + "\u2026", bold) > room) most--;
        return most > 2 ? shown.slice(0, most) + "\u2026" : "";
    }

    const bytesOrCount = (value) => (state.measure === "bytes" ? bytesText(value) : countText(value));

    function describe(item) {
        const what = item.node ? plural(item.node.count, "tensor") : "tensor";
        return visible(item.label, 120) + ", " + bytesOrCount(item.value) + ", " + what;
    }

    host.addEventListener("pointermove", (event) => {
        const { item } = event.target;
        if (item) showTip(event, tipTitle(item), tipRows(item));
        else hideTip();
    });
    host.addEventListener("pointerleave", hideTip);

    function tipTitle(item) {
        if (item.rest) return plural(item.rest, "smaller part");
        return visible(item.node ? pathText(item.node) : model.names[item.tensor], 160);
    }

    function tipRows(item) {
        const total = root[state.measure];
        const rows = [
            [state.measure === "bytes" ? "Size" : "Parameters", bytesOrCount(item.value)],
            ["Share of the model", percentText(item.value / total)],
        ];
        if (item.node) rows.push(["Tensors", whole(item.node.count)]);
        if (item.tensor < 0) return rows;
        const form = model.forms[model.form[item.tensor]];
        rows.push([
            "Type and shape",
            visible(model.dtypes[form.dtype].name, 40) + "  " + shapeText(form.shape),
        ]);
        if (model.diff) rows.push(["Change", changeText(model, item.tensor)]);
        return rows;
    }

    function zoom(node) {
        const focused = host.contains(document.activeElement);
        state.node = node;
        draw();
        const first = host.querySelector("g.item");
        if (first && focused) first.focus();
    }

    function up() {
        let at = state.node.parent;
        while (at && at.parent && at.kids.size === 1 && at.leaves.length === 0) at = at.parent;
        if (at) zoom(at);
    }

    host.addEventListener("keydown", (event) => {
        const items = [...host.querySelectorAll("g.item")];
        const at = items.indexOf(document.activeElement);
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (step && at >= 0) {
            event.preventDefault();
            items[(at + step + items.length) % items.length].focus();
        } else if (event.key === "Escape" || event.key === "Backspace") {
            event.preventDefault();
            up();
            const first = host.querySelector("g.item");
            if (first) first.focus();
        }
    });

    function pathText(node) {
        const parts = [];
        for (let at = node; at && at.parent; at = at.parent) parts.unshift(at.label);
        return parts.join(".");
    }

    function drawCrumbs() {
        const trail = [];
        for (let at = state.node; at; at = at.parent) trail.unshift(at);
        const crumbs = trail
            .slice(0, 1)
            .concat(trail.slice(1).slice(-8))
            .map((node) =>
                el("button", {
                    type: "button",
                    text: node.parent ? visible(node.label, 40) : "all",
                    disabled: node === state.node,
                    "aria-current": node === state.node ? "location" : null,
                    on: { click: () => zoom(node) },
                }),
            );
        const note =
            plural(state.node.count, "tensor") +
            ", " +
            bytesText(state.node.bytes) +
            ", " +
            countText(state.node.elements) +
            " parameters";
        byId("crumbs").replaceChildren(...crumbs, el("span", { class: "muted", text: note }));
    }

    function drawLegend() {
        const legends = {
            dtype: () => swatches(model.dtypes.map((d) => [d.color, visible(d.name, 40)])),
            layer: () => [
                ...scaleBar(LAYER_RAMP, "layer " + layers.least, String(layers.most)),
                ...swatches([[css("--other"), "outside layers"]]),
            ],
            change: () => changeLegend(),
        };
        const known = state.color !== "layer" || layers.most >= 0;
        byId("map-legend").replaceChildren(
            ...(known ? legends[state.color]() : swatches([[css("--other"), "no numbered layers"]])),
        );
    }

    const again = (key) => (value) => {
        state[key] = value;
        draw();
    };
    const colors = [
        ["dtype", "Type"],
        ["layer", "Layer"],
    ];
    if (model.diff) colors.unshift(["change", "Change"]);
    byId("map-controls").append(
        choice(
            "Area",
            [
                ["bytes", "Bytes"],
                ["elements", "Parameters"],
            ],
            state.measure,
            again("measure"),
        ),
        choice("Colour", colors, state.color, again("color")),
    );
    redraws.push(draw);
    draw();
}
