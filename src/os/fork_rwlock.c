/* A reader-writer lock that survives fork. */
#include "os.h"

static const uint64_t writer_bit = UINT64_C(1) << 31, holders_mask = UINT64_C(0xffffffff);

/*
 * This process's ID as the upper half of the state. Counts that another process left there are
 * ignored.
 */
static uint64_t process_bits(void) {
    return (uint64_t)(uint32_t)tmi_process() << 32;
}

static uint64_t holders_of(uint64_t state, uint64_t process) {
    return (state & ~holders_mask) == process ? state & holders_mask : 0;
}

void tmi_rwlock_read(tmi_rwlock *lock) {
    uint64_t process = process_bits(), seen = atomic_load(&lock->state);
    for (;;) {
        uint64_t holders = holders_of(seen, process);
        if (holders & writer_bit) {
            tmi_sleep_ms(1);
            seen = atomic_load(&lock->state);
        } else if (atomic_compare_exchange_weak(&lock->state, &seen, process | (holders + 1))) {
            return;
        }
    }
}

void tmi_rwlock_read_end(tmi_rwlock *lock) {
    atomic_fetch_sub(&lock->state, 1);
}

void tmi_rwlock_write(tmi_rwlock *lock) {
    uint64_t process = process_bits(), seen = atomic_load(&lock->state);
    for (;;) {
        if (holders_of(seen, process)) {
            tmi_sleep_ms(1);
            seen = atomic_load(&lock->state);
        } else if (atomic_compare_exchange_weak(&lock->state, &seen, process | writer_bit)) {
            return;
        }
    }
}

void tmi_rwlock_write_end(tmi_rwlock *lock) {
    atomic_store(&lock->state, process_bits());
}
