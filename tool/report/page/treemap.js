// The treemap: a squarified treemap over the paths of the names. A click or Enter goes down one
// level, Escape goes up. Only items that are large enough to see are laid out, so the cost does not
// grow with the model; the rest of a group is drawn as one hatched area.

const LEAST_AREA = 70; // in square pixels, on average: a group of smaller items is drawn as one
const LAYER_RAMP = ["#3b4a8c", "#2f7f9e", "#35a583", "#9cc04a", "#f2c84b"];

// Returns the share of the bytes that the most common type has.
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
    // If one type has nearly all the bytes, color shows layers instead, if there are any.
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
            "aria-label": "Treemap of " + (visible(pathOf(model, state.node), 160) || "the whole model"),
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

    // Draws one focusable group per item of the current level, with its contents inside.
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
            const text = label(item, r.w - 12, 550);
            const size = bytesOrCount(item.value);
            const fits = text && widthOf(text, 11.5, 550) + widthOf(size) + 12 < r.w - 12;
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
        const ink = color ? inkOn(color) : css("--ink");
        const marked = drawMark(g, item, r, ink);
        if (r.w < 28 || r.h < 18) return;
        const room = r.w - 9 - (marked ? 12 : 0);
        const line = (text, y, size) =>
            g.append(
                svgEl("text", {
                    x: (r.x + 5).toFixed(1),
                    y: (r.y + y).toFixed(1),
                    class: "leaf" + size,
                    fill: ink,
                    text,
                }),
            );
        const text = label(item, room);
        if (text) line(text, 14, "");
        const size = bytesOrCount(item.value);
        if (text && r.h > 36 && widthOf(size) < r.w - 9) line(size, 28, " size");
    }

    // NaN, infinities and all-zero tensors are marked by shape, whatever the colors show.
    function drawMark(g, item, r, ink) {
        if (!item.flag || r.w < 9 || r.h < 9) return false;
        const x = r.x + r.w - 7;
        const y = r.y + 7;
        const mark = { fill: "none", stroke: ink, "stroke-width": 1.6, class: "mark" };
        if (item.flag === FLAG_BROKEN)
            g.append(
                svgEl("path", {
                    ...mark,
                    d: `M${x - 3.5} ${y - 3.5}l7 7m0 -7l-7 7`,
                    "data-flag": "broken",
                }),
            );
        else g.append(svgEl("circle", { ...mark, cx: x, cy: y, r: 3.2, "data-flag": "zero" }));
        return r.w >= 28;
    }

    // Leaves out what an item has in common with its neighbors first, then its end or its
    // beginning.
    function label(item, room, weight) {
        const width = (text) => widthOf(text, 11.5, weight);
        const shown = visible(item.label, 200);
        if (width(shown) <= room) return shown;
        const bare = item.label.replace(/\.weight$/, "");
        const short = visible(bare, 200);
        if (width(short) <= room) return short;
        const head = fitted(short, room, width);
        // The rest must differ from the neighbors' labels; otherwise the part that they share is
        // cut.
        if (head && head.length - 1 >= (item.apart || 0) && !item.shared) return head;
        let cut = Math.min(item.apart || 0, bare.length) - 1;
        while (cut > 0 && !isSeparator(bare.charCodeAt(cut - 1))) cut--;
        const own = cut > 0 ? visible("\u2026" + bare.slice(cut), 200) : short;
        return width(own) <= room ? own : fitted(own, room, width, cut > 0);
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
        return visible(item.node ? pathOf(model, item.node) : model.names[item.tensor], 160);
    }

    function tipRows(item) {
        const total = root[state.measure];
        const rows = [
            [state.measure === "bytes" ? "Size" : "Parameters", bytesOrCount(item.value)],
            ["Share of the model", percentText(item.value / total)],
        ];
        if (item.node) rows.push(["Tensors", whole(item.node.count)]);
        if (item.flag && item.tensor < 0) rows.push(["In it", FLAG_TEXT[item.flag]]);
        if (item.tensor < 0) return rows;
        const form = model.forms[model.form[item.tensor]];
        rows.push([
            "Type and shape",
            visible(model.dtypes[form.dtype].name, 40) + "  " + shapeText(form.shape),
        ]);
        if (model.diff) rows.push(["Change", changeText(model, item.tensor)]);
        if (item.flag) rows.push(["Values", flagText(model, item.tensor)]);
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

    const ownLabel = (node) => model.names[node.sample].slice(node.parent.end + 1, node.end);

    function drawCrumbs() {
        const trail = [];
        for (let at = state.node; at; at = at.parent) trail.unshift(at);
        const crumbs = trail
            .slice(0, 1)
            .concat(trail.slice(1).slice(-8))
            .map((node) =>
                el("button", {
                    type: "button",
                    text: node.parent ? visible(ownLabel(node), 60) : "all",
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
            change: () => changeLegend(model),
        };
        const marks = [...new Set(model.flags)].filter(Boolean).sort((a, b) => b - a);
        const known = state.color !== "layer" || layers.most >= 0;
        byId("map-legend").replaceChildren(
            ...(known ? legends[state.color]() : swatches([[css("--other"), "no numbered layers"]])),
            ...marks.map((flag) =>
                el(
                    "span",
                    {},
                    el("b", { class: "sign", text: flag === FLAG_BROKEN ? "\u00d7" : "\u25cb" }),
                    document.createTextNode(FLAG_TEXT[flag]),
                ),
            ),
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
        choice("Color", colors, state.color, again("color")),
    );
    redraws.push(draw);
    draw();
}
