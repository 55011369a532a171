/*
 * turns.c - DDP_TURN_BEGIN: N batches are a round, rank r computes batch r of a round, and DDP_STEP averages at the
 * round's last batch.
 *
 * The first batch is computed by all ranks, so that an update can make the optimizer's state. From then on a rank holds
 * its buckets back until the round's last turn: what its program waits for on the device would else wait for turns that
 * other ranks have not begun. At a DDP_STEP without effect nothing is sent: the rank whose turn it was keeps a copy of
 * its gradients (turn_keep.c), for the program may use their memory before the round is complete. At the complete
 * DDP_STEP the copies are put back and sent at once, while the last rank may still be in its backward pass.
 *
 * Of `ddprun check` one process plays the turns of all ranks: all batches are its own, and its observer keeps, puts
 * back and averages (interpose/engine/core/observer.h).
 *
 * All ranks pass the same regions. What is compared at each complete DDP_STEP is how many have begun in the round.
 * turn_work.c says which operations a region leaves out, turn_batches.c whether ranks load the same data. Called by
 * start.c and boundary.c, in the trainer's threads.
 */
#include "interpose/engine/step/turns.h"
#include "interpose/engine/core/observer.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"

#include "base/message.h"

#include <unistd.h>

enum { PLACES_AT_MOST = 64, NO_GROUP = -1, MEANS_IN_ROW = 4 };

/* A DDP_TURN_BEGIN or DDP_TURN_OPEN of the source. */
struct place {
    struct ddp_site site;
    int group;       /* which its regions step; NO_GROUP: none has, so far */
    uint64_t begins; /* its regions since the last complete round */
};

/* The rounds of a group. */
struct rounds {
    unsigned turn;         /* of the open round: so many batches have had theirs */
    struct ddp_site inner; /* the last DDP_STEP in a region; file NULL: there was none */
};

static struct place places[PLACES_AT_MOST];
static size_t place_count;
static struct rounds rounds[GROUPS_AT_MOST];
static struct ddp_site unstepped;     /* of the last region that ended without DDP_STEP; file NULL: none since a step */
static struct ddp_site share;         /* the first DDP_SHARD or DDP_WEIGHT; file NULL: none */
static struct ddp_site first;         /* the first region */
static struct observed_rounds played; /* in a world of one: the turns that its observer has it play */

/* The open region; its thread's. */
static struct {
    struct place *place;
    unsigned turn;        /* of the round */
    bool completes;       /* it is the round's last */
    struct ddp_site step; /* of its DDP_STEP; file NULL: it has not come */
} batch;

/* Turns of a round. */
static unsigned
world(void)
{
    return played.turns > 0 ? played.turns : (unsigned)engine_state.rendezvous.world_size;
}

/* Of the open region, or of the last one. */
static uint64_t
region_number(void)
{
    return atomic_load(&engine_state.turn_regions);
}

static bool
is_forked(void)
{
    return getpid() != engine_state.pid;
}

/* ---- before a region ---- */

static struct place *
place_of(const struct ddp_site *site)
{
    for (size_t i = 0; i < place_count; ++i) {
        if (places[i].site.line == site->line && strcmp(places[i].site.file, site->file) == 0)
            return &places[i];
    }
    if (place_count == PLACES_AT_MOST)
        stop_job("%s (%s:%d): a program has at most %d lines with DDP_TURN_BEGIN", TURN_SITE(*site), PLACES_AT_MOST);
    places[place_count] = (struct place){.site = *site, .group = NO_GROUP};
    return &places[place_count++];
}

/* A program has turns, or it divides batches. */
static void __attribute__((noreturn)) refuse_both(struct ddp_site called, struct ddp_site before)
{
    stop_job("%s (%s:%d) in a program with %s (%s:%d): in turns each rank computes whole batches; leave the one or the "
             "other out",
             TURN_SITE(called), TURN_SITE(before));
}

static void
refuse_begin(const struct ddp_site *site)
{
    if (turn_is_open())
        stop_job("%s (%s:%d) in the region of %s (%s:%d), which has not ended: a region ends with the block of "
                 "DDP_TURN_BEGIN, or at DDP_TURN_END, which stands also before each continue and break",
                 TURN_SITE(*site), TURN_SITE(turn_open_site()));
    if (share.file != NULL)
        refuse_both(*site, share);
}

/* Nothing is launched before DDP_STEP while it holds. */
static void
hold(bool holds)
{
    engine_lock();
    memory_state.turn_holds = holds;
    engine_unlock();
}

/* ---- for an observer ---- */

/* The open region's batch. */
static struct observed_turn
observed_turn(void)
{
    const struct turn_region *region = turn_region();
    return (struct observed_turn){.group = batch.place->group,
                                  .turn = batch.turn,
                                  .turns = world(),
                                  .is_everyones = region->is_everyones,
                                  .is_mine = region->is_mine,
                                  .is_played = played.plays_all};
}

/* Only the first region of a batch begins it: the others have passes of it. */
static void
observe_begin(void)
{
    const struct observed_turn turn = observed_turn();
    if (unstepped.file == NULL)
        OBSERVED(turn_begins, &turn);
}

static void
observe_step(void)
{
    const struct observed_turn turn = observed_turn();
    OBSERVED(turn_steps, &turn);
}

static void
observe_rest(int group)
{
    const struct observed_turn turn = {
        .group = group, .turn = rounds[group].turn, .turns = world(), .is_played = played.plays_all};
    if (turn.is_played)
        OBSERVED(turns_rest, &turn);
}

/* ---- regions ---- */

uint64_t
region_begin(const struct ddp_site *site)
{
    if (is_forked())
        return 0;
    if (engine_state.observer != NULL)
        played = engine_state.observer->turns(site);
    refuse_begin(site);
    struct place *place = place_of(site);
    const bool is_everyones = place->group == NO_GROUP;
    const unsigned turn = is_everyones ? 0 : rounds[place->group].turn;
    const bool is_mine = is_everyones || played.plays_all || turn == (unsigned)engine_state.rendezvous.rank;
    batch.place = place;
    batch.turn = turn;
    batch.completes = is_everyones || turn == world() - 1;
    batch.step = (struct ddp_site){0};
    first = first.file == NULL ? *site : first;
    ++place->begins;
    turn_batch_begins();
    turn_open(&(struct turn_region){region_number(), *site, is_mine, is_everyones});
    hold(!is_everyones && !(is_mine && batch.completes));
    turn_leave_out(!is_mine);
    observe_begin();
    return region_number();
}

/* The batch has had its turn. */
static void
count_batch(void)
{
    struct rounds *of = &rounds[batch.place->group];
    atomic_fetch_add(&engine_state.status->turn_batches, 1);
    of->turn = batch.completes ? 0 : batch.turn + 1;
    if (!batch.completes)
        return;
    batch.place->begins = 0;
    atomic_fetch_add(&engine_state.status->turn_rounds, 1);
}

static void
refuse_end(const struct ddp_site *site)
{
    if (!turn_is_open())
        stop_job("DDP_TURN_END (%s:%d) without a region: DDP_TURN_OPEN or DDP_TURN_BEGIN stands before it",
                 file_name_of(site->file), site->line);
    if (turn_region() == NULL)
        stop_job("DDP_TURN_END (%s:%d) in another thread than %s (%s:%d)", file_name_of(site->file), site->line,
                 TURN_SITE(turn_open_site()));
}

void
region_end(uint64_t number, const struct ddp_site *site)
{
    if (is_forked())
        return;
    const struct turn_region *region = turn_region();
    if (number != 0 && (region == NULL || region->number != number))
        return;
    refuse_end(site);
    if (batch.step.file != NULL) {
        count_batch();
        turn_update_ends(&batch.step);
    } else {
        unstepped = region->site;
    }
    turn_close();
    turn_batch_ends();
}

int
region_is_mine(void)
{
    return turn_region() == NULL || turn_region()->is_mine;
}

int
region_updates(void)
{
    return turn_region() == NULL || batch.completes;
}

/* ---- what may not stand there ---- */

void
turn_refuse_exchange(const char *macro, const struct ddp_site *site)
{
    if (turn_region() == NULL || batch.step.file != NULL || world() == 1)
        return;
    stop_job("%s (%s:%d) stands between %s (%s:%d) and DDP_STEP, where one rank alone has computed the batch: call it "
             "after the region",
             macro, file_name_of(site->file), site->line, TURN_SITE(turn_open_site()));
}

void
turn_refuse_share(const char *macro, const struct ddp_site *site)
{
    if (is_forked())
        return;
    const struct ddp_site called = {macro, site->file, site->line};
    if (first.file != NULL)
        refuse_both(called, first);
    if (share.file == NULL)
        share = called;
}

static void
refuse_step_outside(int group, const struct ddp_site *site)
{
    if (turn_is_open())
        stop_job("DDP_STEP (%s:%d) in another thread than %s (%s:%d), in whose region it is: a region belongs to one "
                 "thread",
                 file_name_of(site->file), site->line, TURN_SITE(turn_open_site()));
    if (unstepped.file != NULL)
        stop_job("DDP_STEP (%s:%d) stands after the region of %s (%s:%d), which has ended without DDP_STEP: put "
                 "DDP_STEP and the update into the region",
                 file_name_of(site->file), site->line, TURN_SITE(unstepped));
    if (rounds[group].inner.file != NULL)
        stop_job("DDP_STEP (%s:%d) stands outside of a region of turns, and DDP_STEP (%s:%d) of the same gradients in "
                 "one: put DDP_TURN_BEGIN before the batch of this one, too",
                 file_name_of(site->file), site->line, file_name_of(rounds[group].inner.file),
                 rounds[group].inner.line);
}

static bool
is_captured(CUstream stream)
{
    if (atomic_load(&engine_state.captures_open) == 0)
        return false;
    ENTER_CONTEXT();
    return stream_is_captured(stream);
}

static void
refuse_step_inside(int group, CUstream stream, const struct ddp_site *site)
{
    const char *file = file_name_of(site->file);
    if (batch.step.file != NULL)
        stop_job("a second DDP_STEP (%s:%d) in the region of %s (%s:%d), after DDP_STEP (%s:%d): each has a region of "
                 "its own",
                 file, site->line, TURN_SITE(turn_open_site()), file_name_of(batch.step.file), batch.step.line);
    if (is_captured(stream))
        stop_job("DDP_STEP (%s:%d) in the region of %s (%s:%d) is captured into a CUDA graph, and some of its launches "
                 "would have no effect: end the capture before it",
                 file, site->line, TURN_SITE(turn_open_site()));
    if (batch.place->group != NO_GROUP && batch.place->group != group)
        stop_job("DDP_STEP (%s:%d) of group %d in the region of %s (%s:%d), whose DDP_STEP was of group %d before: "
                 "each group has a DDP_TURN_BEGIN of its own line",
                 file, site->line, group, TURN_SITE(turn_open_site()), batch.place->group);
    if (unstepped.file != NULL && place_of(&unstepped) != batch.place)
        stop_job("DDP_STEP (%s:%d) in the region of %s (%s:%d), after the region of %s (%s:%d), which has ended "
                 "without DDP_STEP: all passes of a batch stand in one region, or in regions of one line",
                 file, site->line, TURN_SITE(turn_open_site()), TURN_SITE(unstepped));
}

/* ---- DDP_STEP ---- */

/* What a rank says at the complete DDP_STEP. */
struct arrival {
    uint64_t begins;
    struct turn_batches loaded;
    char place[100];
};

/* Ends the job if ranks have begun different numbers of regions since the last complete round, or load other batches.
 */
static void
compare_arrivals(const struct ddp_site *site)
{
    char about[120];
    struct arrival mine = {.begins = batch.place->begins, .loaded = *turn_batches_now()};
    struct control_messages all;
    snprintf(mine.place, sizeof(mine.place), "%s (%.60s:%d)", TURN_SITE(turn_open_site()));
    snprintf(about, sizeof(about), "DDP_STEP (%.60s:%d) of a round's last turn", file_name_of(site->file), site->line);
    exchange_in_step(about, &mine, sizeof(mine), &all);
    for (int r = 1; r < all.count; ++r) {
        const struct arrival *zero = all.messages[0], *theirs = all.messages[r];
        if (all.bytes[r] != sizeof(mine) || all.bytes[0] != sizeof(mine) || theirs->begins != zero->begins ||
            strcmp(theirs->place, zero->place) != 0)
            stop_job("ranks have passed different regions since the last complete round: %llu of %.99s on rank 0, %llu "
                     "of %.99s on rank %d; a batch that is left out must be left out on all ranks, so let no rank "
                     "decide by what the device has computed of its own batch alone",
                     (unsigned long long)zero->begins, zero->place, (unsigned long long)theirs->begins, theirs->place,
                     r);
        turn_batches_compare(&zero->loaded, &theirs->loaded, r);
    }
    control_free_messages(&all);
}

/* Sends what was kept: the last rank's buckets may be on their way. */
static void
send_kept(int group)
{
    ENTER_CONTEXT();
    RELAX_CAPTURES();
    role_take();
    if (ISSUER_LOCKED(memory_state.expected_group) == group)
        launch_rest(group);
    role_give();
}

bool
turn_step(int group, CUstream stream, const struct ddp_site *site)
{
    const struct turn_region *region = turn_region();
    if (region == NULL) {
        if (first.file != NULL)
            refuse_step_outside(group, site);
        return true;
    }
    refuse_step_inside(group, stream, site);
    const bool keeps = !memory_state.groups[group].of_parameters && !region->is_everyones && !engine_state.alone;
    batch.place->group = group;
    batch.step = rounds[group].inner = *site;
    unstepped = (struct ddp_site){0};
    turn_update_begins();
    observe_step();
    if (!batch.completes) {
        if (keeps && region->is_mine)
            turn_keep(group, stream);
        turn_leave_out(true);
        return false;
    }
    if (keeps && !region->is_mine) {
        turn_put_back(group, stream);
        send_kept(group);
    }
    if (!engine_state.alone)
        compare_arrivals(site);
    hold(false);
    turn_leave_out(false);
    return true;
}

/* ---- DDP_MEAN after every batch ---- */

void
turn_note_mean(uint64_t waited_ns, const struct ddp_site *site)
{
    static uint64_t last, in_row, waited; /* the region before the last call; batches in a row with a call */
    if (first.file == NULL || turn_region() != NULL || last == region_number())
        return;
    const bool follows = last + 1 == region_number();
    last = region_number();
    in_row = follows ? in_row + 1 : 1;
    waited = follows ? waited + waited_ns : waited_ns;
    if (in_row != (uint64_t)world() * MEANS_IN_ROW || engine_state.rendezvous.rank != 0)
        return;
    message_warning("mean_in_turns",
                    "DDP_MEAN (%s:%d) is called after every batch: ranks wait for each other there, rank 0 for %.3g ms "
                    "a batch, and compute their batches one after the other; call it where DDP_TURN_UPDATES() is not "
                    "0, or once in an epoch",
                    file_name_of(site->file), site->line, (double)waited * 1e-6 / (double)in_row);
}

/* ---- the end ---- */

/* Whether ranks have trained parameters of the group that no step has averaged. */
static bool
is_amid(int group)
{
    return rounds[group].turn > 0 && memory_state.groups[group].of_parameters;
}

int
turn_take_rest(void)
{
    for (int group = 0; group < GROUPS_AT_MOST; ++group) {
        if (!is_amid(group) || turn_is_open())
            continue;
        observe_rest(group);
        rounds[group] = (struct rounds){0};
        hold(false);
        return group;
    }
    return NO_GROUP;
}

bool
turn_rest_is_in(CUdeviceptr address, size_t bytes)
{
    bool any = false, is_in = false;
    for (int group = 0; group < GROUPS_AT_MOST; ++group)
        any = any || is_amid(group);
    if (!any)
        return false;
    engine_lock();
    size_t count = 0;
    const struct range *range = ranges_find(&memory_state.ranges, address, bytes > 0 ? bytes : 1, &count);
    for (size_t i = 0; i < count; ++i)
        is_in = is_in || tensor_of_range(&range[i])->averaged;
    engine_unlock();
    return is_in;
}

/* It does not end with a block: by DDP_TURN_OPEN, or turn_open() of Python. */
static bool
ends_by_call(const struct ddp_site *site)
{
    return strcmp(site->text, "DDP_TURN_OPEN") == 0 || strcmp(site->text, "turn_open") == 0;
}

void
turn_refuse_end(void)
{
    const struct ddp_site site = turn_open_site();
    if (!turn_is_open() || !ends_by_call(&site))
        return;
    stop_job("the program ends in the region of %s (%s:%d): call DDP_TURN_END after the update, and before "
             "each break and continue; the device's work since then was left out on other ranks",
             TURN_SITE(site));
}
