// Files, metadata and findings.

// What a finding's severity means; the data holds an index into this list.
const SEVERITY = [
    ["", "none"],
    ["note", "notes only"],
    ["warning", "warnings"],
    ["error", "errors"],
];

function makeFiles(model) {
    const { raw } = model;
    const total = raw.shards.reduce((sum, s) => sum + s.size, 0);
    const several = raw.shards.length > 1;
    const rows = raw.shards.map((s) => [
        breakable(el("span"), visible(s.path, 120)),
        whole(s.tensors),
        bytesText(s.header),
        bytesText(s.bytes),
        bytesText(s.size),
        ...(several ? [percentText(share(s.size, total)), meter(s.size, total)] : []),
    ]);
    byId("shards").append(
        grid(
            [
                ["File", "path"],
                ["Tensors", "number"],
                ["Header", "number narrow"],
                ["Tensor data", "number narrow"],
                ["Size", "number"],
                ...(several
                    ? [
                          ["Of all files", "number narrow"],
                          ["", "wide narrow"],
                      ]
                    : []),
            ],
            rows,
        ),
    );
    if (raw.missing.length) {
        byId("shards").append(
            el("p", {
                class: "alarm",
                text:
                    "Missing: " +
                    raw.missing
                        .slice(0, 10)
                        .map((p) => visible(p, 100))
                        .join(", ") +
                    (raw.missing.length > 10 ? ` and ${raw.missing.length - 10} more` : ""),
            }),
        );
    }
    makeMetadata(raw);
    makeFindings(model);
}

function metadataValue(value) {
    const shown = visible(value, 20000);
    if (shown.length <= 160) return el("span", { text: shown });
    const box = el(
        "details",
        {},
        el("summary", { text: shown.slice(0, 120) + "\u2026" }),
        el("pre", { text: shown }),
    );
    return box;
}

// Shards mostly repeat each other's metadata: each pair is shown once, with the files that have it.
function samePairs(metadata) {
    const seen = new Map();
    for (const [shard, key, value] of metadata) {
        const id = JSON.stringify([key, value]);
        if (!seen.has(id)) seen.set(id, { key, value, shards: [] });
        seen.get(id).shards.push(shard);
    }
    return [...seen.values()];
}

function filesText(shards, files) {
    if (shards.length === files) return "all";
    const first = shards.slice(0, 6).map((s) => s + 1);
    return first.join(", ") + (shards.length > 6 ? ` and ${shards.length - 6} more` : "");
}

function makeMetadata(raw) {
    const host = byId("metadata");
    const other = raw.base_metadata;
    if (!raw.metadata.length && !(other && other.length)) {
        host.append(el("p", { class: "muted", text: "The header holds no metadata." }));
        return;
    }
    if (!other) {
        const files = raw.shards.length;
        const pairs = samePairs(raw.metadata);
        const apart = pairs.some((p) => p.shards.length < files);
        const rows = pairs.map(({ key, value, shards }) => [
            breakable(el("span"), visible(key, 120)),
            metadataValue(value),
            ...(apart ? [filesText(shards, files)] : []),
        ]);
        host.append(grid([["Key", "key"], ["Value", ""], ...(apart ? [["In files", "number"]] : [])], rows));
        if (files > 1 && !apart)
            host.append(el("p", { class: "muted after", text: `The same in all ${files} files.` }));
    } else {
        const here = new Map(raw.metadata.map(([, key, value]) => [key, value]));
        const there = new Map(other.map(([, key, value]) => [key, value]));
        const keys = [...new Set([...here.keys(), ...there.keys()])];
        const cell = (map, key) =>
            map.has(key) ? metadataValue(map.get(key)) : el("span", { class: "muted", text: "none" });
        host.append(
            grid(
                [
                    ["Key", "key"],
                    ["This model", "half"],
                    ["The other", "half"],
                ],
                keys.map((key) => {
                    const name = el("span", {
                        text: visible(key, 120),
                        class: here.get(key) === there.get(key) ? "" : "differs",
                    });
                    return [name, cell(here, key), cell(there, key)];
                }),
            ),
        );
    }
    if (raw.metadata_omitted)
        host.append(
            el("p", {
                class: "muted",
                text: `and ${whole(raw.metadata_omitted)} more pairs, or parts of values, that are too long for this page`,
            }),
        );
}

// Findings of one kind are shown once, with their number; the others can be unfolded.
function sameFindings(findings) {
    const seen = new Map();
    for (const f of [...findings].sort((a, b) => b.severity - a.severity)) {
        const id = f.severity + f.code;
        if (!seen.has(id)) seen.set(id, []);
        seen.get(id).push(f);
    }
    return [...seen.values()];
}

function findingText(group) {
    const [first, ...others] = group;
    const box = el("div", {}, el("div", { text: visible(first.message, 600) }));
    if (!others.length) return box;
    const list = el("ul");
    for (const f of others.slice(0, 500)) list.append(el("li", { text: visible(f.message, 600) }));
    if (others.length > 500) list.append(el("li", { text: `and ${whole(others.length - 500)} more` }));
    box.append(el("details", {}, el("summary", { text: `and ${whole(others.length)} more like it` }), list));
    return box;
}

// Values this many standard deviations from the mean are outliers: one of them sets the scale of a
// whole row or tensor when it is quantized.
const OUTLIER = 30;

function deviations(model, i) {
    const { min, max, mean, std } = model.stats;
    return std[i] > 0 ? Math.max(max[i] - mean[i], mean[i] - min[i]) / std[i] : 0;
}

const countIn = (values) => (model, i) => whole(values(model)[i]);

// Rows (or columns) of a tensor, each of which holds one value only.
const deadKind = (line) => ({
    what: `dead ${line}s, each of one value only`,
    severity: 1,
    is: (m, i) => m.dead[line].has(i),
    detail: (m, i) => {
        const { zero, constant, count, first } = m.dead[line].get(i);
        const zeros = zero && constant ? `, ${whole(zero)} all zeros` : zero ? ", all zeros" : "";
        return `${whole(zero + constant)} of ${whole(count)}${zeros}, the first is ${line} ${whole(first)}`;
    },
});

// What is wrong with values, by kind: warnings as in check --values, then notes. `detail` is shown
// behind a tensor's name.
const VALUE_KINDS = [
    {
        what: "NaN",
        severity: 2,
        is: (m, i) => m.measured(i) && m.stats.nan[i] > 0,
        detail: countIn((m) => m.stats.nan),
    },
    {
        what: "infinite values",
        severity: 2,
        is: (m, i) => m.measured(i) && m.stats.inf[i] > 0,
        detail: countIn((m) => m.stats.inf),
    },
    {
        what: "NaN or infinite values",
        severity: 2,
        is: (m, i) => !m.measured(i) && m.flags[i] === FLAG_BROKEN,
    },
    { what: "nothing but zeros", severity: 2, is: (m, i) => m.flags[i] === FLAG_ZERO },
    {
        what: `outliers, ${OUTLIER} standard deviations or more from the mean`,
        severity: 1,
        is: (m, i) => m.measured(i) && deviations(m, i) >= OUTLIER,
        detail: (m, i) => {
            const [min, max] = [m.stats.min[i], m.stats.max[i]].map((x) => numberText(x));
            return `${min} to ${max}, ${whole(Math.floor(deviations(m, i)))} deviations`;
        },
    },
    {
        what: "one value only",
        severity: 1,
        is: (m, i) => m.elements[i] > 1 && m.stats.min[i] === m.stats.max[i] && !m.flags[i],
        detail: (m, i) => numberText(m.stats.min[i]),
    },
    deadKind("row"),
    deadKind("column"),
];

function valueFindings(model) {
    const kinds = VALUE_KINDS.filter((k) => model.hasStats || k.what === "NaN or infinite values");
    const found = kinds.map((kind) => ({ ...kind, list: [] }));
    for (let i = 0; i < model.own; i++)
        for (const kind of found) if (kind.is(model, i)) kind.list.push(i);
    return found.filter((kind) => kind.list.length);
}

const findingCount = (model) =>
    model.raw.findings.length +
    model.raw.findings_omitted +
    model.valueFindings.reduce((sum, { list }) => sum + list.length, 0);

function valueFindingText(model, { what, list, detail }) {
    const text = el("div", {}, document.createTextNode(plural(list.length, "tensor")));
    text.append(document.createTextNode((list.length === 1 ? " holds " : " hold ") + what + ": "));
    list.slice(0, 5).forEach((i, k) => {
        const link = el("button", { type: "button", class: "link", on: { click: () => openDetail(i) } });
        text.append(
            ...(k ? [document.createTextNode(", ")] : []),
            breakable(link, visible(model.names[i], 200) || "(no name)"),
            document.createTextNode(detail ? ` (${detail(model, i)})` : ""),
        );
    });
    if (list.length > 5)
        text.append(
            document.createTextNode(" and "),
            el("button", {
                type: "button",
                class: "link",
                text: `${whole(list.length - 5)} more`,
                on: { click: () => showTensors(list, what) },
            }),
        );
    return text;
}

function makeFindings(model) {
    const { raw } = model;
    const host = byId("finding-list");
    const badge = (severity) => el("span", { class: "badge " + severity, text: severity });
    const rows = sameFindings(raw.findings).map((group) => [
        badge(SEVERITY[Math.min(group[0].severity, 3)][0]),
        findingText(group),
        group.length > 1 ? "\u00d7" + SPACE + whole(group.length) : "",
        group.length > 1 || group[0].offset === null ? "" : whole(group[0].offset),
    ]);
    for (const finding of model.valueFindings) {
        const { severity, list } = finding;
        const before = sameFindings(raw.findings).filter(([f]) => f.severity > severity).length;
        rows.splice(before + model.valueFindings.indexOf(finding), 0, [
            badge(SEVERITY[severity][0]),
            valueFindingText(model, finding),
            list.length > 1 ? "\u00d7" + SPACE + whole(list.length) : "",
            "",
        ]);
    }
    if (!rows.length) {
        const checked = model.hasStats
            ? "Nothing found: the files keep every rule of the format, and no tensor holds NaN, infinities, outliers or one value only."
            : "Nothing found: the files keep every rule of the format. Values were not looked at.";
        host.append(el("p", { class: "good", text: raw.checked ? checked : "The files were not checked." }));
        return;
    }
    const heads = [
        ["", "tight"],
        ["Finding", ""],
        ["", "number"],
        ["Byte", "number narrow"],
    ];
    host.append(grid(heads, rows));
    if (raw.findings_omitted)
        host.append(el("p", { class: "muted after", text: `and ${whole(raw.findings_omitted)} more` }));
}
