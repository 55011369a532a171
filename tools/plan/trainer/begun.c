/*
 * begun.c - see player.h: of what has noise, how far a run is from another one after steps that begin with the same
 * bytes. The other run has written them to a file, so noise does not grow from step to step. Called by turns.c.
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
    return tensor->noise == 0 ? 0 : tensor->role == PLAY_PER_RANK ? player_world() : 1;
}

/* The place in the file of a tensor after a step. */
static off_t
place_of(uint32_t number, uint32_t rank, uint32_t step)
{
    const struct play_tensor *all = player.play.tensors;
    uint64_t each = 0, at = 0;
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        at += i < number ? copies_of(&all[i]) * content_bytes(&all[i]) : 0;
        each += copies_of(&all[i]) * content_bytes(&all[i]);
    }
    return (off_t)(step * each + at +
                   (all[number].role == PLAY_PER_RANK && step > 0 ? rank : 0) * content_bytes(&all[number]));
}

static char *
content_of(uint32_t number, uint32_t rank, uint32_t step)
{
    uint64_t bytes = content_bytes(&player.play.tensors[number]);
    char *content = player_room(bytes);
    if (!direct_read(begun_file, content, bytes, place_of(number, rank, step)))
        player_refuse("what another run has kept of %s cannot be read", player.named[number].text);
    return content;
}

struct play_apart
begun_meet(uint32_t number, uint32_t rank, uint32_t step, char *own)
{
    const struct play_plan *plan = &player.play.plan;
    const struct play_tensor *tensor = &player.play.tensors[number];
    const struct allocation *allocation = player_allocation(tensor);
    struct play_apart apart = {0};
    if (tensor->noise == 0 || plan->begun == PLAY_BEGINS_ITSELF || allocation == NULL)
        return apart;
    if (begun_file < 0)
        begun_file = open_direct(
            plan->begun_path,
            O_CLOEXEC | O_NOFOLLOW | (plan->begun == PLAY_KEEPS_BEGUN ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY), 0600);
    char *now = player_room(content_bytes(tensor));
    memory_read(allocation, tensor->lo, now, content_bytes(tensor));
    if (plan->begun == PLAY_KEEPS_BEGUN) {
        if (!direct_write(begun_file, now, content_bytes(tensor), place_of(number, rank, step)))
            player_refuse("there is no room in %s for what proofs keep of %s", plan->begun_path,
                          player.named[number].text);
    } else {
        char *other = content_of(number, rank, step), *before = step > 0 ? content_of(number, rank, step - 1) : NULL;
        apart = play_find_apart(tensor, now, other, before);
        if (plan->data != PLAY_SUMS_EXCHANGED || tensor->role != PLAY_SUM) { /* a sum that was exchanged stays */
            memory_write(allocation, tensor->lo, other, content_bytes(tensor));
            memory_wait();
        }
        if (own != NULL)
            memcpy(own, other, content_bytes(tensor));
        free(other);
        free(before);
    }
    free(now);
    return apart;
}
