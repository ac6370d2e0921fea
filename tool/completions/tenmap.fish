# fish completion for tenmap, made by 'tenmap completion fish'.

function __tenmap_first
    test (count (commandline -opc)) -eq 1
end

function __tenmap_using
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = $argv[1]
end

# Operands before the cursor; the value of an option may be counted as one.
function __tenmap_operands
    set -l words (commandline -opc)
    test (count (string match -v -- '-*' $words[3..-1])) -eq $argv[1]
end

function __tenmap_names
    for word in (commandline -opc)[3..-1]
        if test -e $word
            tenmap ls --tsv $word 2>/dev/null | tail -n +2 | cut -f 1
            return
        end
    end
end

complete -c tenmap -f -n __tenmap_first -a help -d 'Show the help of a command'
complete -c tenmap -f -n __tenmap_first -a ls -d 'List tensors as a table or a tree'
complete -c tenmap -n '__tenmap_using ls' -s t -l tree -d 'As a tree of modules, with sums for each'
complete -c tenmap -n '__tenmap_using ls' -s D -l depth -x -d 'Show N levels of the tree; implies --tree'
complete -c tenmap -n '__tenmap_using ls' -s l -l long -d 'Also offsets in the file, and what they are aligned to'
complete -c tenmap -n '__tenmap_using ls' -s s -l sort -x -a 'file name size params dtype' -d 'In this order: names with numbers as numbers, size and params with the largest first'
complete -c tenmap -n '__tenmap_using ls' -s r -l reverse -d 'In the opposite order'
complete -c tenmap -n '__tenmap_using ls' -s d -l dtype -x -a 'bool f4 f6_e2m3 f6_e3m2 u8 i8 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz i16 u16 f16 bf16 i32 u32 f32 c64 f64 i64 u64' -d 'Only these dtypes: bf16, \'f8*\''
complete -c tenmap -n '__tenmap_using ls' -s x -l except -x -d 'Not these names'
complete -c tenmap -n '__tenmap_using ls' -l min-size -x -d 'Only tensors of at least this size'
complete -c tenmap -n '__tenmap_using ls' -l max-size -x -d 'Only tensors of at most this size'
complete -c tenmap -n '__tenmap_using ls' -l json -d 'As JSON'
complete -c tenmap -n '__tenmap_using ls' -l tsv -d 'As tab-separated values'
complete -c tenmap -n '__tenmap_using ls' -l lenient -d 'Also open files with trailing bytes, holes or unknown dtypes'
complete -c tenmap -n '__tenmap_using ls' -l partial -d 'Go without shards that are missing'
complete -c tenmap -n '__tenmap_using ls' -l max-header -x -d 'Accept headers up to this size (100MB)'
complete -c tenmap -n '__tenmap_using ls' -l color -x -a 'auto always never' -d 'When to use colours; NO_COLOR is respected'
complete -c tenmap -n '__tenmap_using ls' -s q -l quiet -d 'No progress bar'
complete -c tenmap -f -n '__tenmap_using ls; and not __tenmap_operands 0' -a '(__tenmap_names)'
complete -c tenmap -f -n __tenmap_first -a info -d 'Say what a model is: size, parameters, dtypes, metadata, oddities'
complete -c tenmap -n '__tenmap_using info' -s n -l top -x -d 'How many of the largest tensors to show (5)'
complete -c tenmap -n '__tenmap_using info' -l json -d 'As JSON'
complete -c tenmap -n '__tenmap_using info' -l lenient -d 'Also open files with trailing bytes, holes or unknown dtypes'
complete -c tenmap -n '__tenmap_using info' -l partial -d 'Go without shards that are missing'
complete -c tenmap -n '__tenmap_using info' -l max-header -x -d 'Accept headers up to this size (100MB)'
complete -c tenmap -n '__tenmap_using info' -l color -x -a 'auto always never' -d 'When to use colours; NO_COLOR is respected'
complete -c tenmap -n '__tenmap_using info' -s q -l quiet -d 'No progress bar'
complete -c tenmap -f -n __tenmap_first -a get -d 'Show the values of a tensor or slice, or export them'
complete -c tenmap -n '__tenmap_using get' -s o -l output -r -F -d 'Export to FILE: .npy, or with --bytes anything; - is stdout'
complete -c tenmap -n '__tenmap_using get' -l as -x -a 'bool f4 f6_e2m3 f6_e3m2 u8 i8 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz i16 u16 f16 bf16 i32 u32 f32 c64 f64 i64 u64' -d 'Convert the values to this dtype first'
complete -c tenmap -n '__tenmap_using get' -s a -l all -d 'Leave nothing out, however long it is'
complete -c tenmap -n '__tenmap_using get' -s p -l precision -x -d 'Significant digits of the layout (6); 0 for as many as it takes'
complete -c tenmap -n '__tenmap_using get' -l raw-values -d 'One value per line, exact'
complete -c tenmap -n '__tenmap_using get' -l tsv -d 'One line per row of the last dimension, tabs between the values, exact'
complete -c tenmap -n '__tenmap_using get' -l json -d 'As JSON: the shape, and the values in one list'
complete -c tenmap -n '__tenmap_using get' -l raw -d 'Into .npy as bits: BF16 as uint16, F8 as uint8, instead of float32'
complete -c tenmap -n '__tenmap_using get' -s b -l bytes -d 'Export the bytes alone, little-endian'
complete -c tenmap -n '__tenmap_using get' -l lenient -d 'Also open files with trailing bytes, holes or unknown dtypes'
complete -c tenmap -n '__tenmap_using get' -l partial -d 'Go without shards that are missing'
complete -c tenmap -n '__tenmap_using get' -l max-header -x -d 'Accept headers up to this size (100MB)'
complete -c tenmap -n '__tenmap_using get' -l color -x -a 'auto always never' -d 'When to use colours; NO_COLOR is respected'
complete -c tenmap -n '__tenmap_using get' -s q -l quiet -d 'No progress bar'
complete -c tenmap -f -n '__tenmap_using get; and not __tenmap_operands 0' -a '(__tenmap_names)'
complete -c tenmap -f -n __tenmap_first -a meta -d 'Show and change metadata, without rewriting the data where it can'
complete -c tenmap -n '__tenmap_using meta' -s s -l shard -x -d 'Only this shard: its number from 1, or its file name'
complete -c tenmap -n '__tenmap_using meta' -s n -l dry-run -d 'Say what would change, and change nothing'
complete -c tenmap -n '__tenmap_using meta' -l follow -d 'Where MODEL is a symbolic link, change the file that it leads to'
complete -c tenmap -n '__tenmap_using meta' -l no-copy -d 'Fail rather than copy the model\'s data'
complete -c tenmap -n '__tenmap_using meta' -l undo -d 'With repair: back to what it was before'
complete -c tenmap -n '__tenmap_using meta' -l json -d 'List as JSON'
complete -c tenmap -n '__tenmap_using meta' -l tsv -d 'List as tab-separated values'
complete -c tenmap -n '__tenmap_using meta' -l lenient -d 'Also open files with trailing bytes, holes or unknown dtypes'
complete -c tenmap -n '__tenmap_using meta' -l partial -d 'Go without shards that are missing'
complete -c tenmap -n '__tenmap_using meta' -l max-header -x -d 'Accept headers up to this size (100MB)'
complete -c tenmap -n '__tenmap_using meta' -l color -x -a 'auto always never' -d 'When to use colours; NO_COLOR is respected'
complete -c tenmap -n '__tenmap_using meta' -s q -l quiet -d 'No progress bar'
complete -c tenmap -f -n '__tenmap_using meta; and __tenmap_operands 1' -a 'get set rm edit repair'
complete -c tenmap -f -n __tenmap_first -a completion -d 'Print the completion script of a shell'
complete -c tenmap -n '__tenmap_using completion' -l lenient -d 'Also open files with trailing bytes, holes or unknown dtypes'
complete -c tenmap -n '__tenmap_using completion' -l partial -d 'Go without shards that are missing'
complete -c tenmap -n '__tenmap_using completion' -l max-header -x -d 'Accept headers up to this size (100MB)'
complete -c tenmap -n '__tenmap_using completion' -l color -x -a 'auto always never' -d 'When to use colours; NO_COLOR is respected'
complete -c tenmap -n '__tenmap_using completion' -s q -l quiet -d 'No progress bar'
complete -c tenmap -f -n '__tenmap_using completion; and __tenmap_operands 0' -a 'bash zsh fish'
