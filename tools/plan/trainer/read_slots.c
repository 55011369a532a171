/*
 * read_slots.c - see read_slots.h.
 */
#include "tools/plan/trainer/read_slots.h"

#include "base/clock.h"
#include "tools/plan/trainer/player.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>

static struct play_exchange *shared;
static uint32_t world;

void
slots_open(const char *path, uint32_t ranks)
{
    world = ranks;
    shared = play_exchange_map(path, false);
    if (shared == NULL)
        scout_stop("cannot open %s.reads: %s", path, strerror(errno));
}

char *
slots_bytes(uint64_t exchange)
{
    return shared->bytes[exchange % PLAY_SLOTS];
}

void
slots_lock(void)
{
    static atomic_bool is_locked;
    if (!atomic_exchange(&is_locked, true) && scout_state.driver.cuMemHostRegister_p != NULL)
        (void)scout_state.driver.cuMemHostRegister_p(shared->bytes, sizeof(shared->bytes), CU_MEMHOSTREGISTER_PORTABLE);
}

static void
note_change(void)
{
    atomic_fetch_add(&shared->changes, 1);
    (void)syscall(SYS_futex, &shared->changes, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Until something changes after `seen`, or for a while. */
static void
wait_for_change(uint32_t seen)
{
    static const struct timespec a_while = {.tv_nsec = 100000000};
    (void)syscall(SYS_futex, &shared->changes, FUTEX_WAIT, seen, &a_while, NULL, 0);
}

bool
slots_is_filled(uint64_t exchange)
{
    return atomic_load(&shared->slots[exchange % PLAY_SLOTS].holds) == exchange + 1;
}

bool
slots_is_free(uint64_t exchange)
{
    uint64_t before = exchange / PLAY_SLOTS;
    if (before == 0)
        return true;
    return slots_is_filled(exchange - PLAY_SLOTS) &&
           atomic_load(&shared->slots[exchange % PLAY_SLOTS].taken) >= before * (world - 1);
}

void
slots_fill(uint64_t exchange)
{
    atomic_store(&shared->slots[exchange % PLAY_SLOTS].holds, exchange + 1);
    note_change();
}

void
slots_take(uint64_t exchange)
{
    atomic_fetch_add(&shared->slots[exchange % PLAY_SLOTS].taken, 1);
    note_change();
}

/* The launcher and the other ranks see where this one waits. */
static void
say_waiting(uint64_t period)
{
    struct rank_status *status = scout_state.status;
    snprintf(status->place, sizeof(status->place), "what the host reads of batch %llu", (unsigned long long)period + 1);
    atomic_store(&status->waits_ns, (uint64_t)clock_now_us() * 1000);
    atomic_fetch_add(&status->wait_count, 1);
    atomic_store(&status->waits, 1);
}

void
slots_wait_until(bool (*is_so)(uint64_t exchange), uint64_t exchange, const struct slots_wait *wait)
{
    bool is_said = false;
    for (;;) {
        uint32_t seen = atomic_load(&shared->changes);
        bool has_ended = wait->name != NULL && atomic_load(&shared->ended[wait->owner]) != 0;
        if (is_so(exchange))
            break;
        if (has_ended)
            scout_stop("rank %u has ended, and in batch %llu of the program %s reads what that rank has computed",
                       wait->owner, (unsigned long long)wait->period + 1, wait->name);
        if (!is_said)
            say_waiting(wait->period);
        is_said = true;
        wait_for_change(seen);
    }
    if (is_said)
        atomic_store(&scout_state.status->waits, 0);
}

void
slots_end(uint32_t rank)
{
    atomic_store(&shared->ended[rank], 1);
    note_change();
}

bool
slots_is_first_unsure(void)
{
    return atomic_fetch_add(&shared->unsure, 1) == 0;
}
