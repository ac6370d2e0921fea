// The overview: figures, element types, shapes, and in a comparison what changed.

function makeOverview(model) {
    const { raw } = model;
    const baseName = (path) =>
        path
            .replace(/[/\\]+$/, "")
            .split(/[/\\]/)
            .pop() || path;
    const title = visible(raw.title || baseName(raw.model.path), 120) || "model";
    byId("title").textContent = title;
    const path = visible(raw.model.path, 200);
    byId("subtitle").textContent = raw.base
        ? "compared with " + visible(raw.base.path, 200)
        : path === title
          ? ""
          : path;
    byId("profile").textContent = visible(raw.model.profile || "", 400);
    byId("profile").hidden = !raw.model.profile;
    byId("made").textContent =
        `Made by ${visible(raw.tool, 60)}. This page is complete in itself: it loads nothing and sends nothing.`;

    const own = { bytes: 0, elements: 0 };
    for (let i = 0; i < model.own; i++) {
        own.bytes += model.bytes[i];
        own.elements += model.elements[i];
    }
    model.valueFindings = valueFindings(model);
    const worst = [...raw.findings, ...model.valueFindings].reduce(
        (most, f) => Math.max(most, f.severity),
        0,
    );
    const alarms = model.valueFindings.filter((f) => f.severity > 1);
    const tiles = [
        ["Parameters", countText(own.elements), whole(own.elements)],
        ["Tensor data", bytesText(own.bytes), whole(own.bytes) + " bytes"],
        ["Tensors", whole(model.own), ""],
        [raw.shards.length === 1 ? "File" : "Files", String(raw.shards.length), bytesText(raw.model.size)],
        [
            "Bits per parameter",
            own.elements ? numberText(Number(((own.bytes * 8) / own.elements).toFixed(2))) : "\u2013",
            "",
        ],
        [
            "Findings",
            whole(findingCount(model)),
            alarms.length
                ? alarms[0].what === "nothing but zeros"
                    ? "tensors of zeros"
                    : "NaN or infinite values"
                : SEVERITY[Math.min(worst, 3)][1],
            "findings",
        ],
    ];
    byId("tiles").replaceChildren(
        ...tiles.map(([label, value, note, href]) =>
            el(
                href ? "a" : "div",
                { class: "tile" + (href && worst > 1 ? " alarm" : ""), href: href ? "#" + href : null },
                el("span", { class: "label", text: label }),
                el("span", { class: "value", text: value }),
                el("span", { class: "note", text: note }),
            ),
        ),
    );

    const sums = model.dtypes.map((d) => ({ ...d, bytes: 0, elements: 0, count: 0 }));
    const shapes = new Map();
    for (let i = 0; i < model.own; i++) {
        const sum = sums[model.dtype[i]];
        sum.bytes += model.bytes[i];
        sum.elements += model.elements[i];
        sum.count++;
        shapes.set(model.form[i], (shapes.get(model.form[i]) || 0) + 1);
    }
    drawDtypes(
        sums.filter((s) => s.count).sort((a, b) => b.bytes - a.bytes),
        own.bytes,
    );
    drawShapes(model, shapes, own.bytes);
    if (model.diff) drawChanges(model);
}

function share(part, total) {
    return total > 0 ? part / total : 0;
}

function meter(part, total, color) {
    const bar = el("i", { class: "fill" });
    bar.style.width = (100 * share(part, total)).toFixed(2) + "%";
    if (color) bar.style.background = color;
    return el("span", { class: "meter" }, bar);
}

// A grid: the class of each column, then the rows.
function grid(heads, rows) {
    const table = el("table", { class: "grid" });
    table.append(
        el(
            "thead",
            {},
            el("tr", {}, ...heads.map(([text, kind]) => el("th", { text, class: kind, scope: "col" }))),
        ),
    );
    const body = el("tbody");
    for (const cells of rows) {
        body.append(
            el(
                "tr",
                {},
                ...cells.map((cell, i) => {
                    const box = el("td", { class: heads[i][1] });
                    if (cell instanceof Node) box.append(cell);
                    else box.textContent = cell;
                    return box;
                }),
            ),
        );
    }
    table.append(body);
    return table;
}

function drawDtypes(sums, total) {
    const bar = el("div", {
        class: "stack",
        role: "img",
        "aria-label": sums
            .map((s) => `${visible(s.name, 40)} ${percentText(share(s.bytes, total))}`)
            .join(", "),
    });
    for (const s of sums.filter((sum) => sum.bytes)) {
        const part = el("i");
        part.style.flexGrow = String(share(s.bytes, total));
        part.style.background = s.color;
        bar.append(part);
    }
    const rows = sums.map((s) => [
        swatches([[s.color, visible(s.name, 24)]])[0],
        whole(s.count),
        countText(s.elements),
        bytesText(s.bytes),
        percentText(share(s.bytes, total)),
    ]);
    byId("dtypes").append(
        bar,
        grid(
            [
                ["Type", ""],
                ["Tensors", "number"],
                ["Parameters", "number narrow"],
                ["Size", "number"],
                ["Share", "number"],
            ],
            rows,
        ),
    );
}

function drawShapes(model, shapes, total) {
    const all = [...shapes].map(([form, count]) => ({
        form: model.forms[form],
        count,
        bytes: count * model.forms[form].bytes,
    }));
    all.sort((a, b) => b.bytes - a.bytes);
    const rows = all
        .slice(0, 7)
        .map((s) => [
            shapeText(s.form.shape),
            visible(model.dtypes[s.form.dtype].name, 14),
            whole(s.count),
            bytesText(s.bytes),
            meter(s.bytes, total, model.dtypes[s.form.dtype].color),
        ]);
    byId("shapes").append(
        grid(
            [
                ["Shape", ""],
                ["Type", ""],
                ["Tensors", "number"],
                ["Size", "number"],
                ["", "wide narrow"],
            ],
            rows,
        ),
    );
    if (all.length > 7)
        byId("shapes").append(
            el("p", { class: "muted", text: `and ${plural(all.length - 7, "other shape")}` }),
        );
}

// The tensors to look at first; the table has the others in the same order.
const MOST_CHANGED = 12;

function mostChanged(model) {
    const rank = (i) => changeRank(model, i);
    const seen = [];
    for (let i = 0; i < model.n; i++) {
        const state = STATES[model.diff.state[i]][0];
        if (state === "gained" || model.diff.change[i] > 0) seen.push(i);
    }
    seen.sort((a, b) => rank(b) - rank(a) || a - b);
    const box = el("div", {}, el("h3", { text: seen.length ? "Most changed" : "" }));
    const list = el("ol", { class: "odd" });
    for (const i of seen.slice(0, MOST_CHANGED)) {
        const link = el("button", { type: "button", class: "link", on: { click: () => openDetail(i) } });
        const gained = model.diff.gained.get(i);
        list.append(
            el(
                "li",
                {},
                breakable(link, visible(model.names[i], 200) || "(no name)"),
                el("span", {
                    class: gained ? "alarm" : "muted",
                    text:
                        " " +
                        (gained ? whole(gained) + " became NaN or Inf" : percentText(model.diff.change[i])),
                }),
            ),
        );
    }
    box.append(list);
    if (seen.length > MOST_CHANGED)
        box.append(
            el("button", {
                type: "button",
                class: "link",
                text: `and ${whole(seen.length - MOST_CHANGED)} more`,
                on: { click: () => showTensors(seen, "most changed") },
            }),
        );
    return box;
}

function drawChanges(model) {
    const rows = STATES.map(([key, text]) => ({ key, text, count: 0, bytes: 0 }));
    for (let i = 0; i < model.n; i++) {
        rows[model.diff.state[i]].count++;
        rows[model.diff.state[i]].bytes += model.bytes[i];
    }
    const total = rows.reduce((sum, r) => sum + r.bytes, 0);
    const tone = {
        same: "--same",
        changed: "--changed",
        reshaped: "--reshaped",
        added: "--added",
        removed: "--removed",
        unread: "--other",
        gained: "--gained",
    };
    rows.unshift(rows.pop()); // tensors that gained NaN come first
    const box = byId("changes");
    const bar = el("div", { class: "stack" });
    for (const r of rows.filter((row) => row.bytes)) {
        const part = el("i");
        part.style.flexGrow = String(share(r.bytes, total));
        part.style.background = `var(${tone[r.key]})`;
        bar.append(part);
    }
    const seen = rows.filter((r) => r.count);
    const list = seen.map((r) => [
        swatches([[`var(${tone[r.key]})`, r.text[0].toUpperCase() + r.text.slice(1)]])[0],
        whole(r.count),
        bytesText(r.bytes),
        percentText(share(r.bytes, total)),
    ]);
    const table = grid(
        [
            ["Change", ""],
            ["Tensors", "number"],
            ["Size", "number"],
            ["Share", "number"],
        ],
        list,
    );
    box.append(bar, el("div", { class: "pair side" }, table, mostChanged(model)));
    box.hidden = false;
}
