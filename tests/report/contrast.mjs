// Runs in the report: finds every visible text whose contrast with its background is below 4.5.
export function lowContrasts() {
    const numbers = (color) => (color.match(/[\d.]+/g) || []).map(Number);
    const luminance = (rgb) =>
        rgb
            .slice(0, 3)
            .map((v) => v / 255)
            .map((s) => (s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4))
            .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
    const contrast = (a, b) => {
        const [x, y] = [luminance(a), luminance(b)].sort((m, n) => n - m);
        return (x + 0.05) / (y + 0.05);
    };
    const rects = [...document.querySelectorAll(".treemap svg > g rect")].map((r) => [
        r,
        r.getBoundingClientRect(),
    ]);
    // In a drawing, the background is the last rectangle before the text that lies under it.
    const under = (node) => {
        const svg = node.closest("svg");
        if (svg && node.tagName === "text" && svg.closest(".treemap")) {
            const box = node.getBoundingClientRect();
            const [x, y] = [box.left + 2, box.top + box.height / 2];
            const below = rects.filter(
                ([r, b]) =>
                    b.left <= x &&
                    x <= b.right &&
                    b.top <= y &&
                    y <= b.bottom &&
                    r.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING,
            );
            const fill = below.length ? getComputedStyle(below[below.length - 1][0]).fill : "";
            if (fill.startsWith("rgb")) return numbers(fill);
        }
        for (let at = node; at; at = at.parentElement) {
            const color = numbers(getComputedStyle(at).backgroundColor);
            if (color.length === 3 || color[3] > 0.99) return color;
        }
        return [255, 255, 255];
    };
    const low = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        const style = getComputedStyle(node);
        const box = node.getBoundingClientRect();
        if (!walker.currentNode.data.trim() || !box.width || style.visibility === "hidden") continue;
        if (node.closest("script, style, noscript, title, option, [hidden]")) continue;
        const ink = numbers(node.closest("svg") ? style.fill : style.color);
        let faint = 1;
        for (let at = node; at; at = at.parentElement) faint *= Number(getComputedStyle(at).opacity);
        const back = under(node);
        const seen = ink.slice(0, 3).map((v, i) => v * faint + back[i] * (1 - faint));
        const is = contrast(seen, back);
        if (is < 4.5) low.push(`${walker.currentNode.data.slice(0, 30)}: ${is.toFixed(2)}`);
    }
    return low;
}
