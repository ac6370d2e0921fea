# A misspelled module suggests a tensor of it.
{ header_of lm_head.weight F32 [1] 4 model.layers.0.mlp.up_proj.weight F32 [1] 4 && printf '\0\0\0\0\0\0\0\0'; } >m.safetensors
t stats m.safetensors lm_heda
t ls m.safetensors up_porj
t ls m.safetensors mlp.up_prj
t ls m.safetensors lm_head.wieght
t ls m.safetensors something_else
