// One tensor: the data of the header, the measurements, and the histogram.

let openDetail = () => {};

// The part of the address behind # that opens a tensor: #tensor=model.norm.weight
const LINK = "#tensor=";

function linkedName() {
    if (!location.hash.startsWith(LINK)) return null;
    try {
        return decodeURIComponent(location.hash.slice(LINK.length));
    } catch {
        return null; // not an encoded name
    }
}

function makeDetail(model) {
    const dialog = byId("detail");
    const linkTo = (i) => LINK + encodeURIComponent(model.names[i]);
    const state = { tensor: -1, log: null }; // log: as chosen; null: by what the bins hold

    function facts(i) {
        const form = model.forms[model.form[i]];
        const own = i < model.own;
        const shard = own ? model.raw.shards[model.shard[i]] : null;
        const list = [
            ["Type", visible(model.dtypes[form.dtype].name, 60)],
            ["Shape", shapeText(form.shape)],
            ["Parameters", whole(form.elements)],
            ["Size", bytesText(form.bytes) + " (" + whole(form.bytes) + " bytes)"],
        ];
        if (own)
            list.push(
                ["File", visible(shard.path, 200)],
                ["Bytes in the file", whole(model.offset[i]) + " to " + whole(model.offset[i] + form.bytes)],
            );
        return list;
    }

    function numbers(i) {
        if (!model.measured(i)) return [];
        const s = model.stats;
        const share = (x) => whole(x) + " (" + percentText(x / Math.max(1, model.values(i))) + ")";
        const list = [
            ["Mean", numberText(s.mean[i])],
            ["Standard deviation", numberText(s.std[i])],
            ["Smallest", numberText(s.min[i])],
            ["Largest", numberText(s.max[i])],
            ["Norm", numberText(s.norm[i])],
            ["Zeros", share(s.zeros[i])],
        ];
        if (s.nan[i] > 0) list.push(["NaN", share(s.nan[i]), "alarm"]);
        if (s.inf[i] > 0) list.push(["Infinite", share(s.inf[i]), "alarm"]);
        return list;
    }

    function changes(i) {
        if (!model.diff) return [];
        const d = model.diff;
        const list = [["Compared", STATES[d.state[i]][1]]];
        if (d.otherForm.has(i)) {
            const other = model.forms[d.otherForm.get(i)];
            list.push([
                "In the other",
                visible(model.dtypes[other.dtype].name, 60) + "  " + shapeText(other.shape),
            ]);
        }
        if (d.change[i] > 0) list.push(["Relative change", percentText(d.change[i])]);
        if (d.max[i] > 0) list.push(["Largest difference", numberText(d.max[i])]);
        if (d.share[i] > 0) list.push(["Values that differ", percentText(d.share[i])]);
        const gained = d.gained.get(i) || 0;
        const lost = (d.unlike.get(i) || 0) - gained;
        if (gained) list.push(["Became NaN or infinite", plural(gained, "value"), "alarm"]);
        if (lost > 0) list.push(["NaN or infinite in the other only", plural(lost, "value")]);
        return list;
    }

    function table(pairs) {
        const list = el("dl", { class: "facts" });
        for (const [label, value, tone] of pairs)
            list.append(el("dt", { text: label }), breakable(el("dd", { class: tone }), value));
        return list;
    }

    // Uses enough digits to tell each edge from the next.
    function edgeTexts(edges) {
        for (let digits = 4; digits < 17; digits++) {
            const texts = edges.map((x) => numberText(x, digits));
            if (texts.every((text, k) => !k || text !== texts[k - 1])) return texts;
        }
        return edges.map(String);
    }

    // Draws the ends, and as many edges between them as have room for their numbers.
    function drawEdges(picture, texts, W, H, xOf) {
        const bins = texts.length - 1;
        const wide = (k) => widthOf(texts[k], 11);
        const put = (k, anchor) => {
            const x = xOf(k);
            picture.append(
                svgEl("line", { x1: x, y1: H, x2: x, y2: H + 4, class: "tick" }),
                svgEl("text", { x, y: H + 16, "text-anchor": anchor, text: texts[k], class: "edge" }),
            );
        };
        put(0, "start");
        const fits = (step) => {
            let free = xOf(0) + wide(0) + 8;
            for (let k = step; k < bins; k += step) {
                const x = xOf(k);
                if (x - wide(k) / 2 < free || x + wide(k) / 2 > xOf(bins) - wide(bins) - 8) return false;
                free = x + wide(k) / 2 + 8;
            }
            return true;
        };
        const step = [4, 8, 16, 32].find((n) => n < bins && bins % n === 0 && fits(n)) || bins;
        for (let k = step; k < bins; k += step) put(k, "middle");
        put(bins, "end");
    }

    // If one bin holds nearly everything, as with one outlier, only a log scale shows the others.
    const UNEVEN = 0.9;
    const wantsLog = (bins) =>
        state.log ?? Math.max(...bins) > UNEVEN * bins.reduce((a, b) => a + b, 0);

    // The other model's counts as if it had as many values, in bins as wide as those of this one, so
    // that both can be drawn on one scale.
    function comparable(bins, width, base) {
        const sum = (list) => list.reduce((a, b) => a + b, 0);
        const ratio = (width / ((base.to - base.from) / base.bins.length)) * (sum(bins) / sum(base.bins));
        return base.bins.map((n) => n * ratio);
    }

    // Where things are in a picture of a histogram, and of the other model's if there is one.
    function frameOf(i, bins) {
        const [W, H] = [360, 150];
        const [from, to] = [model.stats.min[i], model.stats.max[i]];
        const base = baseBinsOf(i);
        const counts = base ? comparable(bins, (to - from) / bins.length, base) : [];
        const low = base ? Math.min(from, base.from) : from;
        const high = base ? Math.max(to, base.to) : to;
        const most = Math.max(...bins, ...counts);
        const log = wantsLog(bins);
        const share = (n) => (log ? Math.log1p(n) / Math.log1p(most) : n / most);
        const x = (value) => ((value - low) / (high - low)) * W;
        const height = (n) => (n > 0 ? Math.max(0.8, share(n) * (H - 6)) : 0);
        return { W, H, from, to, base, counts, low, high, x, height };
    }

    function drawBase(picture, frame) {
        const { base, counts, x, height, H } = frame;
        const edges = edgesOf(base.from, base.to, counts.length).map((e) => x(e).toFixed(2));
        const steps = counts.map((n, k) => `V${(H - height(n)).toFixed(2)}H${edges[k + 1]}`);
        picture.append(svgEl("path", { class: "base", d: `M${edges[0]} ${H}${steps.join("")}V${H}` }));
    }

    function drawBar(picture, frame, box, tipText) {
        const { H, height } = frame;
        const h = height(box.count);
        picture.append(
            svgEl("rect", {
                x: (box.x + box.gap / 2).toFixed(2),
                y: (H - h).toFixed(2),
                width: Math.max(0.1, box.w - box.gap).toFixed(2),
                height: h.toFixed(2),
                "data-count": box.count,
            }),
        );
        const target = svgEl("rect", {
            x: box.x.toFixed(2),
            y: 0,
            width: box.w.toFixed(2),
            height: H,
            class: "target",
        });
        target.addEventListener("pointermove", tipText);
        target.addEventListener("pointerleave", hideTip);
        return target;
    }

    function histogram(i, bins) {
        const frame = frameOf(i, bins);
        const { W, H, from, to, low, high, x } = frame;
        const sum = bins.reduce((a, b) => a + b, 0);
        const edges = edgesOf(from, to, bins.length);
        const texts = edgeTexts(edges);
        const picture = svgEl("svg", {
            viewBox: `0 0 ${W} ${H + 22}`,
            class: "histogram",
            role: "img",
            "aria-label": `Histogram of ${bins.length} bins from ${numberText(from)} to ${numberText(to)}`,
        });
        const targets = bins.map((n, k) => {
            const w = x(edges[k + 1]) - x(edges[k]);
            const last = k + 1 === bins.length ? "" : "below ";
            const box = { x: x(edges[k]), w, gap: Math.min(0.8, w / 4), count: n };
            return drawBar(picture, frame, box, (event) =>
                showTip(event, `${texts[k]} to ${last}${texts[k + 1]}`, [
                    ["Values", whole(n)],
                    ["Share", percentText(n / sum)],
                ]),
            );
        });
        if (frame.base) drawBase(picture, frame);
        picture.append(...targets, svgEl("line", { x1: 0, y1: H, x2: W, y2: H }));
        if (low < 0 && high > 0)
            picture.append(svgEl("line", { x1: x(0), y1: 0, x2: x(0), y2: H, class: "zero" }));
        drawEdges(picture, texts, W, H, (k) => x(edges[k]));
        return picture;
    }

    function histogramNote(i, bins) {
        const width = (model.stats.max[i] - model.stats.min[i]) / bins.length;
        const most = Math.max(...bins);
        return el("p", {
            class: "muted note",
            text: `${bins.length} bins of ${numberText(width, 3)}; the fullest holds ${plural(most, "value")}.`,
        });
    }

    function histogramPart(i) {
        const bins = binsOf(i);
        if (!bins) {
            const why = !model.hasStats
                ? "The report was made without values: leave out --no-stats to have them."
                : !model.measured(i)
                  ? "Values of this type are not measured."
                  : model.dtypes[model.dtype[i]].name === "C64"
                    ? "Complex numbers have no order, and so no histogram. The figures are of their parts."
                    : model.elements[i] === 0
                      ? "It has no values."
                      : model.stats.nan[i] + model.stats.inf[i] === model.elements[i]
                        ? "It has no finite value."
                        : "No histogram was made for it: tenmap report --hist NAME makes one.";
            return el("p", { class: "muted", text: why });
        }
        if (model.stats.min[i] === model.stats.max[i]) {
            return el("p", {
                class: "muted",
                text: "Every finite value is " + numberText(model.stats.min[i]) + ".",
            });
        }
        const scale = choice(
            "Height of bars",
            [
                ["linear", "Linear"],
                ["log", "Log"],
            ],
            wantsLog(bins) ? "log" : "linear",
            (value) => {
                state.log = value === "log";
                box.replaceChild(histogram(i, bins), box.querySelector("svg"));
            },
        );
        const box = el(
            "div",
            { class: "histogram-box" },
            el("div", { class: "head" }, el("h3", { text: "Values" }), scale),
            histogram(i, bins),
            histogramNote(i, bins),
        );
        if (baseBinsOf(i))
            box.append(
                el(
                    "div",
                    { class: "legend" },
                    ...swatches([
                        ["var(--bars)", "this model"],
                        ["var(--base-line)", "the other, scaled to as many values"],
                    ]),
                ),
            );
        return box;
    }

    openDetail = (i) => {
        state.tensor = i;
        hideTip();
        const name = breakable(el("h2", { id: "detail-name" }), visible(model.names[i], 2000) || "(no name)");
        const close = el("button", {
            type: "button",
            class: "quiet close",
            "aria-label": "Close",
            autofocus: true,
            text: "\u00d7",
            on: { click: () => dialog.close() },
        });
        const link = el("a", {
            class: "quiet",
            href: linkTo(i),
            title: "The address of this tensor in this report",
            text: "Link",
        });
        const parts = [el("div", { class: "head" }, name, link, close), table(facts(i))];
        const diff = changes(i);
        if (diff.length) parts.push(table(diff));
        if (i < model.own) parts.push(histogramPart(i));
        const stats = numbers(i);
        if (stats.length) parts.push(table(stats));
        dialog.replaceChildren(...parts);
        if (!dialog.open) dialog.showModal();
        dialog.scrollTop = 0;
        history.replaceState(null, "", linkTo(i));
    };
    dialog.addEventListener("click", (event) => {
        if (event.target === dialog) dialog.close();
    });
    dialog.addEventListener("close", () => {
        hideTip();
        if (linkedName() !== null) history.replaceState(null, "", location.href.replace(/#.*$/, ""));
    });

    // Opens the tensor that the address names.
    const openLinked = () => {
        const i = model.names.indexOf(linkedName());
        if (i >= 0) openDetail(i);
    };
    addEventListener("hashchange", openLinked);
    openLinked();
}
