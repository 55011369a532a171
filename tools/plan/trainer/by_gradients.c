/* by_gradients.c - see player.h: ranks by turns, whose gradients are averaged in front of one update in each round. */
#include "base/message.h"
#include "base/printable.h"
#include "tools/near/element.h"
#include "tools/plan/trainer/player.h"

static bool reads_gradients; /* an operation outside of the plan, while they wait */
static bool is_pending;      /* gradients of this rank's turn wait for the round's end */

/* Whether a batch has begun whose update has not come. */
static bool
lacks_update(void)
{
    return player.next > 0 && player.next <= player.play.plan.average_before;
}

/* A batch that ends without its update, anew recorded, would give the same plan. */
static const char *
judge_order(uint32_t at)
{
    if (at < player.next && lacks_update())
        return "comes again before the update of the plan: an evaluation calls the lines "
               "of training, or the program accumulates more batches";
    if (player.next <= player.play.plan.average_before && at > player.play.plan.average_before)
        return "comes before the operation at which the plan averages gradients";
    return NULL;
}

/* As a period (a batch) begins: the first one of a round shows its figures to the launcher. Where ranks wait for
 * each other's results no gradient is sent before the last turn. */
static void
begin_period(void)
{
    if (player.period > 0 && player_turn() == 0)
        turns_report((uint32_t)(player.period / player_world()));
    /* while ranks wait for what others have computed, no gradient is sent */
    inner_engine_hold(reads_are_true() && !player_is_last_turn());
}

/* Whether this rank makes operations of this part (enum play_part) in the present period. */
static bool
makes(uint32_t part)
{
    bool is_own = player_has_turn();
    bool updates = player_is_last_turn();
    return part == PLAY_BY_ALL || (part == PLAY_BY_TURN && is_own) || (part == PLAY_BY_LAST && updates);
}

/* Before a planned operation that this rank makes: adds it to the hash by which ranks compare what they do; an update
 * counts in the last turn only. */
static void
meet(const struct operation *operation, uint32_t at)
{
    bool is_update = player.play.operations[at].part == PLAY_BY_LAST;
    if (!is_update || player_is_last_turn())
        agreement_note(operation, at, is_update);
}

/* After it is decided who makes the planned operation `at`: whether gradients may be sent, and whether the batch is
 * open. */
static void
settle(const struct operation *operation, uint32_t at)
{
    bool is_ahead = at < player.play.plan.average_before;
    bool is_of_turn = player.play.operations[at].part == PLAY_BY_TURN;
    if (is_ahead && player_warms_up())
        pending_reached(operation, at);
    if (!operation->skip)
        pending_used(operation);
    is_pending = is_pending || (is_of_turn && !operation->skip && player.engine->world_size > 1);
    if (is_ahead && is_of_turn && !loaders_is_transfer(operation))
        player.is_open = true; /* a batch that is only copied, ahead of the next one, sends no gradient */
}

/* ---- statistics of batches ---- */

static CUdeviceptr *kept; /* [tensor_count]: as the last round has left them; 0: not there */
static char **own;        /* [tensor_count]: of this rank, while all have what is kept; NULL: not so */

static bool
is_statistic(uint32_t tensor)
{
    return player.play.tensors[tensor].role == PLAY_CHANGES;
}

static bool
is_of_statistics(uint64_t address, uint64_t bytes)
{
    return ANY_NUMBER(i, 0, player.play.plan.tensor_count,
                      is_statistic(i) && kept[i] != 0 && player_touches(&player.play.tensors[i], address, bytes));
}

/* Statistics become the mean of what the ranks' batches have made of them, or what the last round has left. */
static void
settle_statistics(bool averages, bool puts_back, CUstream stream)
{
    static const struct ddp_site site = {"statistics of batches", "ddprun --plan", 0};
    FOR_EACH_THERE(it, allocation, player.engine->world_size > 1 && is_statistic(NUMBER_OF(it))) {
        uint32_t i = NUMBER_OF(it);
        uint64_t bytes = it->hi - it->lo;
        if (puts_back && kept[i] == 0)
            continue;
        CUdeviceptr now = allocation->address + it->lo;
        if (kept[i] == 0)
            DRIVER(cuMemAlloc, &kept[i], bytes);
        if (averages)
            player.engine->reduce((void *)(uintptr_t)now, bytes / element_size((int)it->type), (int)it->type,
                                  DDP_OP_MEAN, stream, &site);
        DRIVER(cuMemcpyDtoDAsync, puts_back ? now : kept[i], puts_back ? kept[i] : now, bytes, stream);
    }
}

/* Once, as the first period begins. */
static void
begin(void)
{
    kept = scout_zeroed(player.play.plan.tensor_count + 1, sizeof(*kept));
    settle_statistics(false, false, CU_STREAM_LEGACY);
    agreement_begin();
}

/* Whether the operation shows statistics between updates: then it gets the ranks' averages, until put_back(). */
static bool
shows_statistics(const struct operation *operation)
{
    bool shows = player.begun && player.is_open && player.engine->world_size > 1 &&
                 player_any(operation, true, is_of_statistics);
    if (shows) {
        player_synchronize();
        own = player_hold(is_statistic);
        settle_statistics(false, true, CU_STREAM_LEGACY);
        player_synchronize();
    }
    return shows;
}

/* Averages the gradients of the round over the ranks, once all turns are computed. */
static void
average_gradients(CUstream stream, const struct ddp_site *site)
{
    agreement_show(stream);
    inner_engine_hold(false);
    player_wait_begin();
    player.engine->step(0, stream, site);
    player_wait_end();
    settle_statistics(!player.is_given_up, player.is_given_up, stream);
    is_pending = false;
}

/* ---- operations that are not in the plan ---- */

/* An operation between planned ones. Returns whether it reads gradients of one rank, or shows statistics: then it is
 * refused or warned of. */
static bool
meet_unplanned(const struct operation *operation, const char *name)
{
    bool touches = is_pending && pending_touched(operation);
    /* its own gradients, by its own operation, before they are complete: after that it clips what should be a mean */
    bool computes = touches && player_has_turn() && lacks_update() && !pending_is_complete(player.next);
    bool shows = shows_statistics(operation);
    reads_gradients = touches;
    player.seen += touches;
    if (player.begun && player_world() > 1 && player.engine->world_size > 1)
        unplanned_meet(player_hash_of(operation), name, player.period);
    return (touches && !computes) || shows;
}

/* After an operation that is not in the plan and for which meet_unplanned() returned true, made or refused: this rank
 * has its own statistics again. */
static void
put_back(void)
{
    player_put_back(own);
    player_release(&own);
}

/* After put_back(), if the operation was made: proof (d), and a run by turns, end where it has read gradients of one
 * rank. */
static void
judge_read(const char *name)
{
    char plain[PLAY_NAME_BYTES];
    if (player.play.plan.data == PLAY_TURNS && !rounds_are_timed() && reads_gradients)
        player_refuse("in batch %llu of the program, %s has read gradients before they were averaged",
                      (unsigned long long)player.period + 1, plain_name(name, plain, sizeof(plain)));
}

/* After each operation: ends the job if an operation that is not in the plan changes what is trained in every batch. */
static void
judge_end(const struct operation *operation, bool enqueued)
{
    if (unplanned_changed(enqueued))
        player_no_fit(player_name_of(operation),
                      "changes what is trained in each batch of a round, and is not in the plan");
}

/* ---- the end ---- */

/* Ranks may have sent gradients of the round already: all average what they have, of which no update is made. */
static bool
give_up_round(bool ends)
{
    (void)ends;
    player.is_given_up = true;
    return true;
}

/* At the end, on rank 0: batches that filled no round. */
static void
say(void)
{
    uint64_t batches = atomic_load(&scout_state.status->batch_count), left = batches % player_world();
    unplanned_say();
    if (left != 0)
        message_warning("batches_left",
                        "plan: the last %llu of %llu batches do not fill a round of %u ranks, and changed nothing",
                        (unsigned long long)left, (unsigned long long)batches, player_world());
}

const struct way by_gradients = {
    .changes = "changes a gradient that waits for the other ranks, and is not in the plan",
    .reads = "gradients before they were averaged",
    .differ_from = PLAY_LAST + 1,
    .begin = begin,
    .judge_order = judge_order,
    .begin_period = begin_period,
    .makes = makes,
    .meet = meet,
    .settle = settle,
    .average = average_gradients,
    .meet_unplanned = meet_unplanned,
    .updates = agreement_update,
    .put_back = put_back,
    .judge_read = judge_read,
    .judge_end = judge_end,
    .close = give_up_round,
    .say = say,
};

/* ---- one process that plays the turns of all ranks ---- */

/* As a period begins where one process plays all turns: puts what each rank has for itself into its place. */
static void
begin_own_period(void)
{
    if (player.period > 0)
        turns_end((uint32_t)(player.period - 1));
    begin_period();
    turns_begin((uint32_t)player.period);
}

/* The round ends in the middle of a period: the rest of its turns have what their ranks have by then. */
static bool
give_up_own_round(bool ends)
{
    bool is_added = player.next == 0 || player.next > player.play.plan.average_before;
    for (uint64_t at = player.period + is_added; at < player.period - player_turn() + player_world(); ++at)
        turns_add_up(at); /* of later turns: as the round began */
    return give_up_round(ends);
}

void
by_gradients_change(struct way *way)
{
    if (!player_plays_all() || player_is_by_state())
        return;
    way->begin_period = begin_own_period;
    way->add_up = turns_add_up;
    way->close = give_up_own_round;
}
