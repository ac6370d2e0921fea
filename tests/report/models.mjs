// Writes the models for the tests of the report.
import fs from "node:fs";

const BITS = { F32: 32, BF16: 16, F8_E4M3: 8, I64: 64, U8: 8 };

// Reproducible normal numbers; two streams, so that a fine-tune can change values and leave the
// rest alone.
function stream() {
    const state = { seed: 1 };
    const random = () => {
        state.seed = (Math.imul(state.seed, 1103515245) + 12345) & 0x7fffffff;
        return state.seed / 0x80000000;
    };
    state.next = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    return state;
}
const values = stream();
const noise = stream();
const gauss = () => values.next();

// Returns elements in file order; `value` returns each one as a number.
function elements(dtype, count, value) {
    const bytes = Buffer.alloc((count * BITS[dtype]) / 8);
    for (let i = 0; i < count; i++) {
        if (dtype === "F32") bytes.writeFloatLE(value(i), 4 * i);
        else if (dtype === "BF16") {
            const wide = Buffer.alloc(4);
            wide.writeFloatLE(value(i));
            wide.copy(bytes, 2 * i, 2, 4);
        } else if (dtype === "I64") bytes.writeBigInt64LE(BigInt(Math.round(value(i))), 8 * i);
        else bytes[i] = Math.abs(Math.round(value(i) * 100)) % 120;
    }
    return bytes;
}

// tensors: [name, dtype, shape, value]; without a value, all zero.
export function write(path, tensors, metadata) {
    const entries = metadata ? [`"__metadata__":${JSON.stringify(metadata)}`] : [];
    const parts = [];
    let at = 0;
    for (const [name, dtype, shape, value] of tensors) {
        const count = shape.reduce((a, b) => a * b, 1);
        const bytes = value ? elements(dtype, count, value) : Buffer.alloc((count * BITS[dtype]) / 8);
        // Not through an object: names such as "1" or "__proto__" would move or vanish.
        entries.push(
            `${JSON.stringify(name)}:{"dtype":"${dtype}","shape":[${shape}],"data_offsets":[${at},${at + bytes.length}]}`,
        );
        at += bytes.length;
        parts.push(bytes);
    }
    let json = Buffer.from(`{${entries.join(",")}}`);
    json = Buffer.concat([json, Buffer.alloc((8 - (json.length % 8)) % 8, " ")]);
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(json.length));
    fs.writeFileSync(path, Buffer.concat([length, json, ...parts]));
}

// A small language model; layer 7 has an unusual weight, layer 3 a NaN. `change` makes the changes
// of a fine-tune.
export function showcase(path, change) {
    values.seed = noise.seed = 42;
    const [W, H, V, L] = [48, 128, 1000, 12];
    const normal = (scale) => () => gauss() * scale;
    const tuned = (scale, layer) => () =>
        gauss() * scale + noise.next() * scale * change * ((layer + 1) / L) ** 3;
    const list = [["model.embed_tokens.weight", "BF16", [V, W], normal(0.02)]];
    for (let i = 0; i < L; i++) {
        const p = `model.layers.${i}.`;
        list.push([p + "input_layernorm.weight", "F32", [W], () => 1 + gauss() * 0.05]);
        for (const q of ["q", "k", "v", "o"]) {
            const nan = i === 3 && q === "k";
            const value = tuned(0.03 * (1 + i / 40), i);
            list.push([
                `${p}self_attn.${q}_proj.weight`,
                "BF16",
                [W, W],
                nan ? (k) => (k === 5 ? NaN : value()) : value,
            ]);
        }
        for (const q of ["gate", "up"]) list.push([`${p}mlp.${q}_proj.weight`, "BF16", [H, W], normal(0.02)]);
        list.push([p + "mlp.down_proj.weight", "F8_E4M3", [W, H], normal(i === 7 ? 0.2 : 0.1)]);
        list.push([p + "post_attention_layernorm.weight", "F32", [W], () => 1 + gauss() * 0.05]);
    }
    list.push(["model.norm.weight", "F32", [W], () => 1 + gauss() * 0.05]);
    list.push([change ? "lm_head.weight" : "lm_head_old.weight", "BF16", [V / 2, W], normal(0.02)]);
    write(path, list, { format: "pt", base_model: "showcase", steps: change ? "120000" : "100000" });
}

// As many tensors as the largest mixture-of-experts models have, each with a few values.
export function hundredThousand(path) {
    values.seed = 7;
    const list = [["model.embed_tokens.weight", "BF16", [64, 8], gauss]];
    for (let i = 0; list.length < 99990; i++) {
        const p = `model.layers.${i}.`;
        for (const q of ["q_a", "q_b", "kv_a", "kv_b", "o"])
            list.push([`${p}self_attn.${q}_proj.weight`, "BF16", [8, 8], gauss]);
        for (let e = 0; e < 272; e++) {
            for (const q of ["gate", "up", "down"]) {
                list.push([`${p}mlp.experts.${e}.${q}_proj.weight`, "F8_E4M3", [4, 8], gauss]);
                list.push([`${p}mlp.experts.${e}.${q}_proj.weight_scale_inv`, "F32", [1, 1], gauss]);
            }
        }
        list.push([p + "input_layernorm.weight", "F32", [8], gauss]);
    }
    list.length = Math.min(list.length, 99999);
    list.push(["lm_head.weight", "BF16", [64, 8], gauss]);
    write(path, list, { format: "pt" });
    return list.length;
}

// Names that could be mistaken for something other than text.
export const HOSTILE = [
    "</script><script>window.pwned=1</script>",
    '"><img src=x onerror=window.pwned=2>',
    "<svg onload=window.pwned=3>",
    "javascript:window.pwned=4",
    "]]><!--<script>window.pwned=5</script>",
    "<!--<script>",
    "\u202egnp.exe\u2066 right to left",
    "nul\u0000inside",
    "quotes ' \" ` ${window.pwned=6} {{script}}",
    "line\nbreak\r\u2028\u2029end",
    "&lt;b&gt; &amp; &#x3c;",
    "\uffff\ufffe \ud83d\ude00 \u0007\u001b[31m",
    "__proto__",
    "constructor.prototype.polluted",
    "layers.0.</title><script>window.pwned=7</script>",
    "layers.1.</title><script>window.pwned=7</script>",
    "",
    "..",
    "a" + ".b".repeat(20000),
    "x".repeat(100000),
];

export function hostile(path) {
    const tensors = HOSTILE.map((name, i) => [name, "F32", [i + 1], gauss]);
    const metadata = Object.fromEntries(HOSTILE.slice(0, 12).map((name) => [name, name]));
    write(path, tensors, metadata);
}

export function noLayers(path) {
    values.seed = 3;
    write(path, [
        ["many_dimensions", "F32", new Array(60).fill(1), gauss],
        ["conv1.weight", "F32", [8, 1, 3, 3], gauss],
        ["conv1.bias", "F32", [8], gauss],
        ["fc.weight", "F32", [10, 72], gauss],
        ["fc.bias", "F32", [10], gauss],
        ["steps", "I64", [], () => 12],
    ]);
}

export function empty(path) {
    write(path, []);
}

// LoRA adapters of a small image model, with the two common kinds of names: one word per module,
// joined by _, and paths of the modules. A third of its tensors each are alpha, down and up.
const LORA_BLOCKS = [
    ["down_blocks", [0, 1, 2], [0, 1]],
    ["up_blocks", [1, 2, 3], [0, 1]],
];
const LORA_TARGETS = ["attn1.to_q", "attn1.to_k", "attn1.to_v", "attn1.to_out.0", "ff.net.2"];

function loraModules() {
    const list = [];
    for (const [block, numbers, attentions] of LORA_BLOCKS)
        for (const n of numbers)
            for (const a of attentions) {
                const p = `unet.${block}.${n}.attentions.${a}.`;
                list.push(p + "proj_in");
                for (const t of LORA_TARGETS) list.push(`${p}transformer_blocks.0.${t}`);
            }
    list.push("unet.mid_block.attentions.0.proj_in");
    for (let i = 0; i < 12; i++)
        for (const q of ["q_proj", "v_proj"]) list.push(`te.text_model.encoder.layers.${i}.self_attn.${q}`);
    return list;
}

export function kohya(path) {
    values.seed = 11;
    const list = [];
    for (const module of loraModules()) {
        const name = "lora_" + module.replace(/\./g, "_");
        const width = /te_text/.test(name) ? 48 : 64;
        list.push([name + ".alpha", "F32", [], () => 8]);
        list.push([name + ".lora_down.weight", "BF16", [8, width], () => gauss() * 0.05]);
        list.push([name + ".lora_up.weight", "BF16", [width, 8], () => gauss() * 0.01]);
    }
    write(path, list, {
        ss_network_dim: "8",
        ss_network_alpha: "8",
        ss_base_model_version: "sd_v1",
        ss_tag_frequency: JSON.stringify({
            "10_person": Object.fromEntries([...Array(60)].map((_, i) => [`tag ${i}`, i])),
        }),
    });
    return list.map(([name]) => name);
}

export function diffusers(path) {
    values.seed = 12;
    const list = [];
    for (const module of loraModules())
        for (const [end, shape] of [
            ["lora_A", [8, 64]],
            ["lora_B", [64, 8]],
        ])
            list.push([`${module}.${end}.weight`, "F32", shape, () => gauss() * 0.05]);
    write(path, list, { format: "pt" });
    return list.map(([name]) => name);
}

// A fine-tune that changed values a little, broke two tensors, repaired one that was broken in its
// base, set one to zero, and lost the last layer.
export function wrongTune(path, tuned) {
    values.seed = noise.seed = 21;
    const near = (strength) => () => gauss() + (tuned ? noise.next() * strength : 0);
    const list = [["embed.weight", "F32", [64, 16], near(0)]];
    for (let i = 0; i < 6; i++) {
        const weight = near(0.002 * (i + 1));
        const bias = near(0);
        const broken = (k) => (tuned ? i === 2 && k < 3 : i === 4 && k === 0);
        const own = [
            [`block-${i}.weight`, "F32", [16, 16], (k) => (broken(k) ? (weight(), NaN) : weight())],
            [`block-${i}.bias`, "F32", [16], () => (tuned && i === 1 ? bias() * 0 : bias())],
        ];
        if (!tuned || i < 5) list.push(...own);
    }
    values.seed = 22;
    const head = near(0);
    list.push(["head.weight", "F32", [16, 16], (k) => (tuned && k === 7 ? (head(), Infinity) : head())]);
    write(path, list);
}

// A GGUF file: 4-bit blocks and norms.
export function gguf(path) {
    values.seed = 31;
    const u32 = (n) => Buffer.from(Uint32Array.of(n).buffer);
    const u64 = (n) => Buffer.from(BigUint64Array.of(BigInt(n)).buffer);
    const text = (t) => Buffer.concat([u64(t.length), Buffer.from(t)]);
    const padded = (b) => Buffer.concat([b, Buffer.alloc((32 - (b.length % 32)) % 32)]);
    const infos = [];
    const data = [];
    let at = 0;
    const put = (name, shape, type, bytes) => {
        infos.push(text(name), u32(shape.length), ...shape.map(u64), u32(type), u64(at));
        data.push(padded(bytes));
        at += data[data.length - 1].length;
    };
    for (let i = 0; i < 4; i++) {
        for (const kind of ["attn_q", "ffn_up"])
            put(`blk.${i}.${kind}.weight`, [64, 64], 2, Buffer.alloc(128 * 18, 0x11 + i));
        put(`blk.${i}.attn_norm.weight`, [64], 0, elements("F32", 64, gauss));
    }
    const head = [Buffer.from("GGUF"), u32(3), u64(12), u64(1)];
    const architecture = [text("general.architecture"), u32(8), text("llama")];
    fs.writeFileSync(
        path,
        Buffer.concat([padded(Buffer.concat([...head, ...architecture, ...infos])), ...data]),
    );
}
