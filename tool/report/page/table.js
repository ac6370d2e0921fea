// The table of all tensors. Only visible rows exist in the document. Search, filter and sort work
// on arrays of numbers, so that they are immediate even for a hundred thousand tensors.

// Matches shell patterns: * any characters, ? one, [a-c] and [!a-c] one of a set. Takes at most a
// number of steps proportional to name times pattern; typed text never becomes a regular
// expression.
function globMatch(pattern, text) {
    let p = 0;
    let t = 0;
    let star = -1;
    let mark = 0;
    while (t < text.length) {
        const step = p < pattern.length ? pattern[p] : null;
        if (step === "*") {
            star = p++;
            mark = t;
            continue;
        }
        const after = step === null ? -1 : globOne(pattern, p, text[t]);
        if (after >= 0) {
            p = after;
            t++;
            continue;
        }
        if (star < 0) return false;
        p = star + 1;
        t = ++mark;
    }
    while (pattern[p] === "*") p++;
    return p === pattern.length;
}

// Returns the position in the pattern after the item that matches one character, or -1.
function globOne(pattern, p, c) {
    if (pattern[p] === "?") return p + 1;
    const end = pattern[p] === "[" ? pattern.indexOf("]", p + 2 + (pattern[p + 1] === "!")) : -1;
    if (end < 0) return pattern[p] === c ? p + 1 : -1;
    const negated = pattern[p + 1] === "!";
    let found = false;
    for (let i = p + 1 + negated; i < end; i++) {
        if (pattern[i + 1] === "-" && i + 2 < end) {
            found = found || (pattern[i] <= c && c <= pattern[i + 2]);
            i += 2;
        } else found = found || pattern[i] === c;
    }
    return found !== negated ? end + 1 : -1;
}

const GLOB = /[*?[]/;

const COLUMNS = [
    { key: "name", text: "Name", wide: true },
    {
        key: "dtype",
        text: "Type",
        of: (m, i) => m.dtypes[m.dtype[i]].name,
        show: (m, i) => visible(m.dtypes[m.dtype[i]].name, 14),
    },
    {
        key: "shape",
        text: "Shape",
        of: (m, i) => m.elements[i],
        show: (m, i) => shapeText(m.forms[m.form[i]].shape),
    },
    {
        key: "elements",
        text: "Parameters",
        number: true,
        of: (m, i) => m.elements[i],
        show: (m, i) => whole(m.elements[i]),
    },
    {
        key: "bytes",
        text: "Size",
        number: true,
        of: (m, i) => m.bytes[i],
        show: (m, i) => bytesText(m.bytes[i]),
    },
];
const stat = (key, text) => ({
    key,
    text,
    number: true,
    stat: true,
    of: (m, i) => m.stats[key][i],
    show: (m, i) => (Number.isNaN(m.stats[key][i]) ? "" : numberText(m.stats[key][i], 3)),
});
const STAT_COLUMNS = [
    stat("mean", "Mean"),
    stat("std", "Std"),
    stat("min", "Min"),
    stat("max", "Max"),
    {
        key: "zeros",
        text: "Zeros",
        number: true,
        stat: true,
        of: (m, i) => m.stats.zeros[i] / Math.max(1, m.values(i)),
        show: (m, i) => (m.measured(i) ? percentText(m.stats.zeros[i] / Math.max(1, m.values(i))) : ""),
    },
    {
        key: "broken",
        text: "NaN/Inf",
        number: true,
        stat: true,
        of: (m, i) => m.stats.nan[i] + m.stats.inf[i],
        show: (m, i) => (m.measured(i) ? whole(m.stats.nan[i] + m.stats.inf[i]) : ""),
    },
];
const DIFF_COLUMNS = [
    {
        key: "change",
        text: "Change",
        number: true,
        of: (m, i) => changeRank(m, i),
        show: (m, i) => {
            const gained = m.diff.gained.get(i);
            if (gained) return countText(gained) + " NaN/Inf";
            return m.diff.change[i] > 0 ? percentText(m.diff.change[i]) : STATES[m.diff.state[i]][0];
        },
    },
];

// Ranks tensors by how much they changed: unchanged, by values, then added or removed, and above
// all those that gained NaN.
function changeRank(m, i) {
    const state = STATES[m.diff.state[i]][0];
    if (state === "gained") return 1e301 * (1 + m.diff.gained.get(i) / Math.max(1, m.values(i)));
    if (state === "added" || state === "removed") return 1e300;
    if (state === "same") return 0;
    return Number.isNaN(m.diff.change[i]) ? 1e299 : m.diff.change[i];
}

let showTensors = () => {};

function makeTable(model) {
    const columns = [
        ...COLUMNS,
        ...(model.diff ? DIFF_COLUMNS : []),
        ...(model.hasStats ? STAT_COLUMNS : []),
    ];
    const state = {
        text: "",
        dtype: "",
        only: "",
        list: null,
        sort: model.diff ? "change" : "",
        down: Boolean(model.diff),
    };
    const phone = matchMedia("(max-width: 640px)");
    const lower = [];
    let order = new Uint32Array(0);
    let nameRank = null;

    const body = el("div", { class: "rows", role: "rowgroup" });
    const spacer = el("div", { class: "spacer" });
    const header = el("div", { class: "row header", role: "row" });
    const view = el(
        "div",
        { class: "scroll", tabindex: 0, role: "table", "aria-label": "Tensors" },
        header,
        spacer,
        body,
    );
    byId("table").append(view);

    const heads = columns.map((column) => {
        const button = el("button", {
            type: "button",
            text: column.text,
            on: { click: () => sortBy(column) },
        });
        const head = el(
            "div",
            { role: "columnheader", class: classOf(column), "data-key": column.key },
            button,
        );
        header.append(head);
        return head;
    });

    function classOf(column) {
        return [column.number ? "number" : "", column.stat ? "stat" : "", "c-" + column.key].join(" ").trim();
    }

    function sortBy(column) {
        if (state.sort === column.key) {
            if (state.down === Boolean(column.number)) state.down = !state.down;
            else {
                state.sort = "";
                state.down = false;
            }
        } else {
            state.sort = column.key;
            state.down = Boolean(column.number);
        }
        update();
    }

    // Returns the index of each name in natural order, which is computed on first use.
    function rankOf(i) {
        if (!nameRank) {
            const all = Array.from(model.names.keys()).sort((a, b) =>
                compareNames(model.names[a], model.names[b]),
            );
            nameRank = new Uint32Array(model.n);
            all.forEach((tensor, place) => {
                nameRank[tensor] = place;
            });
        }
        return nameRank[i];
    }

    const keeps = {
        broken: (i) => model.flags[i] === FLAG_BROKEN,
        zero: (i) => model.flags[i] === FLAG_ZERO,
    };
    STATES.forEach(([key], at) => {
        keeps[key] = (i) => model.diff.state[i] === at;
    });
    keeps.changed = (i) => model.diff.state[i] === GAINED || STATES[model.diff.state[i]][0] === "changed";

    function matches() {
        const text = state.text.toLowerCase();
        if (!lower.length && text) for (const name of model.names) lower.push(name.toLowerCase());
        const isGlob = GLOB.test(text);
        const dtype = state.dtype === "" ? -1 : Number(state.dtype);
        const keep = keeps[state.only];
        const from = state.list || model.names;
        const found = [];
        for (let k = 0; k < from.length; k++) {
            const i = state.list ? state.list[k] : k;
            if (dtype >= 0 && model.dtype[i] !== dtype) continue;
            if (keep && !keep(i)) continue;
            if (text && !(isGlob ? globMatch(text, lower[i]) : lower[i].includes(text))) continue;
            found.push(i);
        }
        return found;
    }

    function update() {
        const found = matches();
        const column = columns.find((c) => c.key === state.sort);
        if (column) {
            const key = column.key === "name" ? rankOf : (i) => column.of(model, i);
            const keys = new Map(found.map((i) => [i, key(i)]));
            const sign = state.down ? -1 : 1;
            const missing = (x) => typeof x === "number" && Number.isNaN(x);
            found.sort((a, b) => {
                const x = keys.get(a);
                const y = keys.get(b);
                if (missing(x) || missing(y)) return missing(x) - missing(y) || a - b;
                return x < y ? -sign : x > y ? sign : a - b;
            });
        }
        order = Uint32Array.from(found);
        heads.forEach((head, i) => {
            const on = columns[i].key === state.sort;
            head.setAttribute("aria-sort", on ? (state.down ? "descending" : "ascending") : "none");
        });
        const bytes = found.reduce((sum, i) => sum + model.bytes[i], 0);
        byId("count").textContent =
            (found.length === model.n
                ? plural(model.n, "tensor")
                : `${whole(found.length)} of ${plural(model.n, "tensor")}`) +
            ", " +
            bytesText(bytes);
        view.setAttribute("aria-rowcount", String(found.length + 1));
        view.scrollTop = 0;
        paint();
    }

    // Makes room for long names: hides some columns, or on a phone uses a second line.
    const lengths = model.names.slice(0, 5000).map((name) => name.length);
    const long = lengths.sort((a, b) => a - b)[Math.floor(lengths.length * 0.9)] > 46;
    view.classList.toggle("long-names", long);
    const rowHeight = () => (phone.matches ? (long ? 64 : 46) : 28);
    const ALL = 400; // up to this many rows are all in the document, for search and print

    function paint() {
        const height = rowHeight();
        spacer.style.height = order.length * height + "px";
        view.style.height =
            Math.min(620, innerHeight * 0.76, Math.max(2, order.length) * height + header.offsetHeight + 2) +
            "px";
        const all = order.length <= ALL;
        const first = all ? 0 : Math.max(0, Math.floor(view.scrollTop / height) - 8);
        const inSight = Math.ceil(view.clientHeight / height) + 18;
        const last = all ? order.length : Math.min(order.length, first + inSight);
        body.style.transform = `translateY(${first * height}px)`;
        const rows = [];
        for (let k = first; k < last; k++) rows.push(row(order[k], k));
        if (!order.length) rows.push(el("p", { class: "empty muted", text: "No tensor matches." }));
        body.replaceChildren(...rows);
    }

    function row(i, at) {
        const line = el("div", {
            class: "row",
            role: "row",
            "aria-rowindex": at + 2,
            tabindex: -1,
            "data-tensor": i,
            on: {
                click: () => {
                    if (getSelection().isCollapsed) openDetail(i); // else text was selected
                },
            },
        });
        for (const column of columns) {
            const cell = el("div", { role: "cell", class: classOf(column) });
            if (column.key === "name") nameCell(cell, i);
            else if (column.key === "dtype") dtypeCell(cell, column, i);
            else cell.textContent = column.show(model, i);
            if (column.key === "broken" && brokenCount(model, i) > 0) cell.classList.add("alarm");
            if (column.key === "change" && model.diff.gained.has(i)) cell.classList.add("alarm");
            line.append(cell);
        }
        return line;
    }

    // The text is in one element, so that it is found and copied whole. If it does not fit, the
    // style sheet cuts its beginning, because the end says more.
    function nameCell(cell, i) {
        const shown = visible(model.names[i], 400) || "(no name)";
        const open = (event) => {
            if (event.key !== "Enter" && event.key !== " ") return;
            event.preventDefault();
            openDetail(i);
        };
        const name = el("bdi", { dir: "ltr" });
        cell.append(
            el(
                "div",
                {
                    class: "name",
                    role: "button",
                    tabindex: 0,
                    title: visible(model.names[i], 600),
                    on: { keydown: open },
                },
                phone.matches && long ? breakable(name, shown) : fill(name, { text: shown }, []),
            ),
        );
    }

    function dtypeCell(cell, column, i) {
        cell.append(swatches([[model.dtypes[model.dtype[i]].color, column.show(model, i)]])[0]);
    }

    const scrolled = () => {
        if (order.length > ALL) requestAnimationFrame(paint);
    };
    view.addEventListener("scroll", scrolled, { passive: true });
    // Copies several rows as lines of fields, for a spreadsheet or a terminal.
    view.addEventListener("copy", (event) => {
        const picked = getSelection();
        const lines = [...body.querySelectorAll(".row")].filter((r) => picked.containsNode(r, true));
        if (lines.length < 2) return;
        const text = lines.map((r) => [...r.children].map((c) => c.textContent).join("\t")).join("\n");
        event.clipboardData.setData("text/plain", text + "\n");
        event.preventDefault();
    });
    view.addEventListener("keydown", (event) => {
        const rows = [...body.querySelectorAll(".row")];
        const at = rows.findIndex((r) => r.contains(document.activeElement));
        if (at < 0 || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
        event.preventDefault();
        const next = rows[at + (event.key === "ArrowDown" ? 1 : -1)];
        if (next) next.querySelector(".name").focus();
    });

    const filters = byId("filters");
    const search = el("input", {
        type: "search",
        id: "search",
        placeholder: "Search names, or a pattern such as *.layers.3.*",
        "aria-label": "Search names",
        autocomplete: "off",
        spellcheck: "false",
        on: {
            input: () => {
                state.text = search.value.trim();
                update();
            },
        },
    });
    filters.append(search);
    const dtypeChoices = [
        ["", "Every type"],
        ...model.dtypes.map((d, k) => [String(k), visible(d.name, 30)]),
    ];
    if (model.dtypes.length > 1)
        filters.append(
            select("Element type", dtypeChoices, "", (value) => {
                state.dtype = value;
                update();
            }),
        );
    const onlyChoices = [["", "All tensors"]];
    if (model.diff)
        for (const [key, text] of STATES) onlyChoices.push([key, text[0].toUpperCase() + text.slice(1)]);
    if (model.hasStats) onlyChoices.push(["broken", "With NaN or Inf"], ["zero", "All zero"]);
    if (onlyChoices.length > 1)
        filters.append(
            select("Show", onlyChoices, "", (value) => {
                state.only = value;
                update();
            }),
        );

    const chip = el("button", {
        type: "button",
        class: "chip",
        hidden: true,
        on: { click: () => showTensors(null) },
    });
    filters.append(chip);
    showTensors = (list, text) => {
        state.list = list;
        chip.hidden = !list;
        chip.textContent = list ? text + "  \u00d7" : "";
        update();
        if (list) byId("tensors").scrollIntoView();
    };
    byId("table").dataset.columns = String(columns.length);
    view.classList.toggle("with-stats", model.hasStats);
    view.classList.toggle("with-diff", Boolean(model.diff));
    redraws.push(paint);
    update();
}
