#!/bin/sh
# Shows that each checker finds what it is for. Plants one fault at a time in a copy of the tree,
# runs the checker there, and expects it to fail with a message that names the fault:
#
#     scripts/planted-faults.sh [--all | NAME...]
#
# Without arguments it plants the quick faults, which take seconds. --all adds those that take
# minutes each. NAME is a checker, such as layers or cli/run, and selects its faults. Prints a
# table. Fails if a fault was not caught, if none was planted, or if a script in scripts/ has no
# fault. A checker that cannot run here (exit 77) is reported as skipped. Exits with 77, saying why,
# if all are skipped, or without git, which restores the copy between faults.
set -u
command -v git >/dev/null || { echo "skipped: git is not here" && exit 77; }
# shellcheck disable=SC2046 # names
unset $(git rev-parse --local-env-vars)
unset TENMAP_LIBRARY # that library does not have the fault
cd "$(dirname "$0")/.." || exit 1
root=$PWD
work=$(mktemp -d "${TMPDIR:-/tmp}/tenmap-faults-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
copy=$work/tree
mkdir "$copy"
{
    git ls-files -z 2>/dev/null | grep -z . ||
        find . -type f ! -path './build/*' ! -path './.git/*' -print0
} | tar -cf - --null --ignore-failed-read -T - 2>/dev/null | tar -xf - -C "$copy"
cd "$copy" && git init -q && git add -A || exit 1
echo "$(git ls-files | wc -l) files in the copy"

only=quick names=
[ "${1:-}" = --all ] && only= && shift
[ $# -eq 0 ] || names=" $* "
planted=0 caught=0 skipped=0 seen=

# chosen TIER CHECKER
chosen() {
    if [ -n "$names" ]; then
        for name in $names; do
            case /${2%.*} in */"$name") return 0 ;; esac
        done
        return 1
    fi
    [ -z "$only" ] || [ "$1" = "$only" ]
}

# fault TIER CHECKER PLANT PATTERN [ARGUMENT... | by COMMAND...]: PLANT is a function below. The
# checker, a script of scripts/ if it has no folder, runs in the copy with these arguments, or by
# another command. It must fail and print a line that matches PATTERN.
fault() {
    tier=$1 checker=$2 plant=$3 pattern=$4
    shift 4
    case $checker in */*) ;; *) checker=scripts/$checker ;; esac
    if [ "${1:-}" = by ]; then shift; else set -- sh "$checker" "$@"; fi
    seen="$seen $checker"
    chosen "$tier" "$checker" || return 0
    planted=$((planted + 1)) status=0 began=$(date +%s)
    git checkout -q -- . && git clean -fdq
    $plant
    if git diff --quiet && [ -z "$(git ls-files --others --exclude-standard)" ]; then
        verdict="NO: nothing was planted"
    else
        (exec </dev/null && "$@") >"$work/said" 2>&1 || status=$?
        case $status in
        0) verdict="NO: the checker passed" ;;
        77) verdict="skipped" skipped=$((skipped + 1)) ;;
        *)
            verdict="NO: it failed without that message"
            ! grep -qE -e "$pattern" "$work/said" || { verdict=yes caught=$((caught + 1)); }
            ;;
        esac
        case $verdict in NO*) tail -n 15 "$work/said" | sed 's/^/    /' ;; esac
    fi
    printf '| %-29s | %-38s | %s, %d s\n' "$checker" "$(echo "$plant" | tr _ ' ')" "$verdict" \
        $(($(date +%s) - began))
}

# build TARGET...: builds in the copy, in a folder that persists from one fault to the next.
build() {
    {
        { [ -f build/CMakeCache.txt ] || cmake -S . -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo; } &&
            cmake --build build -j "$(nproc)" --target "$@"
    } >build.log 2>&1 || { tail -n 20 build.log && return 1; }
}
tool=build/tool/tenmap fixtures=build/tests/cli_fixtures
cli() { build tenmap_tool cli_fixtures && sh tests/cli/run.sh $tool $fixtures "$@"; }
recipes() {
    build tenmap_tool cli_fixtures &&
        sh scripts/tool-docs.sh $tool $fixtures <docs/recipes.md >new.md || return
    diff docs/recipes.md new.md
}
memcheck() { build test_dtype && sh scripts/memcheck.sh build dtype; }
# stub PATH LINE...: writes an executable script of these lines.
stub() {
    mkdir -p "$(dirname "$1")" && stub_path=$1 && shift
    { echo '#!/bin/sh' && printf '%s\n' "$@"; } >"$stub_path" && chmod +x "$stub_path"
}
# add FILE LINE..., edit FILE SED-COMMAND, in_dtype_bits C-LINE.
add() { add_path=$1 && shift && printf '%s\n' "$@" >>"$add_path"; }
edit() { sed -i "$2" "$1"; }
in_dtype_bits() { edit src/base/dtype.c "/^uint32_t tenmap_dtype_bits/a\\    $1"; }
# library LINE...: builds planted.so from the listed names and these lines of C.
library() {
    sed 's/.*/void &(void);\nvoid &(void) {}/' scripts/symbols.txt >planted.c
    add planted.c "$@"
    ${CC:-cc} -shared -fPIC planted.c -o planted.so
}
# Runs layers.sh with a compiler that makes empty objects: for faults in what files include.
quick_layers() {
    stub planted/cc 'for object; do :; done' 'exec cp planted/empty.o "$object"'
    ${CC:-cc} -c -x c /dev/null -o planted/empty.o && CC=planted/cc sh scripts/layers.sh
}
# summary FILE: prints what llvm-cov would print, with 94% for src/format/FILE and 100% for the
# others.
summary() {
    echo '{"data": [{"files": ['
    for file in src/*/*.c; do
        percent=100
        [ "$file" != src/format/"$1" ] || percent=94
        echo "{\"filename\": \"/$file\", \"summary\": {\"branches\": {\"percent\": 100}, \"lines\":"
        echo "{\"count\": 100, \"covered\": $percent, \"percent\": $percent}}},"
    done | sed '$s/,$//'
    echo ']}]}'
}
coverage_table() { python3 scripts/coverage_table.py summary.json /dev/null 95; }

# The faults. Each is planted in the folder of the copy.
no_sources() { rm -r src; }
a_kernel_includes_model() { add src/kernels/oracle.c '#include "../model/model.h"'; }
a_folder_that_is_no_layer() { mkdir src/planted && add src/planted/planted.c 'int tmi_planted;'; }
a_source_outside_of_the_layers() { add src/planted.c 'int tmi_planted;'; }
a_kernel_calls_the_model() {
    add src/kernels/oracle.c 'void tmi_lookup_free(void *);' 'void tmi_planted(void);' \
        'void tmi_planted(void) { tmi_lookup_free(0); }'
}
a_function_of_seven_parameters() {
    add src/base/utf8.c 'static int planted(int a, int b, int c, int (*d)(int, int), int e,' \
        '    int f, int g) {' '    return a + b + c + d(e, f) + g;' '}'
}
a_size_from_bits() { add src/model/open.c 'size_t planted = n * tmi_dtypes[d].bits;'; }
a_source_that_does_not_compile() { add src/base/utf8.c '#error planted'; }
a_name_that_is_not_listed() { library 'void tenmap_planted(void) {}'; }
a_listed_name_that_is_missing() { library && add scripts/symbols.txt tenmap_planted; }
a_library_without_names() { : >scripts/symbols.txt && library 'static int planted;'; }
a_macro_in_a_message_for_users() {
    add src/model/open.c 'const char *planted = "set TENMAP_OPEN_LENIENT";'
}
a_remedy_that_no_message_names() {
    edit docs/errors.md '0,/ | "[^"]*" | `TENMAP_/s/ | "[^"]*"/ | "planted words"/'
}
a_remedy_that_no_test_provokes() {
    edit include/tenmap/types.h 's/^ *TENMAP_REMEDY_NONE = 0,/&\n    TENMAP_REMEDY_PLANTED = 99,/'
}
a_promise_without_its_test() {
    edit SECURITY.md 's/^| Promise | Test |$/&\n|---|---|\n| planted | `planted_test` |/'
}
a_Debian_package_of_another_version() { edit debian/changelog '1s/(.*)/(9.9.9)/'; }
a_header_of_another_version() {
    edit include/tenmap/types.h 's/\(#define TENMAP_VERSION_PATCH\) .*/\1 987/'
}
a_program_that_needs_more_than_libc() {
    mkdir -p planted/tenmap && echo 'int puts(const char *); int main(void) { return puts(""); }' >planted/main.c
    ${CC:-cc} -shared -fPIC -x c /dev/null -o planted/libplanted.so
    ${CC:-cc} planted/main.c -Wl,--no-as-needed -Lplanted -lplanted -o planted/tenmap/tenmap
    tar -czf planted/tenmap.tar.gz -C planted tenmap
}
a_program_at_a_fixed_address() {
    mkdir planted && echo 'int main(void) { return 0; }' >planted/main.c
    ${CC:-cc} -no-pie planted/main.c -o planted/tenmap
    tar -czf planted/tenmap.tar.gz -C planted tenmap
}
an_archive_without_binaries() { mkdir planted && tar -czf planted/tenmap.tar.gz LICENSE; }
an_unsigned_program_for_arm64_macOS() { # a header with LC_BUILD_VERSION
    mkdir planted && python3 -c 'import pathlib, struct
header = 0xFEEDFACF, 0x100000C, 0, 2, 1, 24, 0, 0, 0x32, 24, 1, 11 << 16, 11 << 16, 0
pathlib.Path("planted/tenmap").write_bytes(struct.pack("<14I", *header))' &&
        tar -czf planted/tenmap.tar.gz -C planted tenmap
}
a_folder_to_pack_without_files() { mkdir -p planted && add planted.txt planted; }
a_release_with_a_wrong_sum() {
    mkdir planted && add planted/tenmap.whl planted && echo "$(printf '%064d' 0)  tenmap.whl" >planted/SHA256SUMS
}
a_wheel_without_a_manual_page() {
    mkdir planted && (cd planted && python3 -m zipfile -c tenmap-0-any.whl ../LICENSE &&
        sha256sum tenmap-0-any.whl >SHA256SUMS)
}
a_part_that_does_not_exist() { add planted planted; }
a_command_of_musl_at_a_fixed_address() { edit scripts/dist.sh 's/-s -dynamic -pie/-s -dynamic/'; }
a_build_that_depends_on_its_folder() {
    edit python/src/module.c 's/"version", TENMAP_VERSION_TEXT/"version", TENMAP_VERSION_TEXT __FILE__/'
}
a_folder_without_checks() { edit .ci/paths.tsv '/^fuzz\//d'; }
a_pattern_for_no_file() { add .ci/paths.tsv 'planted/*	library'; }
a_group_without_checks() { edit .ci/paths.tsv 's/^man\/.*/&planted/'; }
a_check_that_no_path_selects() { add .ci/run 'check planted "planted" true'; }
an_empty_table_of_paths() { edit .ci/paths.tsv '/^[^#]/d'; }
no_table_of_promises() { edit SECURITY.md 's/^| Promise | Test |$/| Planted |/'; }
a_wrong_indent() { edit src/base/utf8.c 's/^    return 4;/  return 4;/'; }
a_comment_of_101_columns() { add src/base/utf8.c "/* $(printf '%095d' 0) */"; }
a_link_to_a_missing_page() { add README.md '[planted](docs/planted.md)'; }
no_pages() { find . -name '*.md' -exec rm {} +; }
a_reader_below_95_percent() { summary json.c >summary.json; }
a_renamed_reader_below_95_percent() {
    mv src/format/json.c src/format/planted.c && summary planted.c >summary.json
}
a_reader_that_no_test_reaches() {
    add src/format/json.c 'void tmi_planted(int *n);' 'void tmi_planted(int *n) {' \
        "$(seq 40 | sed 's/.*/    *n += &;/')" '}'
}
a_library_that_aborts() { library 'void abort(void); void tenmap_planted(void) { abort(); }'; }
a_library_that_is_not_there() { : >planted; }
in_utf8() { add src/base/utf8.c '#include <stdlib.h>' 'int f(void);' "int f(void) { $1 }"; }
a_leak() { in_utf8 'int *p = malloc(9); return p && (*p = 1);'; }
an_index_past_the_end() { in_utf8 'int a[2] = {0}; return a[2];'; }
a_null_dereference() { in_utf8 'int *n = 0; return *n;'; }
a_benchmark_that_prints_nothing() { stub planted/bench/bench_open 'exit 0'; }
a_quadratic_name_index() {
    edit src/base/name_index.c 's/size_t at = (size_t)hash & names->mask;/size_t at = 0;/'
}
a_header_that_is_not_there() { add src/base/utf8.c '#include "planted.h"'; }
a_static_name_in_two_files() {
    add src/base/utf8.c 'static int planted = 1;' && add src/base/dtype.c 'static int planted = 1;'
}
a_name_that_only_a_switch_exports() {
    add src/base/utf8.c '#ifdef TENMAP_NO_WRITE' \
        '__attribute__((visibility("default"))) int tenmap_planted(void);' \
        'int tenmap_planted(void) { return 1; }' '#endif'
}
a_page_with_other_output() { edit docs/recipes.md 's/^sharded: fine: .*/sharded: planted/'; }
a_page_without_examples() { edit docs/recipes.md 's/^```console/```/'; }
a_help_text_without_its_page() { edit tool/commands/ls.c 's/List tensors as/Planted tensors as/'; }
a_command_without_a_section() { edit docs/tool.md 's/^## realign$/## Planted/'; }
a_command_that_no_script_runs() { edit tests/cli/pages.sh 's/^t completion/"$tool" completion/'; }
a_tool_that_prints_nothing() { stub planted/tool 'exit 0'; }
a_tool_that_fails() { stub planted/tool '[ "$1" = help ] || exit 70'; }
a_tool_without_commands() { stub planted/tool 'exit 64'; }
an_error_message_that_changed() {
    edit tool/main.c "s/there is no command '%s'; 'tenmap/planted '%s'; 'tenmap/"
}
no_scripts_for_the_tool() { find tests/cli -name '*.sh' ! -name run.sh -exec rm {} +; }
a_decision_on_bytes_nobody_wrote() {
    in_dtype_bits 'volatile char planted[8]; if (planted[3] == 7) return 1;'
}
a_read_outside_of_a_block() {
    in_dtype_bits 'volatile char *p = malloc(1); (void)p[1]; free((void *)p);'
    edit src/base/dtype.c 's/^#include <string.h>/#include <stdlib.h>\n&/'
}
a_program_without_tests() { stub planted/tests/test_dtype 'exit 0'; }
a_build_without_tests() { mkdir planted && : >planted/CTestTestfile.cmake; }
a_number_in_the_order_of_the_host() {
    edit src/base/base.h '/^static inline uint64_t tmi_file_u64/a\
        uint64_t planted; __builtin_memcpy(\&planted, bytes, 8); return planted;'
}
Windows_paths_that_are_not_UTF_8() { edit src/os/file_win32.c 's/CP_UTF8, MB_ERR/CP_ACP, MB_ERR/'; }
the_date_of_the_build() {
    add src/base/utf8.c 'extern const char tmi_planted[];' 'const char tmi_planted[] = __DATE__;'
}
a_file_that_no_package_has() { edit debian/libtenmap-dev.install '/tenmap\.pc$/d'; }
a_completion_where_zsh_does_not_look() { edit debian/rules 's/&& mv site-functions .*/\&\& ls/'; }
a_header_that_is_not_installed() { edit CMakeLists.txt 's, include/tenmap\.hpp , ,'; }
an_internal_header_that_is_installed() {
    edit CMakeLists.txt 's,FILES include/tenmap\.h ,&src/base/base.h ,'
}
a_dtype_that_the_table_lacks() {
    edit include/tenmap/types.h 's/^    TENMAP_U64 = 22,/&\n    TENMAP_U128 = 23,/'
}
a_dtype_that_no_page_has() { edit docs/format.md '/^| `BF16` |/d'; }
a_block_of_another_size() { edit docs/format.md 's/`Q4_0` 18/`Q4_0` 17/'; }
a_dtype_without_a_name_in_Python() { edit python/tenmap/_dtype_names.py '/^    "F4"/d'; }
a_dtype_without_a_type_in_CXX() { edit include/tenmap.hpp '/^using f8_e8m0 /d'; }
a_table_without_dtypes() { : >src/base/dtype_table.h; }
a_dtype_without_seeds() { edit src/base/dtype_table.h 's/^    X(U64, 64,/    X(W64, 64,/'; }
a_family_without_tokens() { edit src/model/quantized_families.c 's/"_qdata"/"_planted"/'; }
a_sample_with_a_missing_name() { edit docs/bindings.md 's/tenmap_find/tenmap_planted/'; }
a_field_of_another_type_in_Rust() {
    edit bindings/rust/tenmap-sys/src/declarations.rs 's/pub nelems: u64/pub nelems: i32/'
}
a_parameter_of_another_type_in_Rust() {
    edit bindings/rust/tenmap-sys/src/declarations.rs 's/fn tenmap_at(model: \*const/fn tenmap_at(model: *mut/'
}
a_function_that_Rust_lacks() {
    add scripts/symbols.txt tenmap_planted
}
a_struct_that_Rust_lacks() {
    edit bindings/rust/tenmap-sys/src/declarations.rs 's/pub struct tenmap_stats /pub struct planted /'
}
a_crate_of_another_version() { edit bindings/rust/Cargo.toml 's/^version = "0/version = "7/'; }
a_header_without_declarations() { : >include/tenmap/read.h; }
a_tree_without_bindings() { rm -r bindings/go; }
a_view_that_ignores_the_dtype() {
    edit bindings/go/tensor.go 's/C.tenmap_dtype(dtypeOf\[T\]()), &e)$/C.TENMAP_AS_STORED, \&e)/'
}
a_recipe_without_a_library() { edit packaging/conan/conanfile.py 's/core.libs = .*/core.libs = []/'; }
an_option_of_another_meaning_in_Rust() {
    edit bindings/rust/tenmap/src/options.rs 's/TENMAP_OPEN_DEQUANTIZE/TENMAP_OPEN_ALIASES/'
}
a_dtype_that_is_not_known() {
    edit src/base/dtype.c 's/(tenmap_dtype d = TENMAP_BOOL; d </(tenmap_dtype d = TENMAP_F4; d </'
}

so=planted.so
words=error-messages.sh
fault quick layers.sh a_kernel_includes_model 'oracle.c \(kernels\) includes src/model' \
    by quick_layers
fault quick layers.sh a_folder_that_is_no_layer 'no such layer: planted' by quick_layers
fault quick layers.sh a_source_outside_of_the_layers 'folder of a layer: src/planted.c' \
    by quick_layers
fault slow layers.sh a_kernel_calls_the_model 'needs tmi_lookup_free of src/model'
fault quick bits.sh a_size_from_bits 'open.c:.*planted = n'
fault quick bits.sh no_sources 'no sources'
fault quick dtypes.sh a_dtype_that_the_table_lacks '> U128'
fault quick dtypes.sh a_dtype_that_no_page_has 'BF16 16'
fault quick dtypes.sh a_block_of_another_size 'Q4_0 32 17'
fault quick dtypes.sh a_dtype_without_a_name_in_Python '< F4'
fault quick dtypes.sh a_dtype_without_a_type_in_CXX '< F8_E8M0'
fault quick dtypes.sh a_table_without_dtypes 'no dtypes'
fault quick fuzz/make_seeds.py a_dtype_without_seeds 'header.dict is not what' \
    by python3 fuzz/make_seeds.py --check
fault quick fuzz/make_seeds.py a_family_without_tokens 'quantized.dict is not what' \
    by python3 fuzz/make_seeds.py --check
fault quick sizes.sh a_source_that_does_not_compile '#error planted' cc -O0
fault quick symbols.sh a_name_that_is_not_listed '> tenmap_planted' $so
fault quick symbols.sh a_listed_name_that_is_missing '< tenmap_planted' $so
fault quick symbols.sh a_library_without_names 'exports no names' $so
fault quick $words a_macro_in_a_message_for_users 'open.c:.*planted'
fault quick $words a_remedy_that_no_message_names 'planted words'
fault quick $words a_remedy_that_no_test_provokes 'expects TENMAP_REMEDY_PLANTED'
fault quick $words no_sources 'no sources'
fault quick promises.sh a_promise_without_its_test 'not there: planted_test'
fault quick promises.sh no_table_of_promises 'only 0 tests'
fault quick release.sh a_Debian_package_of_another_version 'FAILED .*it starts with 9.9.9' \
    by sh -c '. scripts/sources.sh && sh scripts/release.sh "$(source_version)"'
fault quick release.sh a_header_of_another_version 'FAILED .*it has [0-9.]*\.987' 0.1.0
fault quick binaries.py a_program_that_needs_more_than_libc 'too much: libplanted.so' \
    by python3 scripts/binaries.py planted/tenmap.tar.gz
fault quick binaries.py a_program_at_a_fixed_address 'FAILED: .*at a fixed address' \
    by python3 scripts/binaries.py planted/tenmap.tar.gz
fault quick binaries.py an_archive_without_binaries 'has no binaries' \
    by python3 scripts/binaries.py planted/tenmap.tar.gz
fault quick binaries.py an_unsigned_program_for_arm64_macOS 'FAILED: macOS 11.0, not signed' \
    by python3 scripts/binaries.py planted/tenmap.tar.gz
fault quick pack.py a_folder_to_pack_without_files 'planted has no files' \
    by python3 scripts/pack.py tar planted planted.tar.gz
fault quick dist.sh a_part_that_does_not_exist 'there is no part planted' planted
fault slow dist.sh a_command_of_musl_at_a_fixed_address 'linux-musl.*FAILED: .*at a fixed address' toolchains
fault quick dist-test.sh a_release_with_a_wrong_sum 'tenmap.whl: FAILED' \
    by env DIST=planted sh scripts/dist-test.sh
fault quick dist-test.sh a_wheel_without_a_manual_page 'has no share/man/man1/tenmap.1' \
    by env DIST=planted sh scripts/dist-test.sh
fault slow dist-test.sh a_build_that_depends_on_its_folder 'two builds of the same commit differ' --sample
fault quick ci-paths.sh a_folder_without_checks 'no row .* matches fuzz/' check
fault quick ci-paths.sh a_pattern_for_no_file 'no file matches .*planted/' check
fault quick ci-paths.sh a_group_without_checks 'in the group packagingplanted' check
fault quick ci-paths.sh a_check_that_no_path_selects 'selects the group planted' check
fault quick ci-paths.sh an_empty_table_of_paths 'no rows' check
fault quick format.sh a_wrong_indent 'utf8.c:.*clang-formatted' --check
fault quick format.sh a_comment_of_101_columns 'utf8.c:.*101 columns' --check
fault quick links.py a_link_to_a_missing_page 'no file .docs/planted.md' by python3 scripts/links.py
fault quick links.py no_pages 'there are no links' by python3 scripts/links.py
fault quick parameters.py a_function_of_seven_parameters 'utf8.c:.*planted has 7 parameters' \
    by python3 scripts/parameters.py
fault quick parameters.py no_sources 'there are only' by python3 scripts/parameters.py
fault quick coverage_table.py a_reader_below_95_percent 'below 95%: json.c' by coverage_table
fault quick coverage_table.py a_renamed_reader_below_95_percent 'below 95%: planted.c' \
    by coverage_table
fault slow coverage.sh a_reader_that_no_test_reaches 'below 95%: json.c'
fault quick imports.sh a_library_that_aborts 'imports: abort' $so
fault quick imports.sh a_library_that_is_not_there 'imports nothing' $so
fault quick analyze.sh a_leak 'leak of' gcc src/base/utf8.c
fault quick analyze.sh an_index_past_the_end 'out of bounds' cppcheck src/base/utf8.c
fault quick analyze.sh a_null_dereference 'null pointer' clang-tidy src/base/utf8.c
fault quick analyze.sh no_sources 'no sources' gcc
fault quick bench/smoke.sh a_benchmark_that_prints_nothing 'FAILED *bench_open' \
    planted/bench bench_open
fault slow linear.sh a_quadratic_name_index 'NOT LINEAR' 200 metadata-keys
fault quick amalgamate.py a_header_that_is_not_there 'planted\.h' \
    by python3 scripts/amalgamate.py planted
fault quick amalgamate.py no_sources 'no sources' by python3 scripts/amalgamate.py planted
fault slow amalgamation-test.sh a_static_name_in_two_files 'redefinition of .planted' gcc
fault slow switches-test.sh a_name_that_only_a_switch_exports '> tenmap_planted'
fault quick tool-docs.sh a_page_without_examples 'no examples' \
    by sh -c 'sh scripts/tool-docs.sh /bin/true /bin/true <docs/recipes.md'
fault slow tool-docs.sh a_page_with_other_output 'sharded: planted' by recipes
fault quick tool-pages.sh a_tool_that_prints_nothing 'printed nothing' planted/tool
fault slow tool-pages.sh a_help_text_without_its_page 'man/tenmap.1 is old' by cli pages
fault quick tour.sh a_tool_without_commands 'none of the commands' planted/tool LICENSE
fault quick tour.sh a_tool_that_fails 'exit 70' planted/tool LICENSE
fault quick run-tests.sh a_build_without_tests 'No tests' planted
fault quick repeat-tests.sh a_build_without_tests '1 runs, 1 failed' planted 1
fault slow msan.sh a_decision_on_bytes_nobody_wrote 'use-of-uninitialized-value' dtype
fault quick memcheck.sh a_program_without_tests 'no test ran' planted dtype
fault slow memcheck.sh a_read_outside_of_a_block 'Invalid read of size 1' by memcheck
fault slow cross-test.sh a_number_in_the_order_of_the_host 'length field says' \
    s390x-linux-gnu qemu-s390x
fault slow windows-test.sh Windows_paths_that_are_not_UTF_8 \
    'support.c:[0-9]+: .*/mod.*safetensors": cannot open the file'
fault slow reproducible.sh the_date_of_the_build 'the two builds differ'
fault slow debian-test.sh a_file_that_no_package_has 'tenmap\.pc'
fault slow debian-test.sh a_completion_where_zsh_does_not_look 'no package has .*/_tenmap'
fault quick rust-declarations.py a_field_of_another_type_in_Rust 'tensor.nelems has another type' \
    by python3 scripts/rust-declarations.py --check
fault quick rust-declarations.py a_parameter_of_another_type_in_Rust 'conflicting types.*tenmap_at' \
    by python3 scripts/rust-declarations.py --check
fault quick rust-declarations.py a_function_that_Rust_lacks 'not declared.*: tenmap_planted' \
    by python3 scripts/rust-declarations.py --check
fault quick rust-declarations.py a_struct_that_Rust_lacks 'not declared.*: tenmap_stats' \
    by python3 scripts/rust-declarations.py --check
fault quick rust-declarations.py a_crate_of_another_version 'Cargo.toml has version .*7' \
    by python3 scripts/rust-declarations.py --check
fault quick rust-declarations.py a_header_without_declarations 'declarations.rs is old' \
    by python3 scripts/rust-declarations.py --check
fault quick bindings-tree.sh a_tree_without_bindings 'nothing in bindings/go' planted
fault slow bindings-test.sh a_sample_with_a_missing_name 'tenmap_planted' samples
fault slow bindings-test.sh an_option_of_another_meaning_in_Rust 'quantized_weights_are_one' rust
fault slow bindings-test.sh a_view_that_ignores_the_dtype 'want the status' go
fault slow bindings-test.sh a_recipe_without_a_library 'undefined reference' conan
fault slow tests/install/check.sh a_header_that_is_not_installed 'tenmap\.hpp' \
    "$copy" "$work/installed"
fault slow tests/install/check.sh an_internal_header_that_is_installed 'not part .*base\.h' \
    "$copy" "$work/installed"
fault quick tests/cli/run.sh no_scripts_for_the_tool 'no scripts' /bin/true /bin/true
fault slow tests/cli/run.sh a_command_without_a_section 'realign: docs/tool.md has no section' \
    by cli commands
fault slow tests/cli/run.sh a_command_that_no_script_runs 'completion: no script' \
    by cli commands
fault slow tests/cli/run.sh an_error_message_that_changed 'FAILED: main' by cli main
fault slow tests/peers/differential.sh a_dtype_that_is_not_known '[1-9][0-9]* disagreements' 500

missed=$((planted - caught - skipped))
if [ -z "$names" ]; then
    for script in "$root"/scripts/*.sh "$root"/scripts/*.py; do
        script=scripts/${script##*/}
        case $script in
        */bench.sh | */deps.sh | */long.sh | */peers.sh | */sources.sh | */planted-faults.sh)
            continue
            ;;
        esac
        case " $seen " in *" $script "*) continue ;; esac
        echo "no fault is planted for $script" && missed=$((missed + 1))
    done
fi
echo "$planted faults, $caught caught, $missed missed, $skipped skipped"
[ $planted -gt 0 ] && [ $missed -eq 0 ] || exit 1
[ $caught -gt 0 ] || { echo "skipped: no checker of these can run here" && exit 77; }
