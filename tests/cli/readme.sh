# The examples of README.md print what it shows, on the model that `make run` creates.
demo=$(dirname "$fixtures")/../examples/demo
[ -x "$demo" ] || skip "this build has no examples"
command -v fmt >/dev/null || skip "fmt is not here"
root=$(cd "$(dirname "$1")/../.." && pwd)
printf '#!/bin/sh\nexec "%s" "$1/demo.safetensors" >/dev/null\n' "$demo" >models
chmod +x models
sh "$root/scripts/tool-docs.sh" "$tool" models <"$root/README.md" >README.md
diff -u "$root/README.md" README.md >difference && echo "README.md is true" || tail -n +3 difference
