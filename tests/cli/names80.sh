# At 80 columns, layers can be told apart: no two rows of a table begin alike, and no line is wider.
command -v script >/dev/null || skip "there is no script (util-linux) to make a terminal"
on_terminal() { # without stderr, where a progress bar appears on a slow machine
    echo "on a terminal: tenmap $*"
    script -qec "stty cols 80 rows 24; $tool $* --color never 2>/dev/null" /dev/null </dev/null | tr -d '\r' >shown
}
judge() { # first and last lines, the widest line, and names that occur twice
    sed -n '1,6p' shown
    echo ...
    tail -n 3 shown
    echo "widest line: $(wc -L <shown), names twice: $(cut -d' ' -f1 shown | grep '[.~…]' | sort | uniq -d | wc -l)"
}
"$tool" rename layers.safetensors 's/^model\./base_model.model.language_model.transformer./' -o long.safetensors >/dev/null
"$tool" convert long.safetensors --to f16 --rule '*layers.1.*=f4' -o half.safetensors >/dev/null
on_terminal ls long.safetensors && judge
on_terminal ls -l half.safetensors && judge
on_terminal stats long.safetensors && judge
on_terminal diff long.safetensors half.safetensors --any-dtype && judge
"$tool" rename layers.safetensors 's/^model\.layers\.([0-9]+)\.(.*)\.weight/lora_unet_down_blocks_0_attentions_\1_transformer_blocks_0_\2.lora_down.weight/' -o kohya.safetensors >/dev/null
on_terminal ls kohya.safetensors -x model && judge
on_terminal stats kohya.safetensors && judge
# What all rows have in common is printed once; a pipe gets the full rows.
on_terminal ls kohya.safetensors -d bf16 -x model && judge
"$tool" ls kohya.safetensors -d bf16 -x model | sed -n '1,2p'
# Digits stay when words must be cut.
on_terminal info kohya.safetensors && grep -A 3 Largest shown
