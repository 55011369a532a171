/*
 * exchange.c - messages from each rank to all, at places that every rank passes the same number of times. The host
 * waits for all ranks.
 */
#include "interpose/engine/core/core.h"

#include "base/clock.h"

/* ---- their times ---- */

static pthread_mutex_t times_lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static bool times_kept;
static struct exchange_time *times; /* [times_count], malloc'ed */
static size_t times_count, times_capacity;
static uint64_t exchange_count;

void
exchange_times_keep(void)
{
    pthread_mutex_lock(&times_lock);
    times_kept = true;
    pthread_mutex_unlock(&times_lock);
}

size_t
exchange_times_take(struct exchange_time **times_p)
{
    pthread_mutex_lock(&times_lock);
    size_t count = times_count;
    *times_p = times;
    times = NULL;
    times_count = times_capacity = 0;
    pthread_mutex_unlock(&times_lock);
    return count;
}

static void
keep_time(const char *about, int64_t begin_ns)
{
    pthread_mutex_lock(&times_lock);
    struct exchange_time time = {.number = ++exchange_count, .begin_ns = begin_ns, .end_ns = clock_now_ns()};
    snprintf(time.about, sizeof(time.about), "%s", about);
    if (times_kept) {
        times = engine_grow(times, times_count, &times_capacity, sizeof(*times));
        times[times_count++] = time;
    }
    pthread_mutex_unlock(&times_lock);
}

/* ---- exchanges ---- */

void
exchange(const char *about, const void *mine, size_t bytes, struct control_messages *all)
{
    exchange_at(about, about, mine, bytes, all);
}

void
exchange_in_step(const char *about, const void *mine, size_t bytes, struct control_messages *all)
{
    engine_state.control.idle = engine_state.serves;
    exchange_at(about, about, mine, bytes, all);
    engine_state.control.idle = NULL;
}

void
least_of_ranks(const char *about, uint64_t *words, size_t count)
{
    struct control_messages all;
    exchange(about, words, count * sizeof(*words), &all);
    for (int r = 0; r < all.count; ++r) {
        for (size_t i = 0; i < count; ++i) {
            uint64_t theirs;
            memcpy(&theirs, (const char *)all.messages[r] + i * sizeof(theirs), sizeof(theirs));
            words[i] = theirs < words[i] ? theirs : words[i];
        }
    }
    control_free_messages(&all);
}

uint64_t
greatest_of_ranks(const char *about, uint64_t word)
{
    word = ~word;
    least_of_ranks(about, &word, 1);
    return ~word;
}

static atomic_flag exchanging = ATOMIC_FLAG_INIT;

void
exchange_at(const char *place, const char *about, const void *mine, size_t bytes, struct control_messages *all)
{
    struct comm_error error;
    if (atomic_flag_test_and_set(&exchanging))
        stop_job(
            "two threads make ddprun calls at the same time that involve the other ranks (%s is one of them): "
            "DDP_PARAMETER, DDP_STATE, DDP_STEP, DDP_REDUCE, DDP_MEAN and DDP_ANY must come from one thread at a time",
            about);
    flight_note(FLIGHT_EXCHANGE_BEGIN, 0, bytes, about);
    status_waits_at(place);
    int64_t begin_ns = clock_now_ns();
    range_begin("waits for ranks: %s", about);
    require_comm(control_exchange(&engine_state.control, about, mine, bytes, all, &error), &error);
    range_end();
    keep_time(about, begin_ns);
    status_waits_no_more();
    flight_note(FLIGHT_EXCHANGE_END, 0, 0, about);
    atomic_flag_clear(&exchanging);
}

void
exchange_programs_end(void)
{
    struct control_messages all;
    engine_state.control.idle = engine_state.serves;
    exchange_at(RANK_PLACE_END, "the end of the program, before its last averages", NULL, 0, &all);
    engine_state.control.idle = NULL;
    control_free_messages(&all);
}

bool
exchange_last(const void *mine, size_t bytes, struct control_messages *all)
{
    struct comm_error error;
    if (atomic_flag_test_and_set(&exchanging))
        stop_job("the program ends while another thread makes a ddprun call that involves the other ranks");
    flight_note(FLIGHT_EXCHANGE_BEGIN, 0, bytes, RANK_PLACE_END);
    status_waits_at(RANK_PLACE_END);
    engine_state.control.idle = engine_state.serves;
    bool all_came = control_exchange_last(&engine_state.control, RANK_PLACE_END, mine, bytes, all, &error);
    if (!all_came && error.cause != COMM_LEFT)
        stop_job_by(error.cause, "%s", error.text);
    status_waits_no_more();
    flight_note(FLIGHT_EXCHANGE_END, 0, 0, RANK_PLACE_END);
    atomic_flag_clear(&exchanging);
    return all_came;
}
