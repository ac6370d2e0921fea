// The paths of the names as a tree, and the layout of one level: rows of a squarified treemap.

// A node is the first `end` characters of the name of tensor `sample`, and of all other tensors in
// it.
function buildTree(model) {
    const node = (parent, sample, end) => ({
        parent,
        sample,
        end,
        kids: new Map(),
        leaves: [],
        bytes: 0,
        elements: 0,
        count: 0,
        flag: 0,
        largest: -1,
    });
    const root = node(null, -1, -1);
    const all = [root]; // parents before their children
    const trail = [];
    let before = "";
    for (let i = 0; i < model.n; i++) {
        const name = model.names[i];
        const ends = partEnds(name);
        let same = 0;
        while (same < name.length && same < before.length && name[same] === before[same]) same++;
        let depth = 0;
        while (depth < ends.length - 1 && depth < trail.length && ends[depth] < same) depth++;
        trail.length = depth;
        let at = depth ? trail[depth - 1] : root;
        for (; depth < ends.length - 1; depth++) {
            const key = name.slice(at.end + 1, ends[depth] + 1);
            let next = at.kids.get(key);
            if (!next) {
                at.kids.set(key, (next = node(at, i, ends[depth])));
                all.push(next);
            }
            trail.push((at = next));
        }
        before = name;
        at.leaves.push(i);
        count(at, model.bytes[i], model.elements[i], 1, i, model.flags[i]);
    }
    for (let k = all.length - 1; k > 0; k--) {
        const { parent, bytes, elements, count: tensors, largest, flag } = all[k];
        count(parent, bytes, elements, tensors, largest, flag);
    }
    function count(into, bytes, elements, tensors, largest, flag) {
        into.bytes += bytes;
        into.elements += elements;
        into.count += tensors;
        into.flag = Math.max(into.flag, flag);
        if (into.largest < 0 || model.bytes[largest] > model.bytes[into.largest]) into.largest = largest;
    }
    return root;
}

const pathOf = (model, node) => (node.parent ? model.names[node.sample].slice(0, node.end) : "");

// Returns the items of a group, largest first. A chain of single groups becomes one group with a
// joined label, and a group of one tensor becomes that tensor.
function itemsOf(model, node, measure) {
    const items = [];
    const leaf = (i) => {
        const label = model.names[i].slice(node.end + 1);
        items.push({ node: null, tensor: i, label, value: model[measure][i], flag: model.flags[i] });
    };
    for (const kid of node.kids.values()) {
        let at = kid;
        while (at.kids.size === 1 && at.leaves.length === 0) at = at.kids.values().next().value;
        if (at.kids.size === 0 && at.leaves.length === 1) leaf(at.leaves[0]);
        else {
            const label = model.names[at.sample].slice(node.end + 1, at.end);
            items.push({ node: at, tensor: -1, label, value: at[measure], flag: at.flag });
        }
    }
    node.leaves.forEach(leaf);
    const sized = items.filter((item) => item.value > 0);
    const plain = sized.length < 2000;
    if (plain) markShared(sized);
    return sized.sort((a, b) => b.value - a.value || (plain ? compareNames(a.label, b.label) : 0));
}

// What tells labels apart: `shared` is the length of the prefix that all have in common, up to a
// separator, which is left out first if there is little room; `apart` is how many characters
// distinguish a label from its neighbors.
function markShared(items) {
    const common = (a, b) => {
        let same = 0;
        while (same < a.length && same < b.length && a[same] === b[same]) same++;
        return same;
    };
    const sorted = [...items].sort((a, b) => (a.label < b.label ? -1 : 1));
    sorted.forEach((item, k) => {
        const before = k ? common(item.label, sorted[k - 1].label) : 0;
        const behind = k + 1 < sorted.length ? common(item.label, sorted[k + 1].label) : 0;
        item.apart = 1 + Math.max(before, behind);
    });
    if (items.length < 2) return;
    const first = sorted[0].label;
    let shared = common(first, sorted[sorted.length - 1].label);
    while (shared > 0 && !isSeparator(first.charCodeAt(shared - 1))) shared--;
    for (const item of items) item.shared = shared;
}

// Items whose area would be below a few pixels are combined, so that areas stay true.
function joinSmall(items, area, total) {
    const least = (9 * total) / area;
    let cut = items.findIndex((item) => item.value < least);
    if (cut < 0 || items.length - cut < 2) return items;
    const rest = items.slice(cut);
    const value = rest.reduce((sum, item) => sum + item.value, 0);
    const label = rest.length + " more";
    const flag = rest.reduce((most, item) => Math.max(most, item.flag), 0);
    return [...items.slice(0, cut), { node: null, tensor: -1, label, value, flag, rest: rest.length }];
}

// Lays out the rows of a squarified treemap: each takes items while their worst aspect ratio
// improves.
function squarify(items, box, place) {
    let { x, y, w, h } = box;
    let left = items.reduce((sum, item) => sum + item.value, 0);
    let start = 0;
    while (start < items.length && w > 0 && h > 0 && left > 0) {
        const scale = (w * h) / left;
        const side = Math.min(w, h);
        let sum = 0;
        let end = start;
        let worst = Infinity;
        while (end < items.length) {
            const next = sum + items[end].value;
            const s2 = next * scale;
            const r = Math.max(
                (side * side * items[start].value * scale) / (s2 * s2),
                (s2 * s2) / (side * side * items[end].value * scale),
            );
            if (r > worst) break;
            worst = r;
            sum = next;
            end++;
        }
        const thick = Math.min((sum * scale) / side, w < h ? h : w);
        let along = w < h ? x : y;
        for (let i = start; i < end; i++) {
            const length = (items[i].value / sum) * side;
            place(
                items[i],
                w < h ? { x: along, y, w: length, h: thick } : { x, y: along, w: thick, h: length },
            );
            along += length;
        }
        if (w < h) {
            y += thick;
            h -= thick;
        } else {
            x += thick;
            w -= thick;
        }
        left -= sum;
        start = end;
    }
}
