# On a terminal of 80 columns: colors, names cut in the middle, nothing that the terminal would
# obey.
command -v script >/dev/null || skip "there is no script (util-linux) to make a terminal"
on_terminal() {
    echo "on a terminal: tenmap $*"
    script -qec "stty cols 80 rows 24; $tool $*" /dev/null </dev/null | tr -d '\r' >shown
}
seen() {
    sed 's/\x1b/ESC/g' shown
}
widest() {
    echo "widest line: $(sed 's/\x1b\[[0-9]*m//g' shown | wc -L)"
}

on_terminal ls small.safetensors && seen
on_terminal info --color never sharded && seen && widest
on_terminal ls --color never -l sharded "'*.1?.*'" && seen && widest
on_terminal ls --tree --color never sharded "'*.11.*'" && seen
NO_COLOR=1 && export NO_COLOR
on_terminal info --top 1 small.safetensors && seen
unset NO_COLOR
on_terminal ls hostile.safetensors && seen
on_terminal meta hostile.safetensors && seen
"$tool" meta small.safetensors set evil "$(printf 'a\033[31mb\nc\td')" >/dev/null
on_terminal meta small.safetensors get evil && seen
"$tool" meta small.safetensors get evil | od -A n -c
"$tool" meta small.safetensors set long "$(printf '%02000d' 0)" >/dev/null
on_terminal meta --color never small.safetensors && seen && widest
on_terminal info --color never --top 0 small.safetensors && seen
on_terminal get --color never layers.safetensors model.embed_tokens.weight && seen
on_terminal get small.safetensors embed.weight -o - && seen
# One row that is wider than any terminal does not affect the others; a pipe gets all of it.
dims=$(printf ',1%.0s' $(seq 300))
header="{\"a\":{\"dtype\":\"U8\",\"shape\":[1$dims],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}"
printf "\\$(printf %o $((${#header} % 256)))\\$(printf %o $((${#header} / 256)))\0\0\0\0\0\0%sxx" "$header" >wide.safetensors
on_terminal ls --color never wide.safetensors && seen
"$tool" ls wide.safetensors | wc -L
"$tool" ls wide.safetensors | sed -n '3,$p' | wc -L
on_terminal ls --tree small.safetensors "'layer*'" && seen
