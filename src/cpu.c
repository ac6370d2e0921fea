/* Which instruction set conversions use on this machine. */
#include "kernels/kernels.h"

const char *tenmap_cpu_path(void) {
    return "scalar";
}
