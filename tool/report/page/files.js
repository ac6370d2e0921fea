// Files, metadata and findings.

// What a finding's severity means; the data holds the place in this list.
const SEVERITY = [
    ["", "none"],
    ["note", "notes only"],
    ["warning", "warnings"],
    ["error", "errors"],
];

function makeFiles(model) {
    const { raw } = model;
    const most = raw.shards.reduce((size, s) => Math.max(size, s.size), 1);
    const rows = raw.shards.map((s) => [
        visible(s.path, 120),
        whole(s.tensors),
        bytesText(s.bytes),
        bytesText(s.header),
        bytesText(s.size),
        percentText(s.size ? s.bytes / s.size : 0),
        meter(s.size, most),
    ]);
    byId("shards").append(
        grid(
            [
                ["File", "path"],
                ["Tensors", "number"],
                ["Data", "number narrow"],
                ["Header", "number narrow"],
                ["Size", "number"],
                ["Data share", "number narrow"],
                ["", "wide narrow"],
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
    makeFindings(raw);
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

function makeMetadata(raw) {
    const host = byId("metadata");
    const other = raw.baseMetadata;
    if (!raw.metadata.length && !(other && other.length)) {
        host.append(el("p", { class: "muted", text: "The header holds no metadata." }));
        return;
    }
    if (!other) {
        const several = raw.shards.length > 1;
        const rows = raw.metadata.map(([shard, key, value]) => [
            visible(key, 120),
            metadataValue(value),
            ...(several ? [String(shard + 1)] : []),
        ]);
        host.append(grid([["Key", "key"], ["Value", ""], ...(several ? [["File", "number"]] : [])], rows));
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
    if (raw.metadataLeft)
        host.append(
            el("p", {
                class: "muted",
                text: `and ${whole(raw.metadataLeft)} more pairs, or parts of values, that are too long for this page`,
            }),
        );
}

function makeFindings(raw) {
    const host = byId("finding-list");
    if (!raw.findings.length) {
        host.append(
            el("p", {
                class: "good",
                text: raw.checked
                    ? "Nothing found: the files keep every rule of the format."
                    : "The files were not checked.",
            }),
        );
        return;
    }
    const rows = [...raw.findings]
        .sort((a, b) => b.severity - a.severity)
        .slice(0, 1000)
        .map((f) => {
            const [severity] = SEVERITY[Math.min(f.severity, 3)];
            return [
                el("span", { class: "badge " + severity, text: severity }),
                el("span", { text: visible(f.message, 600) }),
                f.offset === null ? "" : whole(f.offset),
            ];
        });
    host.append(
        grid(
            [
                ["", "tight"],
                ["Finding", ""],
                ["Byte", "number"],
            ],
            rows,
        ),
    );
    const left = raw.findingsLeft + Math.max(0, raw.findings.length - 1000);
    if (left) host.append(el("p", { class: "muted", text: `and ${whole(left)} more` }));
}
