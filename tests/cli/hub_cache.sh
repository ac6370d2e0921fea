# inventory of a hub's cache: rows are ORG/NAME@REVISION at every width, files are verified by their
# names, and what downloads left behind is listed.
command -v script >/dev/null || skip "there is no script (util-linux) to make a terminal"
one=0123456789abcdef0123456789abcdef01234567 two=89abcdef0123456789abcdef0123456789abcdef
# put MODEL REVISION NAME FILE: stores the file as a hub's client does.
put() {
    folder=hub/models--$1
    mkdir -p "$folder/blobs" "$folder/snapshots/$2" "$folder/refs" "$folder/.no_exist/$2"
    : >"$folder/.no_exist/$2/model.safetensors"
    case $3 in
    *.json) digest=$(printf %040d 7) ;;
    *) digest=$(sha256sum "$4" | cut -d' ' -f1) ;;
    esac
    cp "$4" "$folder/blobs/$digest"
    ln -sf "../../blobs/$digest" "$folder/snapshots/$2/$3"
    printf %s "$2" >"$folder/refs/main"
}
echo '{"architectures": ["LlamaForCausalLM"]}' >config.json
long=a-long-organization--A-Model-With-A-Long-Name-72B-Instruct-v0.3
put meta--Small-1B $one model.safetensors layers.safetensors
put meta--Small-1B $one config.json config.json
put meta--Small-1B $two model.safetensors layers.safetensors
put $long $one model.safetensors layers.safetensors
put other--adapters $one a.safetensors small.safetensors
put other--adapters $one b.safetensors other.safetensors
# A download that did not end, a link without its file, a damaged file.
echo half >hub/models--other--adapters/blobs/$(printf %064d 1).incomplete
ln -s ../../blobs/gone hub/models--other--adapters/snapshots/$one/gone.safetensors
# Hidden folders and links to folders are followed, loops are not.
mkdir -p hub/.hidden elsewhere/deep
cp small.safetensors hub/.hidden/kept.safetensors
cp other.safetensors elsewhere/deep/far.safetensors
ln -s ../elsewhere hub/linked
ln -s .. hub/loop
ln -s ../elsewhere elsewhere/round
t inventory hub
for columns in 80 120; do
    echo "$columns columns"
    script -qec "stty cols $columns rows 24; $tool inventory hub --no-duplicates --color never 2>/dev/null" /dev/null </dev/null | tr -d '\r'
done
t inventory hub --tsv
t inventory hub --json
t inventory hub --verify --no-duplicates --depth 2
printf x | dd of="hub/models--meta--Small-1B/blobs/$(cd hub/models--meta--Small-1B/blobs && ls | grep -E '^.{64}$')" \
    bs=1 seek=20000 conv=notrunc 2>/dev/null
t inventory hub/models--meta--Small-1B --verify
t inventory hub --tsv --json
# In a cache, any file may be missing. To verify nothing is not success.
ln -s ../../blobs/gone "hub/models--other--adapters/snapshots/$one/config.json"
t inventory hub/models--other--adapters --no-duplicates
# Where names of files leave no room, they are below their model, which is never shortened.
"$fixtures" . gguf
gguf=bartowski--Meta-Llama-3.1-8B-Instruct-GGUF
put $gguf $two Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf llama.gguf
put $gguf $two Meta-Llama-3.1-8B-Instruct-Q8_0.gguf nvfp4.gguf
put $gguf $two model.safetensors small.safetensors
for columns in 80 120 160; do
    echo "$columns columns"
    script -qec "stty cols $columns rows 24; $tool inventory hub/models--$gguf --no-duplicates --color never 2>/dev/null" /dev/null </dev/null | tr -d '\r'
done
t inventory hub/models--$gguf --no-duplicates
mkdir plain
cp small.safetensors plain
ln -s gone plain/config.json
t inventory plain --verify --no-duplicates
t inventory plain --no-duplicates
