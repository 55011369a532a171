/*
 * planned.c - see player.h: which operation of the plan is an operation of the program?
 *
 * It is the one with its name and one of its call sites, frame by frame. The plan numbers the objects of call sites in
 * its own way, so each object gets the plan's number when it is met. Call sites are looked up where names are alike and
 * the calls that led here are not those of the last time (chains.c).
 */
#include "tools/plan/trainer/player.h"

/* With `following` held: */
static bool is_elsewhere;    /* as planned_is_elsewhere() */
static uint64_t *names;      /* [operation_count]: hash of each name */
static struct chain *chains; /* [operation_count]: calls that led to it last */

/* The plan's number of each object that was met; PLANNED_NONE: the plan does not know it. */
static uint32_t *numbers;
static uint32_t number_count;

/* A loaded object was met: its number in the plan is kept. Ends the job if it was built again since. */
static void
new_object(uint32_t number, const char *path, const char *build_id)
{
    while (number_count <= number)
        *SCOUT_GROWN(numbers, number_count) = PLANNED_NONE;
    by_contents_object(number, path);
    FOR_EACH(object, player.play.objects, player.play.plan.object_count) {
        if (strcmp(object->path, path) != 0)
            continue;
        if (strcmp(object->build_id, build_id) != 0)
            scout_stop("%s was built again after its plan was made; make a new plan: ddprun scout --prove", path);
        numbers[number] = NUMBER_OF(object);
    }
}

/* Where an operation is called from; found once, if it is asked for. */
struct caller {
    bool found;
    struct play_site site;
};

/* Fills the call site of the operation that runs, with objects as the plan numbers them. */
static void
find_place(struct caller *place)
{
    place->site.frame_count = names_frames(place->site.frames);
    place->found = true;
    for (uint32_t i = 0; i < place->site.frame_count; ++i) {
        uint32_t *object = &place->site.frames[i].object;
        *object = *object < number_count ? numbers[*object] : PLANNED_NONE;
    }
}

static bool
is_same_site(const struct play_site *a, const struct play_site *b)
{
    return a->frame_count == b->frame_count && names_are_same(a->frames, b->frames, a->frame_count);
}

/* Whether it is one of the places that called the operation when the plan was made. */
static bool
is_at(struct caller *place, const struct play_operation *operation)
{
    if (!place->found)
        find_place(place);
    return ANY(site, operation->sites, operation->site_count, is_same_site(&place->site, site));
}

/* Operations that clear memory at the beginning of the plan: where the program clears after its update, its first
 * batch comes without them. */
static uint32_t
leading_fills(void)
{
    uint32_t count = 0;
    while (count + 1 < player.play.plan.operation_count && begins_with(player.play.operations[count].name, "cuMemset"))
        ++count;
    return count;
}

__attribute__((noinline)) uint32_t
planned_find(const struct operation *operation)
{
    const struct play_plan *plan = &player.play.plan;
    const void *frame = __builtin_frame_address(0);
    uint64_t name = player_hash_of(operation);
    struct caller place = {.found = false};
    if (name == names[player.next] && chain_holds(&chains[player.next], frame))
        return player.next;
    if (name == names[player.next] && is_at(&place, &player.play.operations[player.next])) {
        chain_take(&chains[player.next], frame);
        return player.next;
    }
    for (uint32_t k = 1; player.begun && k < plan->operation_count; ++k) {
        uint32_t at = (player.next + k) % plan->operation_count;
        if (name == names[at] && is_at(&place, &player.play.operations[at]))
            return at;
    }
    uint32_t first = player.begun ? 0 : leading_fills();
    if (first > 0 && name == names[first] && is_at(&place, &player.play.operations[first]))
        return first;
    is_elsewhere = is_elsewhere || (player.begun && name == names[player.next]);
    return PLANNED_NONE;
}

bool
planned_is_elsewhere(void)
{
    return is_elsewhere;
}

void
planned_met(void)
{
    is_elsewhere = false;
}

/* Whether some place calls both operations, as the loop over tensors of an update does. */
static bool
share_place(const struct play_operation *a, const struct play_operation *b)
{
    return ANY_NUMBER(i, 0, a->site_count * b->site_count,
                      is_same_site(&a->sites[i / b->site_count], &b->sites[i % b->site_count]));
}

bool
planned_shows_period(const struct operation *operation)
{
    static uint32_t met, each;
    uint32_t at = player.play.plan.average_before % player.play.plan.operation_count;
    const struct play_operation *shows = &player.play.operations[at];
    struct caller place = {.found = false};
    if (each == 0) {
        for (uint32_t i = 0; i < player.play.plan.operation_count; ++i)
            each += names[i] == names[at] && share_place(&player.play.operations[i], shows);
    }
    return player_hash_of(operation) == names[at] && is_at(&place, shows) && met++ % each == 0;
}

bool
planned_is_average(const struct operation *operation, bool begins)
{
    static uint32_t met;
    const uint32_t at = player.play.plan.average_before;
    const struct play_operation *all = player.play.operations;
    struct caller place = {.found = false};
    uint32_t before = 0;
    met = begins ? 0 : met;
    if (player_hash_of(operation) != names[at] || !is_at(&place, &all[at]))
        return false;
    for (uint32_t i = 0; i < at; ++i)
        before += names[i] == names[at] && share_place(&all[i], &all[at]);
    return met++ == before;
}

void
planned_open(void)
{
    const struct play *play = &player.play;
    names_new_object = new_object;
    names = scout_zeroed(play->plan.operation_count, sizeof(*names));
    chains = scout_zeroed(play->plan.operation_count, sizeof(*chains));
    for (uint32_t i = 0; i < play->plan.operation_count; ++i)
        names[i] = kernels_hash(play->operations[i].name);
}
