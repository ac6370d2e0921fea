# The examples of docs/tool.md, docs/recipes.md and docs/quantized.md print what these files show.
"$tool" hash --model small.safetensors >/dev/null 2>&1 || skip "this build has no OpenSSL or no libxxhash"
root=$(cd "$(dirname "$1")/../.." && pwd)
for page in tool recipes quantized; do
    models=$fixtures
    [ $page = quantized ] && models=$(dirname "$fixtures")/cli_quantized
    sh "$root/scripts/tool-docs.sh" "$tool" "$models" <"$root/docs/$page.md" >"$page.md"
    diff -u "$root/docs/$page.md" "$page.md" >difference && echo "docs/$page.md is true" || tail -n +3 difference
done
