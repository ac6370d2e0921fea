# Metadata of GGUF files keeps its types; --type chooses one.
"$fixtures" . gguf
t meta llama.gguf set llama.context_length 8192 general.name Small
t meta llama.gguf get llama.context_length
t meta llama.gguf set llama.context_length lots
t meta llama.gguf set llama.context_length -1
t meta llama.gguf set llama.context_length 4294967296
t meta llama.gguf set llama.rope.freq_base 1e6 --type f32 --dry-run
t meta llama.gguf set llama.rope.freq_base 1e6 --type f32
t meta llama.gguf set llama.rope.freq_base 500000.0
t meta llama.gguf get llama.rope.freq_base
t meta llama.gguf set new.key true --type bool
t meta llama.gguf set new.key maybe
t meta llama.gguf set new.key x --type array
t meta llama.gguf set tokenizer.ggml.tokens one
t meta llama.gguf set general.alignment 64 --type u32
t meta llama.gguf rm new.key 'llama.rope.*'
t meta llama.gguf rm tenmap.padding
t meta llama.safetensors set k 1 --type u32
t meta llama.gguf rm x --type u32
cat >editor <<'END'
#!/bin/sh
sed -i 's/"general.name": "Small"/"general.name": "Edited"/; s/"llama.context_length": "8192"/"llama.context_length": "4096"/' "$1"
END
chmod +x editor
EDITOR=./editor VISUAL= t meta llama.gguf edit
t meta llama.gguf
t check llama.gguf
t meta llama.gguf clear --keep 'general.*' --keep 'tokenizer.*'
t meta llama.gguf --tsv
t check llama.gguf
# Numbers that the type cannot hold, and what stands before a number.
t meta llama.gguf set new.key 1e400 --type f64
t meta llama.gguf set new.key -1e400 --type f32
t meta llama.gguf set new.key 1e39 --type f32
t meta llama.gguf set new.key "$(printf '\t1')" --type f64
t meta llama.gguf set new.key inf --type f64 --dry-run
# A string that is not UTF-8 stays as it is while the others are edited.
{
    printf 'GGUF\003\0\0\0\0\0\0\0\0\0\0\0\002\0\0\0\0\0\0\0'
    printf '\003\0\0\0\0\0\0\0raw\010\0\0\0\002\0\0\0\0\0\0\0\377x'
    printf '\001\0\0\0\0\0\0\0k\010\0\0\0\001\0\0\0\0\0\0\0v'
} >bytes.gguf
EDITOR=true VISUAL= t meta bytes.gguf edit
printf '#!/bin/sh\nsed -i s/\\"v\\"/\\"w\\"/ "$1"\n' >editor
EDITOR=./editor VISUAL= t meta bytes.gguf edit
t meta bytes.gguf get k
"$tool" meta bytes.gguf get raw | od -An -tx1 -v
