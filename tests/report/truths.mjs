// Statements of the report that must be true and readable: findings in values, names, edges and
// counts, and text with enough contrast. Earlier tests of test.mjs have made the other reports.
import assert from "node:assert/strict";
import fs from "node:fs";
import { lowContrasts } from "./contrast.mjs";
import * as models from "./models.mjs";

const gauss4 = (i) => i + 1;

// The fills of the treemap's leaves, and a color of the theme.
const leafFills = (page) =>
    page.locator("#treemap rect.leaf").evaluateAll((all) => all.map((r) => r.getAttribute("fill")));
const themed = (page, name) =>
    page.evaluate((n) => getComputedStyle(document.documentElement).getPropertyValue(n).trim(), name);

export const truths = ({ at, tenmap, open, rows }) => ({
    async "a tensor that gained NaN is told first, everywhere"() {
        models.wrongTune(at("wrong.safetensors"), true);
        models.wrongTune(at("right.safetensors"), false);
        for (const more of [[], ["--no-stats"]]) {
            tenmap("wrong.safetensors", "--compare", "right.safetensors", ...more, "-o", at("nan.html"));
            const page = await open(at("nan.html"));
            const first = page.locator("#overview > :first-child");
            assert.equal(await first.getAttribute("id"), "changes", "what changed comes first");
            const changes = await page.locator("#changes").innerText();
            assert.match(changes, /Gained NaN or Inf\s+2\s/);
            assert.match(changes, /Most changed\s+block-2\.weight 3 became NaN or Inf/);
            assert.match(await rows(page).nth(0).innerText(), /block-2\.weight[^]*3 NaN\/Inf/);
            assert.match(await rows(page).nth(1).innerText(), /head\.weight[^]*1 NaN\/Inf/);
            await page.locator("#filters select").last().selectOption("same");
            assert.doesNotMatch(
                await page.locator("#table .rows").innerText(),
                /block-2\.weight|head\.weight/,
            );
            await page.locator("#filters select").last().selectOption("");
            const tile = page.locator("a.tile");
            assert.match(await tile.innerText(), /NaN or infinite/);
            assert.match(await tile.getAttribute("class"), /alarm/);
            const findings = await page.locator("#finding-list").innerText();
            assert.match(findings, /block-2\.weight/);
            if (!more.length) assert.match(findings, /holds nothing but zeros: block-1\.bias/);
            assert.equal(await page.locator("#treemap [data-flag=broken]").count(), 2, "marked in the map");
            const fills = await leafFills(page);
            const gained = await themed(page, "--gained");
            assert.equal(fills.filter((f) => f === gained).length, 2);
            assert.match(await page.locator("#heat-odd").innerText(), /layer 2 . weight 3 NaN or Inf/);
            page.quiet();
        }
        // A NaN of the base that is repaired here is not a finding.
        const page = await open(at("nan.html"));
        await page.locator("#search").fill("block-4.weight");
        await rows(page).first().click();
        const detail = await page.locator("#detail").innerText();
        assert.match(detail, /NaN or infinite in the other only\s+1 value/);
        assert.doesNotMatch(await page.locator("#finding-list").innerText(), /block-4/);
        page.quiet();
        tenmap("wrong.safetensors", "--compare", "right.safetensors", "-o", at("nan.html"));
    },

    async "cells of tensors that only the other model has do not look unmeasured"() {
        const page = await open(at("nan.html"));
        for (const metric of ["change", "norm"]) {
            await page.locator(`#heat-controls [data-value=${metric}]`).click();
            const color = await page.locator("#heatmap canvas").evaluate((canvas) => {
                const x = Math.floor((canvas.width * 11) / 12);
                const [r, g, b] = canvas.getContext("2d").getImageData(x, 9, 1, 1).data;
                return "#" + [r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("");
            });
            assert.equal(color, await themed(page, "--removed"), metric);
            const legend = await page.locator("#heat-legend").innerText();
            assert.match(legend, /only in the other/);
            assert.doesNotMatch(legend, /not measured/);
        }
        page.quiet();
    },

    async "names are one text, found by the browser's search and copied whole"() {
        const names = models.kohya(at("kohya.safetensors"));
        tenmap("kohya.safetensors", "-o", at("kohya.html"));
        const page = await open(at("kohya.html"));
        const shape = await page.locator("#table .name").evaluateAll((all) =>
            all.map((n) => {
                const inner = n.firstChild;
                return [n.childNodes.length, inner.childNodes.length, inner.firstChild.nodeType].join();
            }),
        );
        assert.ok(shape.length === names.length && shape.every((s) => s === "1,1,3"), shape[0]);
        assert.ok(await page.evaluate((name) => window.find(name), names[100]), "Ctrl+F finds it");
        const copied = await page.evaluate((name) => {
            const node = [...document.querySelectorAll("#table .name")].find((n) => n.textContent === name);
            getSelection().selectAllChildren(node);
            return getSelection().toString();
        }, names[7]);
        assert.equal(copied, names[7]);
        const lines = await page.evaluate(() => {
            const [a, b] = document.querySelectorAll("#table .rows .row");
            const range = new Range();
            range.setStartBefore(a.firstChild);
            range.setEndAfter(b.lastChild);
            getSelection().removeAllRanges();
            getSelection().addRange(range);
            const clipboardData = new DataTransfer();
            a.dispatchEvent(new ClipboardEvent("copy", { clipboardData, bubbles: true, cancelable: true }));
            return clipboardData.getData("text/plain").split("\n");
        });
        assert.deepEqual(
            lines.slice(0, 2).map((line) => line.split("\t")[0]),
            names.slice(0, 2),
        );
        await page.evaluate(() => getSelection().removeAllRanges());
        await rows(page).nth(4).click();
        const title = await page.locator("#detail-name").evaluate((node) => {
            getSelection().selectAllChildren(node);
            return getSelection().toString();
        });
        assert.equal(title, names[4]);
        page.quiet();
    },

    async "boxes of numbered modules are told apart, whatever joins the numbers"() {
        const names = (make) => make.map((n) => [n, "F32", [16, 16], () => 1]);
        const range = [...Array(24).keys()];
        models.write(at("joined.safetensors"), names(range.map((i) => `w_a_${String(i).padStart(3, "0")}`)));
        models.write(
            at("dashed.safetensors"),
            names(range.flatMap((i) => [`a_rather_long_block-${i}.weight`, `a_rather_long_block-${i}.bias`])),
        );
        models.diffusers(at("diffusers.safetensors"));
        for (const [name, layers] of [
            ["kohya", 3],
            ["diffusers", 3],
            ["joined", 24],
            ["dashed", 24],
        ]) {
            tenmap(name + ".safetensors", "-o", at(name + ".html"));
            for (const width of [1280, 700]) {
                const page = await open(at(name + ".html"), { viewport: { width, height: 900 } });
                const labels = await page
                    .locator("#treemap g.item")
                    .evaluateAll((all) => all.map((g) => g.querySelector("text")?.textContent || ""));
                assert.equal(new Set(labels).size, labels.length, `${name}: ${labels}`);
                const texts = await page.locator("#treemap text").allTextContents();
                const numbers = name === "joined" ? range.map((i) => String(i).padStart(3, "0")) : range;
                if (layers === 24)
                    for (const n of numbers)
                        assert.ok(texts.includes(String(n)), `${name}: ${n} of ${texts}`);
                const columns = await page.locator("#heatmap canvas").getAttribute("aria-label");
                assert.match(columns, new RegExp(` in ${layers} layers`), name);
                const kinds = await page.locator("#heatmap .kinds div").allInnerTexts();
                assert.equal(new Set(kinds).size, kinds.length, `${name}: ${kinds}`);
                page.quiet();
                await page.context().close();
            }
        }
    },

    async "a number that counts nothing is no layer"() {
        models.write(
            at("gpt2.safetensors"),
            [0, 1, 2].flatMap((i) =>
                ["fc_1", "fc_2"].map((fc) => [`gpt_2.h.${i}.mlp.${fc}.weight`, "F32", [4], gauss4]),
            ),
        );
        tenmap("gpt2.safetensors", "-o", at("gpt2.html"), "--heatmap", at("gpt2.svg"));
        const page = await open(at("gpt2.html"));
        assert.match(await page.locator("#heat-note").innerText(), /of gpt_2\.h\./);
        assert.deepEqual(await page.locator("#heatmap .kinds div").allInnerTexts(), ["mlp.fc_1", "mlp.fc_2"]);
        const svg = fs.readFileSync(at("gpt2.svg"), "utf8");
        assert.match(svg, /by layer and kind, gpt_2\.h</);
        assert.match(svg, />mlp\.fc_2\.weight</);
        page.quiet();
    },

    async "pictures have the page's colors, and modules where there are no layers"() {
        for (const name of ["kohya", "showcase", "dashed", "plain"]) {
            if (name === "plain") models.noLayers(at("plain.safetensors"));
            tenmap(name + ".safetensors", "-o", at(name + ".html"), "--treemap", at("map.svg"));
            const page = await open(at(name + ".html"));
            const svg = fs.readFileSync(at("map.svg"), "utf8");
            const own = new Set([...svg.matchAll(/fill="(#[0-9a-f]{6})"><title>/g)].map((m) => m[1]));
            const shown = new Set((await leafFills(page)).filter((f) => f[0] === "#"));
            const missing = [...shown].filter((f) => !own.has(f));
            assert.deepEqual(missing, [], `${name}: colors of the page`);
            page.quiet();
        }
        tenmap("plain.safetensors", "--heatmap", at("modules.svg"));
        const svg = fs.readFileSync(at("modules.svg"), "utf8");
        assert.match(svg, /by module and kind/);
        for (const word of ["conv1", "fc", "weight", "bias"]) assert.ok(svg.includes(`>${word}<`), word);
    },

    async "histograms have the exact counts, and show their edges"() {
        // 33 evenly spaced values, most of them on edges of the 64 bins.
        const on = [...Array(33).keys()].map((k) => k / 32);
        const some = [0.1, 0.2, 0.2, 0.7, 1e-8, 0.999];
        const all = [...on, ...some, ...on];
        models.write(at("edges.safetensors"), [["edges", "F32", [all.length], (i) => all[i]]]);
        tenmap("edges.safetensors", "-o", at("edges.html"));
        const page = await open(at("edges.html"));
        await rows(page).first().click();
        const bars = page.locator("#detail .histogram rect[data-count]");
        const counts = await bars.evaluateAll((list) => list.map((r) => Number(r.dataset.count)));
        const expected = new Array(64).fill(0);
        for (const x of all) expected[Math.min(63, Math.floor(Math.fround(x) * 64))]++;
        assert.deepEqual(counts, expected);
        const shown = await page.locator("#detail .histogram .edge").allTextContents();
        assert.ok(shown.length >= 4, shown.join());
        for (const text of shown) assert.ok(Number.isInteger(Number(text) * 64), `${text} is an edge`);
        await page.locator("#detail .histogram .target").nth(2).hover();
        assert.match(await page.locator("#tip").innerText(), /0\.03125 to below 0\.04688[^]*Values\s+2\s/);
        page.quiet();
    },

    async "text can be read: a contrast of 4.5 everywhere, in light and dark"() {
        for (const name of ["demo", "compare", "nan", "kohya"])
            for (const colorScheme of ["light", "dark"]) {
                const page = await open(at(name + ".html"), { colorScheme });
                const choices = await page.locator("#map-controls .choice:last-child button").all();
                for (const button of choices) {
                    await button.click();
                    const low = await page.evaluate(lowContrasts);
                    assert.deepEqual(low, [], `${name}, ${colorScheme}`);
                }
                await rows(page).first().click();
                assert.deepEqual(await page.evaluate(lowContrasts), [], `${name}, ${colorScheme}: a tensor`);
                page.quiet();
                await page.context().close();
            }
    },

    async "no number is cut, and no label lies on another"() {
        for (const name of ["showcase", "compare", "nan", "kohya"])
            for (const width of [1280, 1000, 700, 375]) {
                const page = await open(at(name + ".html"), { viewport: { width, height: 900 } });
                const cut = await page.evaluate(() =>
                    [...document.querySelectorAll(".row .number, .grid .number, .tile .value")]
                        .filter((c) => c.scrollWidth > c.clientWidth && c.textContent)
                        .map((c) => c.textContent),
                );
                assert.deepEqual(cut, [], `${name}, ${width}`);
                const overlaps = await page.evaluate(() => {
                    const boxes = [...document.querySelectorAll("#treemap text")].map((t) => [
                        t.textContent,
                        t.getBoundingClientRect(),
                    ]);
                    return boxes.flatMap(([a, x], i) =>
                        boxes
                            .slice(i + 1)
                            .filter(
                                ([, y]) =>
                                    x.left < y.right - 1 &&
                                    y.left < x.right - 1 &&
                                    x.top < y.bottom - 4 &&
                                    y.top < x.bottom - 4,
                            )
                            .map(([b]) => a + " / " + b),
                    );
                });
                assert.deepEqual(overlaps, [], `${name}, ${width}`);
                page.quiet();
                await page.context().close();
            }
    },

    async "what repeats is told once: metadata of shards, findings of a kind"() {
        fs.mkdirSync(at("same"), { recursive: true });
        const files = [1, 2, 3].map((k) => `model-0000${k}-of-00003.safetensors`);
        const map = {};
        files.forEach((file, k) => {
            const odd = [[`layers.${k}.flag`, "U8", [1], () => 1]];
            const rest = [...Array(12).keys()].map((i) => [`layers.${k}.w${i}`, "F32", [3], gauss4]);
            models.write(at("same/" + file), [...odd, ...rest], {
                format: "pt",
                part: k ? "later" : "first",
            });
            for (const [name] of [...odd, ...rest]) map[name] = file;
        });
        fs.writeFileSync(at("same/model.safetensors.index.json"), JSON.stringify({ weight_map: map }));
        tenmap(at("same"), "-o", at("same.html"));
        const page = await open(at("same.html"));
        const metadata = (await page.locator("#metadata tbody tr").allInnerTexts()).map((t) =>
            t.split(/\s+/).join(" "),
        );
        assert.deepEqual(metadata, ["format pt all", "part first 1", "part later 2, 3"]);
        const found = await page.locator("#finding-list tbody tr").allInnerTexts();
        const aligned = found.filter((t) => /multiple of/.test(t));
        assert.equal(aligned.length, 1, found.join("\n"));
        assert.match(aligned[0], /and 3\d more like it[^]*\u00d7.3\d/);
        await page.locator("#finding-list summary").first().click();
        assert.ok((await page.locator("#finding-list details li").count()) > 30);
        assert.match(await page.locator("#shards thead").innerText(), /Size\s+Of all files/);
        page.quiet();
    },

    async "blocks are measured, and dtypes that a file made up have a page too"() {
        models.gguf(at("blocks.gguf"));
        tenmap("blocks.gguf", "-o", at("blocks.html"), "--heatmap", at("picture.svg"));
        const page = await open(at("blocks.html"));
        assert.match(await page.locator("#dtypes").innerText(), /Q4_0\s+8\s/);
        await page.locator("#search").fill("attn_q");
        await rows(page).first().click();
        assert.match(await page.locator("#detail").innerText(), /Every finite value is/);
        page.quiet();
        const dtype = (name, begin) =>
            `{"dtype":"${name}","shape":[1],"data_offsets":[${begin},${begin + 1}]}`;
        const made = ["constructor", "__proto__", "toString"].map((d, i) => `"t${i}":${dtype(d, i)}`);
        const json = `{${made.join()}}`;
        const length = Buffer.alloc(8);
        length.writeBigUInt64LE(BigInt(json.length));
        fs.writeFileSync(at("made.safetensors"), Buffer.concat([length, Buffer.from(json + "abc")]));
        tenmap("--lenient", "made.safetensors", "-o", at("made.html"));
        const strange = await open(at("made.html"));
        assert.match(await strange.locator("#dtypes").innerText(), /constructor[^]*toString/);
        assert.equal((await leafFills(strange)).filter((f) => /^#[0-9a-f]{6}$/.test(f)).length, 3);
        strange.quiet();
    },
});
