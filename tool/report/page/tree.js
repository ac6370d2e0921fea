// The paths of the names as a tree, and how a level of it is laid out: rows of a squarified treemap.

function buildTree(model) {
    const node = (label, parent) => ({
        label,
        parent,
        kids: new Map(),
        leaves: [],
        bytes: 0,
        elements: 0,
        count: 0,
        largest: -1,
    });
    const root = node("", null);
    const all = [root]; // parents before their children
    const trail = [];
    let before = [];
    for (let i = 0; i < model.n; i++) {
        const parts = pathParts(model.names[i]);
        parts.pop();
        let depth = 0;
        while (depth < parts.length && depth < before.length && parts[depth] === before[depth]) depth++;
        trail.length = depth;
        let at = depth ? trail[depth - 1] : root;
        for (; depth < parts.length; depth++) {
            let next = at.kids.get(parts[depth]);
            if (!next) {
                at.kids.set(parts[depth], (next = node(parts[depth], at)));
                all.push(next);
            }
            trail.push((at = next));
        }
        before = parts;
        at.leaves.push(i);
        count(at, model.bytes[i], model.elements[i], 1, i);
    }
    for (let k = all.length - 1; k > 0; k--)
        count(all[k].parent, all[k].bytes, all[k].elements, all[k].count, all[k].largest);
    function count(into, bytes, elements, tensors, largest) {
        into.bytes += bytes;
        into.elements += elements;
        into.count += tensors;
        if (into.largest < 0 || model.bytes[largest] > model.bytes[into.largest]) into.largest = largest;
    }
    return root;
}

// What a group consists of, largest first. Chains of single groups become one with a joined label, a
// group of one tensor becomes that tensor.
function itemsOf(model, node, measure) {
    const items = [];
    for (const kid of node.kids.values()) {
        let at = kid;
        let label = kid.label;
        while (at.kids.size === 1 && at.leaves.length === 0) {
            at = at.kids.values().next().value;
            label += "." + at.label;
        }
        if (at.kids.size === 0 && at.leaves.length === 1) {
            items.push(
                leafItem(model, at.leaves[0], label + "." + lastPart(model.names[at.leaves[0]]), measure),
            );
        } else {
            items.push({ node: at, tensor: -1, label, value: at[measure] });
        }
    }
    for (const i of node.leaves) items.push(leafItem(model, i, lastPart(model.names[i]), measure));
    const sized = items.filter((item) => item.value > 0);
    const plain = sized.length < 2000;
    return sized.sort((a, b) => b.value - a.value || (plain ? compareNames(a.label, b.label) : 0));
}

const lastPart = (name) => pathParts(name).pop();
const leafItem = (model, i, label, measure) => ({ node: null, tensor: i, label, value: model[measure][i] });

// Items whose area would be below a few pixels are joined, so that areas stay true.
function joinSmall(items, area, total) {
    const least = (9 * total) / area;
    let cut = items.findIndex((item) => item.value < least);
    if (cut < 0 || items.length - cut < 2) return items;
    const rest = items.slice(cut);
    const value = rest.reduce((sum, item) => sum + item.value, 0);
    const label = rest.length + " more";
    return [...items.slice(0, cut), { node: null, tensor: -1, label, value, rest: rest.length }];
}

// The rows of a squarified layout: each takes items while their worst aspect ratio gets better.
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
