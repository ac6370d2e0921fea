# The read-only commands, on published files and on hand-made ones for each rule.
[ -d "${TENMAP_CORPUS:-}" ] || skip "TENMAP_CORPUS names no folder"
echo "only failures are shown"

# The tool's text output never contains a byte that a terminal would obey.
clean() {
    if LC_ALL=C grep -q "[$(printf '\001-\010\013-\037\177')]" "$1"; then
        echo "$file: $2: control characters in the output"
    fi
}
# Each form exits with 0, and outputs that must agree do.
accepted() {
    for form in "ls" "ls -l" "ls --tree" "ls --json" "ls --tsv" "info" "info --json" "meta" "meta --json" "meta --tsv"; do
        "$tool" ${form%% *} "$file" $(echo "$form " | cut -d' ' -f2-) >out 2>&1 || echo "$file: $form: exit $?"
        clean out "$form"
        case $form in *--json) cat out >>documents ;; esac
    done
    "$tool" ls --tsv "$file" >tsv
    "$tool" info --json "$file" >info
    rows=$(($(wc -l <tsv) - 1))
    [ "$rows" = "$1" ] || echo "$file: ls lists $rows tensors, not $1"
    bytes=$(awk -F '\t' 'NR > 1 { sum += $5 } END { printf "%.0f", sum }' tsv)
    grep -q "\"data_bytes\": $bytes," info || echo "$file: info and ls count different bytes"
    awk -F '\t' 'NF != 8 { print "a line with " NF " fields" }' tsv
}
# The first tensor's values: as many as it has elements.
values() {
    name=$(awk -F '\t' 'NR == 2 && $1 !~ /[^A-Za-z0-9_.-]/ && $4 < 100000 { print $1 }' tsv)
    [ -n "$name" ] || return 0
    count=$(awk -F '\t' 'NR == 2 { print $4 }' tsv)
    lines=$("$tool" get --raw-values "$file" "$name" | wc -l)
    [ "$lines" = "$count" ] || echo "$file: get prints $lines values of $count"
    "$tool" get "$file" "$name" >out || echo "$file: get: exit $?"
    "$tool" get "$file" "$name" -f -o x.npy || echo "$file: get -o: exit $?"
}
rejected() {
    for form in ls info meta; do
        status=0
        "$tool" $form "$file" >out 2>&1 || status=$?
        case $status in 2 | 3) ;; *) echo "$file: $form: exit $status" ;; esac
        [ "$(wc -l <out)" = 1 ] || echo "$file: $form: not one sentence"
        clean out "$form"
    done
}
tab=$(printf '\t')
tail -n +2 "$TENMAP_CORPUS/EXPECTED.tsv" >cases
while IFS="$tab" read -r path verdict tensors _; do
    file=$TENMAP_CORPUS/$path
    case $verdict in
    accept) accepted "$tensors" ;;
    *) rejected ;;
    esac
done <cases
tail -n +2 "$TENMAP_CORPUS/MANIFEST.tsv" | cut -f 1,8 >real
while IFS="$tab" read -r path tensors; do
    file=$TENMAP_CORPUS/$path
    accepted "$tensors"
    values
done <real
tail -n +2 "$TENMAP_CORPUS/INVALID.tsv" | cut -f 1 >invalid
while read -r path; do
    file=$TENMAP_CORPUS/$path
    rejected
done <invalid
file=$TENMAP_CORPUS/sharded/fluxml
accepted 36

# Parses all the JSON above with another JSON reader.
if command -v python3 >/dev/null; then
    python3 - <<'END'
import json
text = open("documents", encoding="utf-8").read()
decoder, at = json.JSONDecoder(), 0
while at < len(text):
    document, at = decoder.raw_decode(text, at)
    at += 1
END
fi
