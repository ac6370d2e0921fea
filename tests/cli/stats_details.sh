# stats --details says where the extreme values and the first NaN are, and which rows and columns are
# dead; check --values reports dead rows and columns. tests/peers/details_numpy.py compares with numpy.
{
    header_of m F8_E4M3 [4,4] 16 constant F8_E4M3 [3,2] 6 mask U8 [2,2] 4 vector F8_E4M3 [3] 3 \
        conv F8_E4M3 [2,1,1,2] 4 outlier BF16 [10,10] 200
    printf '\070\000\100\070\000\000\000\000\070\000\070\177\100\000\100\070' # row 1 and column 1 are 0
    printf '\070\070\100\070\060\100\001\001\001\001\070\070\070\100\100\100\070'
    head -c 98 /dev/zero && printf '\200\077' && head -c 100 /dev/zero # one 1 among zeros
} >dead.safetensors
t stats --details dead.safetensors
t stats --details --json dead.safetensors m outlier
t stats --details -s max dead.safetensors m conv
t check --values --level note dead.safetensors
t check --values --json dead.safetensors | grep dead-
# Nothing is dead in an ordinary model, and a tensor of zeros is one finding, not a hundred rows.
t check --values small.safetensors
{ header_of z F32 [10,10] 400 && head -c 400 /dev/zero; } >zeros.safetensors
t check --values --level note zeros.safetensors
t stats --details dead.safetensors --tsv
t stats --details --hist dead.safetensors
