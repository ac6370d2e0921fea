// One tensor: what the header says, what was measured, and its histogram.

let openDetail = () => {};

function makeDetail(model) {
    const dialog = byId("detail");
    const state = { tensor: -1, log: false };

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
        const share = (x) => whole(x) + " (" + percentText(x / Math.max(1, model.elements[i])) + ")";
        const list = [
            ["Mean", numberText(s.mean[i])],
            ["Standard deviation", numberText(s.std[i])],
            ["Smallest", numberText(s.min[i])],
            ["Largest", numberText(s.max[i])],
            ["Norm", numberText(s.norm[i])],
            ["Zeros", share(s.zeros[i])],
        ];
        if (s.nan[i] > 0) list.push(["NaN", share(s.nan[i])]);
        if (s.inf[i] > 0) list.push(["Infinite", share(s.inf[i])]);
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
        return list;
    }

    function table(pairs) {
        const list = el("dl", { class: "facts" });
        for (const [label, value] of pairs) list.append(el("dt", { text: label }), el("dd", { text: value }));
        return list;
    }

    function histogram(i, bins) {
        const from = model.stats.min[i];
        const to = model.stats.max[i];
        const W = 360;
        const H = 150;
        const floor = 1e-7;
        const heightOf = (share) =>
            share <= 0 ? 0 : state.log ? Math.max(0.02, 1 + Math.log10(Math.max(share, floor)) / 7) : share;
        const sum = bins.reduce((a, b) => a + b, 0);
        const picture = svgEl("svg", {
            viewBox: `0 0 ${W} ${H + 22}`,
            class: "histogram",
            role: "img",
            "aria-label": `Histogram of ${bins.length} bins from ${numberText(from)} to ${numberText(to)}`,
        });
        const step = W / bins.length;
        bins.forEach((share, k) => {
            const h = share > 0 ? Math.max(0.8, heightOf(share) * (H - 6)) : 0;
            picture.append(
                svgEl("rect", {
                    x: (k * step + 0.4).toFixed(2),
                    y: (H - h).toFixed(2),
                    width: (step - 0.8).toFixed(2),
                    height: h.toFixed(2),
                }),
            );
            const target = svgEl("rect", {
                x: (k * step).toFixed(2),
                y: 0,
                width: step.toFixed(2),
                height: H,
                class: "target",
            });
            const at = (x) => numberText(from + ((to - from) * x) / bins.length);
            target.addEventListener("pointermove", (event) =>
                showTip(event, at(k) + " to " + at(k + 1), [["Values", "about " + percentText(share / sum)]]),
            );
            target.addEventListener("pointerleave", hideTip);
            picture.append(target);
        });
        picture.append(svgEl("line", { x1: 0, y1: H, x2: W, y2: H }));
        if (from < 0 && to > 0) {
            const zero = (-from / (to - from)) * W;
            picture.append(svgEl("line", { x1: zero, y1: 0, x2: zero, y2: H, class: "zero" }));
            if (zero > 70 && zero < W - 70)
                picture.append(svgEl("text", { x: zero, y: H + 16, "text-anchor": "middle", text: "0" }));
        }
        picture.append(
            svgEl("text", { x: 0, y: H + 16, text: numberText(from) }),
            svgEl("text", { x: W, y: H + 16, "text-anchor": "end", text: numberText(to) }),
        );
        return picture;
    }

    function histogramPart(i) {
        const bins = binsOf(i);
        if (!bins) {
            const why = model.hasStats
                ? "No histogram was made for it: tenmap report --hist '"
                : "The report was made without values: leave out --no-stats";
            return el("p", {
                class: "muted",
                text: model.hasStats ? why + "NAME' makes one." : why + " to have them.",
            });
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
            state.log ? "log" : "linear",
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
        );
        return box;
    }

    openDetail = (i) => {
        state.tensor = i;
        hideTip();
        const name = el("h2", { id: "detail-name", text: visible(model.names[i], 2000) || "(no name)" });
        const close = el("button", {
            type: "button",
            class: "quiet close",
            "aria-label": "Close",
            text: "\u00d7",
            on: { click: () => dialog.close() },
        });
        const parts = [el("div", { class: "head" }, name, close), table(facts(i))];
        const diff = changes(i);
        if (diff.length) parts.push(table(diff));
        if (i < model.own) parts.push(histogramPart(i));
        const stats = numbers(i);
        if (stats.length) parts.push(table(stats));
        dialog.replaceChildren(...parts);
        if (!dialog.open) dialog.showModal();
        dialog.scrollTop = 0;
    };
    dialog.addEventListener("click", (event) => {
        if (event.target === dialog) dialog.close();
    });
    dialog.addEventListener("close", hideTip);
}
