# diff --tsv: a row for each tensor that differs, the most changed first, then those of other shapes
# and those that only one model has.
t diff small.safetensors other.safetensors --tsv
t diff small.safetensors other.safetensors --tsv --headers --any-metadata
t diff small.safetensors small.safetensors --tsv
t diff small.safetensors other.safetensors --tsv --json
# Every row has as many fields as the first, whatever names contain.
{ header_of 'a\tb\nc' F32 '[2]' 8 d F32 '[2]' 8 && printf '\0\0\200\77\0\0\200\77\0\0\0\0\0\0\200\177'; } >names.safetensors
{ header_of 'a\tb\nc' F32 '[2]' 8 d F32 '[2]' 8 && printf '\0\0\0\100\0\0\200\77\0\0\0\0\0\0\0\0'; } >changed.safetensors
t diff names.safetensors changed.safetensors --tsv
"$tool" diff names.safetensors changed.safetensors --tsv | awk -F '\t' '{print NF}' | sort -u
# Across formats, names of both sides.
"$fixtures" . gguf
t diff llama.safetensors llama.gguf --tsv | cut -f1-7
