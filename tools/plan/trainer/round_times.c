/*
 * round_times.c - see player.h: what a round by turns takes, by events on the device in front of its averages: a host
 * may be a thousand launches ahead of it. What counts are the newer half of the rounds, in up to nine stretches, and of
 * each its median, which a validation pass or a checkpoint now and then does not change.
 *
 * Proof (d) measures so, once all has been seen: its ranks go on by turns, and its one process as the program is, each
 * for a second at least. When a training ends, it is held against that.
 */
#include "base/clock.h"
#include "base/message.h"
#include "tools/plan/trainer/player.h"

enum {
    EVENTS = 64,
    KEPT = 512,   /* rounds */
    AHEAD = 4,    /* of these a host may be ahead where a proof is timed */
    LEAST = 8,    /* fewer give no time */
    LIMIT_S = 40, /* after which a proof has to do with the rounds that it has timed */
    SECONDS_EACH = 1
};

static CUevent events[EVENTS];
static uint64_t round_of[EVENTS]; /* how many had begun */
static uint64_t rounds, recorded, taken;
static uint64_t spans[KEPT], span_count; /* what a round took, in nanoseconds, and of how many rounds that is known */
static uint64_t spans_ns;

static uint32_t world; /* of the rounds; later rank 0 may be alone */
static bool is_timed;
static struct play_page *page; /* of the rank that says it */
static int64_t begin_ns;

/* What the device has come to. */
static void
take_spans(void)
{
    const struct driver *driver = &scout_state.driver;
    for (; taken + 1 < recorded; ++taken) {
        uint64_t from = taken % EVENTS, to = (taken + 1) % EVENTS;
        float ms;
        if (driver->cuEventQuery_p(events[to]) != CUDA_SUCCESS)
            return;
        if (driver->cuEventElapsedTime_p(&ms, events[from], events[to]) != CUDA_SUCCESS)
            continue;
        spans[span_count++ % KEPT] = (uint64_t)(1e6 * (double)ms) / (round_of[to] - round_of[from]);
        spans_ns += (uint64_t)(1e6 * (double)ms);
    }
}

/* A round is left out where the host is too far ahead. */
static void
mark(CUstream stream)
{
    const struct driver *driver = &scout_state.driver;
    CUevent *event = &events[recorded % EVENTS];
    bool is_free = recorded - taken < EVENTS;
    if (is_free && (*event != NULL || driver->cuEventCreate_p(event, CU_EVENT_DEFAULT) == CUDA_SUCCESS) &&
        driver->cuEventRecord_p(*event, stream) == CUDA_SUCCESS)
        round_of[recorded++ % EVENTS] = rounds;
}

COMPARES(by_size, uint64_t, (*a > *b) - (*a < *b))

/* Medians of stretches of the newer half; 0: there are too few rounds. */
static uint32_t
find_stretches(uint64_t ns[PLAY_STRETCHES])
{
    uint64_t used = (span_count + 1) / 2 < KEPT ? (span_count + 1) / 2 : KEPT, first = span_count - used;
    const uint64_t count = used < PLAY_STRETCHES ? used : PLAY_STRETCHES;
    if (span_count < LEAST)
        return 0;
    for (uint64_t k = 0; k < count; ++k) {
        uint64_t stretch[KEPT], size = 0;
        for (uint64_t i = first + k * used / count; i < first + (k + 1) * used / count; ++i)
            stretch[size++] = spans[i % KEPT];
        qsort(stretch, size, sizeof(stretch[0]), by_size);
        ns[k] = stretch[size / 2];
    }
    return (uint32_t)count;
}

static void
write_times(void)
{
    atomic_store(&page->stretches, find_stretches(page->stretch_ns));
    atomic_store(&page->stage, PLAY_OVER);
}

void
rounds_begin(void)
{
    page = player.rank == 0 ? player.pages[0] : NULL;
    for (uint32_t i = page != NULL; i < player.page_count; ++i)
        atomic_store(&player.pages[i]->stage, PLAY_OVER);
    player.page_count = 0; /* what does not fit ends the run, as in a training */
    is_timed = true;
    begin_ns = clock_now_ns();
}

bool
rounds_are_timed(void)
{
    return is_timed;
}

bool
rounds_are_plain(void)
{
    return is_timed && player.play.plan.data == PLAY_ALONE;
}

void
rounds_note(CUstream stream)
{
    static const int64_t second_ns = 1000000000;
    if (player.rank != 0 || (!is_timed && player.play.plan.forecast.round_ns == 0))
        return;
    world = player_world();
    ++rounds;
    if (is_timed && recorded - taken > AHEAD) {
        player_wait_begin();
        DRIVER(cuEventSynchronize, events[(taken + 1) % EVENTS]);
        player_wait_end();
    }
    take_spans();
    mark(stream);
    bool is_enough = spans_ns >= 2 * SECONDS_EACH * (uint64_t)second_ns && span_count >= 2 * LEAST;
    if (is_timed && (is_enough || clock_now_ns() - begin_ns > LIMIT_S * second_ns)) {
        write_times();
        player_wait_for_end(PLAY_OVER);
    }
}

void
rounds_end(void)
{
    const struct play_plan *plan = &player.play.plan;
    uint64_t ns[PLAY_STRETCHES];
    uint32_t count = find_stretches(ns), middle = count / 2;
    if (is_timed) {
        write_times();
    } else if (plan->data == PLAY_TRAINING && plan->forecast.round_ns > 0 && count > 0) {
        qsort(ns, count, sizeof(ns[0]), by_size);
        double ms = (double)ns[middle] / 1e6, said = (double)plan->forecast.round_ns / 1e6;
        double times = ms > 0 ? (double)plan->forecast.batch_ns / 1e6 * world / ms : 0;
        char proof[60] = "";
        if (plan->forecast.ranks == world) /* else the proof was made with those of one host */
            snprintf(proof, sizeof(proof), " (forecast: %.3g ms)", said);
        message_line("plan: %u ranks took %.3g ms for %u batches%s, %.2f times as fast as one process%s", world, ms,
                     world, proof, times, times > world ? "; this is impossible: a run was disturbed" : "");
        if (times < 1)
            message_warning("slow_plan", "plan: these ranks were slower than one process: %.2f times as fast", times);
    }
}
