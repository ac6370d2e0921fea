# The examples of docs/tool.md print what the page shows.
"$tool" hash --model small.safetensors >/dev/null 2>&1 || skip "this build has no OpenSSL or no libxxhash"
root=$(cd "$(dirname "$1")/../.." && pwd)
sh "$root/scripts/tool-docs.sh" "$tool" "$fixtures" <"$root/docs/tool.md" >tool.md
diff -u "$root/docs/tool.md" tool.md >difference && echo "docs/tool.md is true" || tail -n +3 difference
