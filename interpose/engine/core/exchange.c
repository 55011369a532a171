/*
 * exchange.c - messages from each rank to all, at places that every rank passes the same number of times. The host
 * waits for all ranks.
 */
#include "interpose/engine/core/core.h"

void
exchange(const char *about, const void *mine, size_t bytes, struct control_messages *all)
{
    exchange_at(about, about, mine, bytes, all);
}

static atomic_flag exchanging = ATOMIC_FLAG_INIT;

void
exchange_at(const char *place, const char *about, const void *mine, size_t bytes, struct control_messages *all)
{
    struct comm_error error;
    if (atomic_flag_test_and_set(&exchanging))
        stop_job("two threads make ddprun calls at the same time that involve the other ranks (%s is one of them): "
                 "DDP_PARAMETER, DDP_STATE, DDP_STEP, DDP_REDUCE and DDP_MEAN must come from one thread at a time",
                 about);
    flight_note(FLIGHT_EXCHANGE_BEGIN, 0, bytes, about);
    status_waits_at(place);
    if (!control_exchange(&engine_state.control, about, mine, bytes, all, &error))
        stop_job_by(error.cause, "%s", error.text);
    status_waits_no_more();
    flight_note(FLIGHT_EXCHANGE_END, 0, 0, about);
    atomic_flag_clear(&exchanging);
}

bool
exchange_last(const void *mine, size_t bytes, struct control_messages *all)
{
    struct comm_error error;
    if (atomic_flag_test_and_set(&exchanging))
        stop_job("the program ends while another thread makes a ddprun call that involves the other ranks");
    flight_note(FLIGHT_EXCHANGE_BEGIN, 0, bytes, RANK_PLACE_END);
    status_waits_at(RANK_PLACE_END);
    bool all_came = control_exchange_last(&engine_state.control, RANK_PLACE_END, mine, bytes, all, &error);
    if (!all_came && error.cause != COMM_LEFT)
        stop_job_by(error.cause, "%s", error.text);
    status_waits_no_more();
    flight_note(FLIGHT_EXCHANGE_END, 0, 0, RANK_PLACE_END);
    atomic_flag_clear(&exchanging);
    return all_came;
}
