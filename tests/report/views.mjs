// What the report says about one tensor and about what changed: what the model is, addresses of
// tensors, histograms over each other, outliers, dead rows, and colors that can be told apart.
import assert from "node:assert/strict";
import * as models from "./models.mjs";

const heights = (page) =>
    page
        .locator("#detail .histogram rect:not(.target)")
        .evaluateAll((all) => all.map((r) => Number(r.getAttribute("height"))));

// The relative luminance of a color such as "#ffe27a", and the contrast of two.
function luminance(hex) {
    const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
    const linear = parts.map((s) => (s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}
function contrast(a, b) {
    const [x, y] = [luminance(a), luminance(b)].sort((m, n) => n - m);
    return (x + 0.05) / (y + 0.05);
}
const themed = (page, name) =>
    page.evaluate((n) => getComputedStyle(document.documentElement).getPropertyValue(n).trim(), name);

export const views = ({ at, tenmap, open, rows }) => ({
    async "the header says what the model is, as info does"() {
        models.showcase(at("tuned.safetensors"), 0.08);
        models.showcase(at("before.safetensors"), 0);
        tenmap("tuned.safetensors", "--compare", "before.safetensors", "-o", at("views.html"));
        const page = await open(at("views.html"));
        assert.match(await page.locator("#profile").innerText(), /^Llama-like decoder, 405K parameters, BF16$/);
        models.noLayers(at("unknown.safetensors"));
        tenmap("unknown.safetensors", "-o", at("unknown.html"));
        const unknown = await open(at("unknown.html"));
        assert.equal(await unknown.locator("#profile").isVisible(), false);
        page.quiet();
    },

    async "an address opens a tensor, and an open tensor is in the address"() {
        const page = await open(at("views.html") + "#tensor=model.norm.weight");
        assert.match(await page.locator("#detail h2").innerText(), /^model\.norm\.weight$/);
        await page.keyboard.press("Escape");
        await page.waitForFunction(() => !location.href.includes("#")); // "close" comes later
        await rows(page).nth(3).click();
        const name = await page.locator("#detail h2").textContent();
        const hash = await page.evaluate(() => location.hash); // page.url() may still be the old one
        assert.equal(hash, "#tensor=" + encodeURIComponent(name));
        assert.equal(await page.locator("#detail a").getAttribute("href"), hash);
        await page.evaluate(() => {
            location.hash = "#tensor=model.embed_tokens.weight";
        });
        await page.waitForFunction(() => /embed/.test(document.querySelector("#detail h2").textContent));
        for (const wrong of ["#tensor=nothing", "#tensor=%E0%A4%A", "#tensor="]) {
            const other = await open(at("views.html") + wrong);
            assert.equal(await other.locator("#detail[open]").count(), 0, wrong);
            other.quiet();
        }
    },

    async "the other model's histogram lies over that of a changed tensor"() {
        const page = await open(at("views.html") + "#tensor=model.layers.11.self_attn.q_proj.weight");
        const line = await page.locator("#detail .histogram path.base").getAttribute("d");
        assert.equal(line.split("H").length - 1, 64, "a step for each bin");
        assert.match(await page.locator("#detail .legend").innerText(), /this model\s+the other/);
        await page.keyboard.press("Escape");
        // Twice as wide values: the axis covers both, and areas are equal.
        models.write(at("wide.safetensors"), [["w", "F32", [64], (i) => i - 32]]);
        models.write(at("wider.safetensors"), [["w", "F32", [64], (i) => 2 * i - 64]]);
        tenmap("wide.safetensors", "--compare", "wider.safetensors", "-o", at("wide.html"));
        const wide = await open(at("wide.html") + "#tensor=w");
        const bars = await wide.locator("#detail .histogram rect:not(.target)").evaluateAll((all) =>
            all.map((r) => [Number(r.getAttribute("x")), Number(r.getAttribute("height"))]),
        );
        assert.ok(bars[0][0] > 80 && bars[63][0] < 280, "half of the axis");
        const steps = [...(await wide.locator(".base").getAttribute("d")).matchAll(/V([\d.]+)H/g)];
        const level = 150 - Number(steps[0][1]);
        assert.ok(Math.abs(level / bars[0][1] - 0.5) < 0.02, "half as high");
        // A tensor that did not change has no second histogram.
        const same = await open(at("views.html") + "#tensor=model.embed_tokens.weight");
        assert.equal(await same.locator("#detail .base").count(), 0);
        same.quiet();
    },

    async "more than five of the most changed, and the rest in the table"() {
        const page = await open(at("views.html"));
        assert.equal(await page.locator("#changes .odd li").count(), 12);
        await page.locator("#changes button", { hasText: "and 36 more" }).click();
        assert.match(await page.locator("#count").innerText(), /^48 of 112 tensors/);
        page.quiet();
    },

    async "one outlier gives a log scale and a finding"() {
        models.write(at("outlier.safetensors"), [
            ["far.weight", "F32", [64, 64], (i) => (i === 7 ? 400 : ((i * 37) % 101) / 101 - 0.5)],
            ["even.weight", "F32", [64, 64], (i) => ((i * 37) % 101) / 101],
            ["same.weight", "F32", [64], () => 0.25],
        ]);
        tenmap("outlier.safetensors", "-o", at("outlier.html"));
        const page = await open(at("outlier.html") + "#tensor=far.weight");
        assert.equal(await page.locator("#detail [aria-pressed=true]").innerText(), "Log");
        assert.ok((await heights(page))[63] > 5, "the outlier can be seen");
        await page.locator("#detail [data-value=linear]").click();
        assert.ok((await heights(page))[63] < 1);
        const even = await open(at("outlier.html") + "#tensor=even.weight");
        assert.equal(await even.locator("#detail [aria-pressed=true]").innerText(), "Linear");
        const findings = await even.locator("#finding-list").innerText();
        assert.match(findings, /note\s+1 tensor holds outliers, 30 standard[^:]*: far\.weight \(\u22120\.5 to 400, 63 deviations\)/);
        assert.match(findings, /note\s+1 tensor holds one value only: same\.weight \(0\.25\)/);
        assert.doesNotMatch(await even.locator("a.tile").getAttribute("class"), /alarm/);
        even.quiet();
    },

    async "dead rows and columns are notes"() {
        models.write(at("dead.safetensors"), [
            ["rows.weight", "F32", [8, 4], (i) => (i >> 2 === 3 ? 0 : i >> 2 === 5 ? 2 : i)],
            ["columns.weight", "F32", [8, 4], (i) => (i % 4 === 2 ? 0.5 : i)],
            ["same.weight", "F32", [8, 4], () => 0.25],
        ]);
        tenmap("dead.safetensors", "-o", at("dead.html"));
        const page = await open(at("dead.html"));
        const findings = await page.locator("#finding-list").innerText();
        assert.match(findings, /note\s+1 tensor holds dead rows, each of one value only: rows\.weight \(2 of 8, 1 all zeros, the first is row 3\)/);
        assert.match(findings, /note\s+1 tensor holds dead columns, each of one value only: columns\.weight \(1 of 4, the first is column 2\)/);
        page.quiet();
    },

    async "the heat map takes the full width"() {
        for (const width of [700, 1280, 1800]) {
            const page = await open(at("views.html"), { viewport: { width, height: 900 } });
            const free = await page.evaluate(() => {
                const right = (q) => document.querySelector(q).getBoundingClientRect().right;
                return right("#heatmap") - right("#heatmap canvas");
            });
            assert.ok(Math.abs(free) < 6, `${free} of ${width}`);
        }
    },

    async "more change is further from the background, in light and dark"() {
        for (const colorScheme of ["light", "dark"]) {
            const page = await open(at("views.html"), { colorScheme });
            const card = await themed(page, "--card");
            const stops = [];
            for (let k = 0; k < 5; k++) stops.push(await themed(page, `--change-${k}`));
            const contrasts = stops.map((stop) => contrast(stop, card));
            assert.ok(contrasts[4] > 7, `${colorScheme}: the most changed ${contrasts[4]}`);
            assert.ok(contrasts[0] > 1.3, `${colorScheme}: the least changed ${contrasts[0]}`);
            for (let k = 1; k < 5; k++) assert.ok(contrasts[k] > contrasts[k - 1] * 1.2, `${colorScheme} ${k}`);
            page.quiet();
        }
    },
});
