/*
 * begun.c - see player.h: of what has noise, how far a run is from another one after steps that begin with the same
 * bytes. The other run has written them to a file, so noise does not grow from step to step. Called by all_turns.c.
 */
#include "tools/plan/trainer/player.h"

#include "tools/common/direct.h"

static int begun_file = -1;

static uint64_t
content_bytes(const struct play_tensor *tensor)
{
    return tensor->hi - tensor->lo;
}

/* How often a tensor stands in the file at each step: once, or for each rank that has its own. */
static uint64_t
copies_of(const struct play_tensor *tensor)
{
    if (tensor->noise == 0)
        return 0;
    return tensor->role == PLAY_PER_RANK ? player_world() : 1;
}

/* The place in the file of a tensor after a step. All ranks begin with the first one's. */
static off_t
place_of(uint32_t number, uint32_t rank, uint32_t step)
{
    const struct play_tensor *all = player.play.tensors;
    uint64_t step_bytes = 0, before_bytes = 0;
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        if (i == number)
            before_bytes = step_bytes;
        step_bytes += copies_of(&all[i]) * content_bytes(&all[i]);
    }
    uint64_t copy = all[number].role == PLAY_PER_RANK && step > 0 ? rank : 0;
    return (off_t)(step * step_bytes + before_bytes + copy * content_bytes(&all[number]));
}

/* What rank `rank` of another run kept of tensor `number` as step `step` began; in the player's room. */
static char *
content_of(uint32_t number, uint32_t rank, uint32_t step)
{
    uint64_t bytes = content_bytes(&player.play.tensors[number]);
    char *content = player_room(bytes);
    if (!direct_read(begun_file, content, bytes, place_of(number, rank, step)))
        player_refuse("what another run has kept of %s cannot be read", player.named[number].text);
    return content;
}

/* Opens the file in which runs keep what steps begin from, for writing or for reading as the plan says. */
static void
open_begun(void)
{
    const struct play_plan *plan = &player.play.plan;
    int flags = plan->begun == PLAY_KEEPS_BEGUN ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY;
    if (begun_file < 0)
        begun_file = open_direct(plan->begun_path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Writes what tensor `number` holds on this rank as the step begins. Refuses the plan if there is no room. */
static void
keep_content(const char *now, uint32_t number, uint32_t rank, uint32_t step)
{
    uint64_t bytes = content_bytes(&player.play.tensors[number]);
    if (!direct_write(begun_file, now, bytes, place_of(number, rank, step)))
        player_refuse("there is no room in %s for what proofs keep of %s", player.play.plan.begun_path,
                      player.named[number].text);
}

/* How far `now` is from the other run, whose bytes the device gets, and `own`, if it is not NULL. A sum that was
 * exchanged stays on the device. */
static struct near_apart
take_content(const struct allocation *allocation, const char *now, uint32_t number, uint32_t rank, uint32_t step,
             char *own)
{
    const struct play_tensor *tensor = &player.play.tensors[number];
    bool stays = player.play.plan.data == PLAY_SUMS_EXCHANGED && tensor->role == PLAY_SUM;
    char *other = content_of(number, rank, step), *before = NULL;
    if (step > 0)
        before = content_of(number, rank, step - 1);
    struct near_apart apart = near_find_apart(play_compared_type(tensor), content_bytes(tensor), now, other, before);
    if (!stays) {
        memory_write(allocation, tensor->lo, other, content_bytes(tensor));
        memory_wait();
    }
    if (own != NULL)
        memcpy(own, other, content_bytes(tensor));
    free(other);
    free(before);
    return apart;
}

struct near_apart
begun_meet(uint32_t number, uint32_t rank, uint32_t step, char *own)
{
    const struct play_plan *plan = &player.play.plan;
    const struct play_tensor *tensor = &player.play.tensors[number];
    const struct allocation *allocation = player_allocation(tensor);
    struct near_apart apart = {0};
    if (tensor->noise == 0 || plan->begun == PLAY_BEGINS_ITSELF || allocation == NULL)
        return apart;
    open_begun();
    char *now = player_room(content_bytes(tensor));
    memory_read(allocation, tensor->lo, now, content_bytes(tensor));
    if (plan->begun == PLAY_KEEPS_BEGUN)
        keep_content(now, number, rank, step);
    else
        apart = take_content(allocation, now, number, rank, step, own);
    free(now);
    return apart;
}
