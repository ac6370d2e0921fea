/* A reader-writer lock that survives fork. */
#include "os.h"

static const uint64_t gate_alone = UINT64_C(1) << 31, gate_count = UINT64_C(0xffffffff);

/*
 * This process's ID as the upper half of the state. Counts that another process left there are
 * ignored.
 */
static uint64_t gate_process(void) {
    return (uint64_t)(uint32_t)tmi_process() << 32;
}

static uint64_t inside_of(uint64_t state, uint64_t process) {
    return (state & ~gate_count) == process ? state & gate_count : 0;
}

void tmi_rwlock_read(tmi_rwlock *gate) {
    uint64_t process = gate_process(), seen = atomic_load(&gate->state);
    for (;;) {
        uint64_t inside = inside_of(seen, process);
        if (inside & gate_alone) {
            tmi_sleep_ms(1);
            seen = atomic_load(&gate->state);
        } else if (atomic_compare_exchange_weak(&gate->state, &seen, process | (inside + 1))) {
            return;
        }
    }
}

void tmi_rwlock_read_end(tmi_rwlock *gate) {
    atomic_fetch_sub(&gate->state, 1);
}

void tmi_rwlock_write(tmi_rwlock *gate) {
    uint64_t process = gate_process(), seen = atomic_load(&gate->state);
    for (;;) {
        if (inside_of(seen, process)) {
            tmi_sleep_ms(1);
            seen = atomic_load(&gate->state);
        } else if (atomic_compare_exchange_weak(&gate->state, &seen, process | gate_alone)) {
            return;
        }
    }
}

void tmi_rwlock_write_end(tmi_rwlock *gate) {
    atomic_store(&gate->state, gate_process());
}
