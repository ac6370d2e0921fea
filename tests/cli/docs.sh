# The examples of these pages of docs/ print what the pages show.
root=$(cd "$(dirname "$1")/../.." && pwd)
for page in tool recipes quantized fit; do
    models=$fixtures
    [ $page = quantized ] && models=$(dirname "$fixtures")/cli_quantized
    [ $page = fit ] && models=$(dirname "$fixtures")/cli_published
    if [ $page = recipes ]; then
        models=$PWD/recipe_models
        printf '#!/bin/sh\nexec sh "%s" "%s" "$1"\n' "$root/tests/cli/recipes/models.sh" "$fixtures" >"$models"
        chmod +x "$models"
    fi
    sh "$root/scripts/tool-docs.sh" "$tool" "$models" <"$root/docs/$page.md" >"$page.md"
    diff -u "$root/docs/$page.md" "$page.md" >difference && echo "docs/$page.md is true" || tail -n +3 difference
done
