/*
 * preview_state.c - see auto.h: of a plan by state.
 */
#include "tools/plan/command/auto.h"

#include "base/message.h"
#include "tools/plan/format/play_json.h"

#include <inttypes.h>
#include <stdio.h>

enum { LISTED = 8 }; /* ranges of a class; what is more is counted */

static void
print_role(const struct play *play, uint32_t role, const char *title)
{
    uint64_t bytes = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        if (tensor->role != role)
            continue;
        if (count == 0)
            message_line("%s", title);
        if (count < LISTED)
            message_line("  a%" PRIu32 "[%" PRIu64 ":%" PRIu64 "], allocated at %s", tensor->alloc, tensor->lo,
                         tensor->hi, tensor->at[0] != '\0' ? tensor->at : "?");
        bytes += tensor->hi - tensor->lo;
        count += 1;
    }
    if (count > 0)
        message_line("  %" PRIu32 " range%s, %" PRIu64 " bytes in all", count, count == 1 ? "" : "s", bytes);
}

static uint64_t
bytes_of_round(const struct play *play)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        bool is_half = tensor->type == 3 || tensor->type == 4; /* its change travels as float32 */
        if (tensor->role == PLAY_CHANGES)
            bytes += (tensor->hi - tensor->lo) * (is_half ? 2 : 1);
    }
    return bytes;
}

void
preview_by_state(struct json_object *plan, int ranks)
{
    struct json_object *proof = json_object_object_get(plan, "proof");
    struct json_object *because = json_object_object_get(plan, "by_state_for");
    static const char *const proofs[] = {"complete", "turns"};
    struct play play;
    char why[PLAY_WHY_BYTES];
    message_line("by state%s%s", because != NULL ? ", for by gradients it cannot be: " : ", as --by asks for",
                 because != NULL ? json_object_get_string(because) : "");
    if (play_json_read(json_object_object_get(plan, "turns"), &play, why)) {
        plan_file_take_places(plan, &play);
        print_role(&play, PLAY_CHANGES, "state, of which the ranks' changes are averaged at the end of a round:");
        print_role(&play, PLAY_SUM, "sums, which get the changes of all ranks:");
        print_role(&play, PLAY_STREAM, "the same on all ranks, which make it in each step:");
        print_role(&play, PLAY_LAST, "what the host reads later, of the rank with the latest step:");
        print_role(&play, PLAY_PER_RANK, "of each rank alone, as --per-rank says, and not compared:");
        message_line("each rank takes %" PRIu64 " bytes of device memory besides the program's; %" PRIu64
                     " bytes are averaged in a round",
                     play_state_bytes(&play), bytes_of_round(&play));
    }
    play_free(&play);
    for (size_t i = 0; i < sizeof(proofs) / sizeof(proofs[0]); ++i) {
        struct json_object *it = json_object_object_get(proof, proofs[i]);
        message_line("proof (%s): %s: %s", i == 0 ? proofs[i] : "d", play_text(it, "end"), play_text(it, "text"));
    }
    message_line(
        "rank r makes step r of each %d steps of the program completely, update included, and at the round's end "
        "all ranks have the mean of what the steps have changed; the learning rate stays the program's",
        ranks);
    message_line(
        "for SGD, momentum and weight decay that is what the average of gradients gives, but for rounding; for "
        "clipping, updates by signs or norms, and Adam it is parameter averaging in each step, which is another "
        "training");
}
