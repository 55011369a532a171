/*
 * preview.c - what a training by a plan is going to do, printed before it begins (auto.h).
 */
#include "tools/plan/command/auto.h"

#include "base/message.h"
#include "base/printable.h"
#include "launcher/report/closing.h"
#include "tools/plan/format/play_json.h"

enum { ROWS = 3 }; /* of a list; what is longer is counted */

static const char *
or_unknown(const char *text)
{
    return text[0] != '\0' ? text : "?";
}

/* Whether the role is one of `roles`: "a|b". */
static bool
is_one_of(const char *role, const char *roles)
{
    size_t length = strlen(role);
    while (roles != NULL) {
        size_t here = strcspn(roles, "|");
        if (here == length && strncmp(roles, role, length) == 0)
            return true;
        roles = roles[here] == '|' ? roles + here + 1 : NULL;
    }
    return false;
}

/* Prints a line of memory of the plan, by the name that users read. */
static void
print_row(struct json_object *plan, struct json_object *memory)
{
    char size[CLOSING_BYTES_TEXT];
    const char *role = play_text(memory, "role");
    uint64_t begin = play_number(memory, "begin"), end = play_number(memory, "end"),
             alloc = play_number(memory, "allocation");
    if (strcmp(role, "state by change") == 0)
        role = "state";
    message_line("  %-16s a%" PRIu64 "[%" PRIu64 ":%" PRIu64 "], %s, allocated at %s", role, alloc, begin, end,
                 closing_bytes_text(end - begin, size), or_unknown(plan_file_place(plan, alloc)));
}

/* Of a list of memory that of these roles ("a|b"), under a title. Whether there is any. */
static bool
print_memory(struct json_object *plan, struct json_object *list, const char *roles, const char *title)
{
    char size[CLOSING_BYTES_TEXT];
    uint64_t rest_bytes = 0;
    size_t rows = 0;
    for (size_t i = 0; i < play_length(list); ++i) {
        struct json_object *memory = json_object_array_get_idx(list, i);
        if (!is_one_of(play_text(memory, "role"), roles))
            continue;
        ++rows;
        if (rows == 1)
            message_line("%s", title);
        if (rows <= ROWS)
            print_row(plan, memory);
        else
            rest_bytes += play_number(memory, "end") - play_number(memory, "begin");
    }
    if (rows > ROWS)
        message_line("  and %zu more, %s in all", rows - ROWS, closing_bytes_text(rest_bytes, size));
    return rows > 0;
}

/* Why the forecast, that so many ranks are `times` as fast, is doubtful; "" if it is not. */
static const char *
find_doubt(const struct play_times *forecast, int ranks, double times)
{
    if (times > ranks)
        return "; this is impossible: one of the runs was disturbed";
    if (forecast->high > 2 * forecast->low)
        return "; the measured times vary by more than a factor of two";
    return "";
}

/* Prints the forecast: time of a round of `ranks` ranks beside one process's for as many batches. */
static void
print_times(struct json_object *plan, int ranks)
{
    struct play_times forecast = play_json_times(plan);
    double round_ms = (double)forecast.round_ns / 1e6, batches_ms = (double)forecast.batch_ns / 1e6 * ranks;
    if (forecast.round_ns == 0 || forecast.batch_ns == 0) {
        message_line("the speed is not known: the program makes too few batches");
        return;
    }
    double times = batches_ms / round_ms;
    message_line("forecast: %d ranks take %.3g ms for %d batches, one process %.3g ms: %.2f times as fast%s", ranks,
                 round_ms, ranks, batches_ms, times, find_doubt(&forecast, ranks, times));
}

/* One that was not asked for is not there. */
static void
print_proof(struct json_object *plan, const char *key, const char *name, const char *shows)
{
    struct json_object *proof = json_object_object_get(json_object_object_get(plan, "proof"), key);
    if (proof != NULL && strcmp(play_text(proof, "end"), "passed") == 0)
        message_line("proof (%s): passed: %s", name, play_text(proof, "text"));
    else if (proof != NULL)
        message_line("not proved: that %s; proof (%s): %s: %s", shows, name, play_text(proof, "end"),
                     play_text(proof, "text"));
}

/* Prints which proofs the plan has, and what is not proved. */
static void
print_proofs(struct json_object *plan)
{
    print_proof(plan, "halves", "c", "gradients are averaged before they are clipped or normalised");
    print_proof(plan, "turns", "d", "the ranks have the bits of one process that computes all batches");
    print_proof(plan, "per_rank", "per rank", "memory of --per-rank is carried from batch to batch, and not trained");
    message_line(
        "not proved: that later batches do the same; that the learning rate suits the larger batch; that the loss "
        "is a mean over a batch, not a sum");
}

unsigned
preview_reads(struct json_object *plan, bool prints)
{
    struct json_object *list = json_object_object_get(json_object_object_get(plan, "turns"), "operations");
    struct json_object *calls = json_object_object_get(json_object_object_get(plan, "period"), "reads");
    const char *varying = play_text(json_object_object_get(plan, "period"), "varying_reads");
    unsigned count = 0;
    if (varying[0] != '\0')
        ++count;
    if (varying[0] != '\0' && prints)
        message_line("by copies at %s, which differ from step to step, the host waits for results: ranks compute one "
                     "after the other until then",
                     varying);
    for (size_t i = 0; i < play_length(list); ++i) {
        struct json_object *read = json_object_array_get_idx(list, i);
        uint64_t writer = play_number(read, "written_by");
        const char *at = i < play_length(calls) ? play_text(json_object_array_get_idx(calls, i), "at") : "";
        char name[256];
        if (strcmp(play_text(read, "reads"), "step") != 0)
            continue;
        ++count;
        if (prints)
            message_line("by %s%s%s the host waits for a result of %s: ranks compute one after the other until then, "
                         "%" PRIu64 " of a step's %zu operations",
                         play_text(read, "name"), at[0] != '\0' ? " at " : "", at,
                         plain_name(play_text(json_object_array_get_idx(list, writer), "name"), name, sizeof(name)),
                         writer + 1, play_length(list));
    }
    return count;
}

/* Whether ranks differ in the last bits of what the update, or all of them, compute. */
static bool
has_noise(struct json_object *turns, struct json_object *memory)
{
    struct json_object *operations = json_object_object_get(turns, "operations");
    for (size_t i = 0; i < play_length(memory); ++i) {
        uint64_t of = play_number(json_object_array_get_idx(memory, i), "noise_of");
        if (of == 0)
            continue;
        struct json_object *operation = json_object_array_get_idx(operations, (size_t)of - 1);
        if (strcmp(play_text(operation, "made_by"), "turn") != 0)
            return true;
    }
    return false;
}

/* Of --plan auto by gradients: what is averaged, what is compared, and what proofs say. */
static void
print_by_gradients(struct json_object *plan, int ranks)
{
    struct json_object *groups = json_object_object_get(plan, "groups"),
                       *tensors = json_object_object_get(plan, "tensors"),
                       *notes = json_object_object_get(plan, "notes"), *turns = json_object_object_get(plan, "turns"),
                       *memory = json_object_object_get(turns, "memory");
    struct json_object *group = play_length(groups) > 0 ? json_object_array_get_idx(groups, 0) : NULL;
    char title[512];
    snprintf(title, sizeof(title),
             "averaged over %d ranks, before %s at %s (aK[B:E]: bytes B to E of the program's allocation K):", ranks,
             play_text(group, "text"), or_unknown(play_text(group, "at")));
    print_memory(plan, tensors, "gradient", title);
    print_memory(plan, tensors, "parameter|optimizer state|moving average|random state",
                 has_noise(turns, memory) ? "compared on all ranks; rounding may differ:"
                                          : "compared on all ranks; all bits must be the same:");
    print_memory(plan, memory, "state by change", "statistics of batches, averaged over the ranks:");
    print_memory(plan, memory, "per rank", "different on each rank, not compared:");
    print_proofs(plan);
    for (size_t i = 0; i < play_length(notes); ++i)
        message_line("note: %s", json_object_get_string(json_object_array_get_idx(notes, i)));
    message_line(
        "%d ranks train %d whole batches of the unchanged program at once, which make one update: rank r computes "
        "batch "
        "r of them. The learning rate stays the program's: give it one for %d times the batch. If the last batches are "
        "fewer than %d, they change nothing",
        ranks, ranks, ranks, ranks);
}

/* Whether the host reads sums over all ranks. */
static bool
print_by_state(struct json_object *plan, int ranks)
{
    struct json_object *proof = json_object_object_get(plan, "proof");
    struct json_object *because = json_object_object_get(plan, "by_state_for");
    static const char *const proofs[] = {"complete", "turns"};
    struct play play;
    char why[PLAY_WHY_BYTES];
    struct json_object *memory = json_object_object_get(json_object_object_get(plan, "turns"), "memory");
    message_line("the ranks average state%s%s", because != NULL ? " and not gradients: " : " (--by state)",
                 because != NULL ? json_object_get_string(because) : "");
    print_memory(plan, memory, "state by change", "state; a round adds the mean of the ranks' changes:");
    bool sums = print_memory(plan, memory, "sum", "sums; a round adds the changes of all ranks:");
    print_memory(plan, memory, "stream", "computed by all ranks, and equal:");
    print_memory(plan, memory, "last", "read by the host; all ranks get the value of the latest step:");
    print_memory(plan, memory, "per rank", "different on each rank (--per-rank), not compared:");
    if (play_json_read(json_object_object_get(plan, "turns"), &play, why))
        message_line("each rank takes %" PRIu64 " bytes of device memory besides the program's",
                     play_state_bytes(&play));
    play_free(&play);
    for (size_t i = 0; i < sizeof(proofs) / sizeof(proofs[0]); ++i) {
        struct json_object *it = json_object_object_get(proof, proofs[i]);
        message_line("proof (%s): %s: %s", i == 0 ? proofs[i] : "d", play_text(it, "end"), play_text(it, "text"));
    }
    message_line(
        "%d steps of the program are a round: rank r computes step r, with its update. At the end of a round all "
        "ranks add the mean of the steps' changes. The learning rate stays the program's",
        ranks);
    message_line(
        "for SGD, momentum and weight decay this equals averaged gradients; for Adam, clipping and updates by signs "
        "or norms the result differs");
    return sums;
}

/* Whether steps write the allocation, and all of it that they write stays on its rank. */
static bool
is_unshown(struct json_object *written, uint64_t alloc)
{
    bool any = false;
    for (size_t i = 0; i < play_length(written); ++i) {
        struct json_object *it = json_object_array_get_idx(written, i);
        if (play_number(it, "allocation") != alloc)
            continue;
        if (play_number(it, "unread") != 0)
            return false;
        any = true;
    }
    return any;
}

/* Whether the allocation holds state that ranks average, and a loss beside it is averaged with it; or what is the same
 * on all ranks only where a round ends: sums, and the latest bytes. */
static bool
is_of_rounds(struct json_object *memory, uint64_t alloc)
{
    for (size_t i = 0; i < play_length(memory); ++i) {
        struct json_object *it = json_object_array_get_idx(memory, i);
        if (play_number(it, "allocation") == alloc && is_one_of(play_text(it, "role"), "state by change|sum|last"))
            return true;
    }
    return false;
}

/* Managed memory that steps write, and in which the host sees what rank 0 has: names it. Whether there is any. */
static bool
print_unshown(struct json_object *plan)
{
    struct json_object *allocations = json_object_object_get(plan, "allocations");
    struct json_object *turns = json_object_object_get(plan, "turns");
    struct json_object *written = json_object_object_get(turns, "written");
    struct json_object *memory = json_object_object_get(turns, "memory");
    unsigned count = 0;
    uint64_t first = 0;
    char more[64] = "";
    for (size_t i = 0; i < play_length(allocations); ++i) {
        struct json_object *it = json_object_array_get_idx(allocations, i);
        bool is_managed = json_object_get_boolean(json_object_object_get(it, "managed"));
        if (!is_managed || !(is_unshown(written, i) || is_of_rounds(memory, i)))
            continue;
        first = count == 0 ? i : first;
        ++count;
    }
    if (count == 0)
        return false;
    if (count > 1)
        snprintf(more, sizeof(more), ", and %u more like it", count - 1);
    message_line("managed memory a%" PRIu64 ", allocated at %s%s: what the host reads there without a copy is rank 0's "
                 "value, and not that of each batch",
                 first, or_unknown(plan_file_place(plan, first)), more);
    return true;
}

/* What a loss is that the program prints. `sums`: the host reads sums over all ranks. `unshown`: it may read losses
 * that only rank 0 has. */
static const char *
name_printed(bool reads_own, bool sums, bool unshown)
{
    if (reads_own)
        return "the loss of the last batch that rank 0 computed";
    if (unshown)
        return "losses that it copies to the host, from the rank that computed each";
    if (sums)
        return "the sums above over all ranks, and any other loss of one batch, from the rank that computed it";
    return "the loss of each batch, from the rank that computed it";
}

void
preview_print(struct json_object *plan, int ranks, int timed, bool reads_own)
{
    bool sums = false;
    if (plan_file_is_by_state(plan))
        sums = print_by_state(plan, ranks);
    else
        print_by_gradients(plan, ranks);
    unsigned reads = preview_reads(plan, true);
    bool unshown = !reads_own && print_unshown(plan);
    message_line("the program prints %s. Its step counters and schedules advance by %d for each update",
                 name_printed(reads_own, sums, unshown), ranks);
    if (reads_own && reads > 0)
        message_line("--reads own: for another rank's batch these reads return old values, which mean nothing");
    print_times(plan, timed);
}
