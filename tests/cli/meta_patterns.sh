# meta rm takes patterns, and clear removes everything except what --keep names.
t meta small.safetensors set ss_epoch 1 ss_steps 20 sshs_hash abc 'odd*key' yes -q >/dev/null
t meta small.safetensors rm 'ss_*' --dry-run
t meta small.safetensors rm 'ss_*'
t meta small.safetensors
# A key that holds the character of a pattern is that key.
t meta small.safetensors set oddly no
t meta small.safetensors rm 'odd*key'
t meta small.safetensors rm 'nothing*'
t meta small.safetensors rm 'oddly' 'nosuch*'
t meta small.safetensors rm 'odd?y' '*ly'
t meta small.safetensors
t meta small.safetensors clear --keep formt
t meta small.safetensors clear --keep 'x*'
t meta small.safetensors rm format --keep version
t meta small.safetensors clear all
t meta small.safetensors clear --keep format --dry-run
t meta small.safetensors clear --keep format
t meta small.safetensors
t meta small.safetensors clear --keep format
t meta small.safetensors clear
t meta small.safetensors
t check small.safetensors | tail -1
# In a sharded model, all shards, whichever have the key.
t meta sharded set ss_one 1 --shard 1 >/dev/null
t meta sharded set ss_one 2 ss_two 2 --shard 2 >/dev/null
t meta sharded --tsv
t meta sharded rm 'ss_*' | sed 's/: changed.*/: changed/'
t meta sharded --tsv
