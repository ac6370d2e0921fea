#!/bin/sh
# Error messages are written for their reader. Messages that an engine shows to its users name no
# macro: a string of the library may contain TENMAP_ only in an error with status
# TENMAP_ERR_ARGUMENT, which is a mistake of the programmer, or as a piece of such a message: the
# name of a struct's initializer. The table of remedies in docs/errors.md has the macros, and every
# remedy there quotes an error message. A unit test provokes each remedy.
#
#     scripts/error-messages.sh [SOURCE]
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1

. scripts/sources.sh
files=$(library_sources) || exit 1

# Prints each C statement on one line, without comments, with the number of its first line. @TENMAP_
# marks one inside a string.
statements() {
    awk '
    function put() { if (text != "") print FILENAME ":" first ": " text; text = "" }
    FNR == 1 { text = ""; comment = 0 }
    {
        line = $0 " "
        out = ""; in_string = 0
        for (i = 1; i <= length(line); i++) {
            c = substr(line, i, 1); two = substr(line, i, 2)
            if (comment) { if (two == "*/") { comment = 0; i++ }; continue }
            if (in_string) {
                if (c == "\\") { i++; c = c substr(line, i, 1) } else if (c == "\"") in_string = 0
                out = out (substr(line, i, 7) == "TENMAP_" ? "@" : "") c
                continue
            }
            if (two == "/*") { comment = 1; i++; continue }
            if (c == "\047") { i += two == "\047\\" ? 3 : 2; continue } # one character
            if (c == "\"") in_string = 1
            out = out c
            if (c == ";" || c == "{" || c == "}") {
                if (text == "") first = FNR
                text = text out; out = ""
                put()
            }
        }
        if (out ~ /[^ ]/) { if (text == "") first = FNR; text = text out }
        if (line ~ /^#/ && line !~ /\\ $/) put()
    }' "$@"
}

found=$(statements $files | grep '@TENMAP_' |
    grep -v '[^@]TENMAP_ERR_ARGUMENT' |
    grep -vE '"@TENMAP_([A-Z]*_)?(OPTIONS|IO)_INIT"' |
    grep -vE '"@TENMAP_" #name|return "@TENMAP_ERR_UNKNOWN"|getenv\("@TENMAP_')
if [ -n "$found" ]; then
    echo "an error message for users names a macro; say it in words, and put the macro into docs/errors.md:"
    printf '%s\n' "$found"
    exit 1
fi

# The second column of the table of remedies: quoted words that occur in some error message. The
# first: every remedy that an error of the library can have.
rows=$(sed -n '/^| Remedy | The message says |/,/^$/p' docs/errors.md | sed '1,2d' |
    sed -n 's/^|[^|]*| \("[^"]*"\).*/\1/p')
for remedy in $(grep -ho 'TENMAP_REMEDY_[A-Z][A-Z_]*' $files | sort -u); do
    [ $remedy = TENMAP_REMEDY_NONE ] || grep -q "\`$remedy\`" docs/errors.md || {
        echo "docs/errors.md: $remedy is missing"
        exit 1
    }
done
for remedy in $(grep -ho 'TENMAP_REMEDY_[A-Z][A-Z_]*' include/tenmap/types.h | sort -u); do
    grep -rqE "assert_int_equal\(.*remedy.*[ (]$remedy( :.*)?\);" tests/unit http/tests || {
        echo "tests: no assertion on a line of its own expects $remedy"
        exit 1
    }
done
[ -n "$rows" ] || { echo "docs/errors.md: the table of remedies is not there"; exit 1; }
all=$(cat $files | tr -d '\n' | sed 's/" *"//g')
printf '%s\n' "$rows" | tr -d '"' | while IFS= read -r words; do
    case $all in
    *"$words"*) ;;
    *) echo "docs/errors.md: no error message says: $words" && exit 1 ;;
    esac
done || exit 1
echo "$(printf '%s\n' "$rows" | wc -l) remedies in words, no macro in an error message for users"
