/* say_lines.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

/* Whether two tensors are of one row: of one role, and but for gradients of one kernel. */
static bool
is_of_row(const struct scout_log *log, const struct scout_tensor *a, const struct scout_tensor *b)
{
    char one[SCOUT_NAME_BYTES], two[SCOUT_NAME_BYTES];
    return a->role == b->role && a->type == b->type && a->fused == b->fused &&
           (a->role == ROLE_GRADIENT ||
            strcmp(scout_op_name(log, &log->ops[a->writer], one), scout_op_name(log, &log->ops[b->writer], two)) == 0);
}

/* "net->w1 (net.cu:31)" */
static void
name_memory(const struct scout_log *log, const struct scout_tensor *tensor, const char *name, struct sites *sites,
            char text[512])
{
    char place[64], site[256];
    snprintf(text, 512, "%s (%s)", name != NULL ? name : scout_tensor_place(tensor, place),
             sites_text(sites, log->allocs[tensor->alloc].site, site, sizeof(site)));
}

/* "8 parameters, 5210 float32, updated by adam: net->w1 (net.cu:31) to net->b4 (net.cu:45)": all that are of a row
 * with the first one; `by_hand`: those without a line. */
static void
print_row(FILE *out, const struct scout_log *log, const struct scout_finding *finding, uint32_t first, char **names,
          bool by_hand, struct sites *sites)
{
    const struct scout_tensor *tensor = &finding->tensors[first];
    uint32_t bytes = scout_type_bytes(tensor->type), count = 0, last = first;
    uint64_t elements = 0;
    char name[SCOUT_NAME_BYTES], begin[512], end[512];
    for (uint32_t i = first; i < finding->tensor_count; ++i) {
        const struct scout_tensor *other = &finding->tensors[i];
        if (!is_of_row(log, tensor, other) || (by_hand && names[i] != NULL))
            continue;
        ++count;
        elements += (other->hi - other->lo) / (bytes > 0 ? bytes : 1);
        last = i;
    }
    bool may_count = tensor->role == ROLE_CARRIED && tensor->type == SCOUT_INTEGER; /* of hits, beside labels */
    fprintf(out, "%" PRIu32 " %s%s%s, %" PRIu64 " %s", count, may_count ? "count or " : "",
            scout_role_name(tensor->role), count > 1 && tensor->role != ROLE_STATISTICS ? "s" : "", elements,
            bytes > 0 ? scout_type_name(tensor->type) : "bytes");
    if (tensor->role != ROLE_GRADIENT)
        fprintf(out, ", written by %s", scout_op_name(log, &log->ops[tensor->writer], name));
    name_memory(log, tensor, names[first], sites, begin);
    name_memory(log, &finding->tensors[last], names[last], sites, end);
    const char *between = count > 2 ? " to " : ", ";
    fprintf(out, ": %s", begin);
    if (strcmp(begin, end) != 0)
        fprintf(out, "%s%s", between, end);
    if (by_hand)
        fputs(": no variable of the sources is known to hold this memory; annotate it, or allocate it before the first "
              "step; compile with -g",
              out);
    const char *change =
        count > 1 ? "; DDP_STEP_PARAMETERS averages their change" : "; DDP_STEP_PARAMETERS averages its change";
    if (line_is_carried(log, tensor))
        change = "; carried from batch to batch";
    fprintf(out, "%s\n", tensor->fused && !by_hand ? change : "");
}

/* A row for each kind of tensor; `by_hand`: of those that need a line and have none. */
static void
print_rows(FILE *out, const struct scout_log *log, const struct scout_finding *finding, char **names, bool by_hand,
           struct sites *sites)
{
    for (enum scout_role role = ROLE_PARAMETER; role < ROLE_SUSPECT; ++role)
        FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
            uint32_t i = NUMBER_OF(tensor);
            if (tensor->role != role || (by_hand && (names[i] != NULL || !insertions_need(log, finding, tensor))))
                continue;
            if (ANY_NUMBER(k, 0, i, is_of_row(log, tensor, &finding->tensors[k]) && (!by_hand || names[k] == NULL)))
                continue;
            fputs(by_hand ? "by hand: " : "  ", out);
            print_row(out, log, finding, i, names, by_hand, sites);
        }
}

/* "train.cu:120, the launch of sgd" */
static void
print_place(FILE *out, const struct scout_log *log, uint32_t op, struct sites *sites)
{
    char name[SCOUT_NAME_BYTES], site[256];
    fprintf(out, "%s, %s%s", sites_text(sites, log->ops[op].site, site, sizeof(site)),
            log->ops[op].kind == SCOUT_LAUNCH ? "the launch of " : "", scout_op_name(log, &log->ops[op], name));
}

/* Prints a line for each group whose DDP_STEP found no place in the sources. */
static void
print_steps(FILE *out, const struct scout_log *log, const struct scout_finding *finding,
            const struct insertions *insertions, struct sites *sites)
{
    FOR_EACH(group, finding->groups, finding->group_count) {
        if (insertions->placed_steps[NUMBER_OF(group)])
            continue;
        fprintf(out, "by hand: %s", group->fused ? "DDP_STEP_PARAMETERS" : "DDP_STEP");
        if (insertions->groups > 1)
            fprintf(out, "_GROUP of group %u", insertions->group_of[NUMBER_OF(group)]);
        fputs(group->fused ? ", after " : ", before ", out);
        print_place(out, log, group->fused ? group->complete : group->before, sites);
        fputc('\n', out);
    }
}

/* What the lines leave to be done so that ranks take turns. */
static void
print_turns(FILE *out, const struct scout_log *log, const struct insertions *insertions, struct sites *sites)
{
    if (insertions->unturned == NULL)
        return;
    if (insertions->region_count == 0)
        fprintf(out, "by hand: %s\n", insertions->unturned);
    for (uint32_t i = 0; i < insertions->region_count; ++i) {
        fputs("by hand: DDP_TURN_BEGIN before the batch, which begins at ", out);
        print_place(out, log, insertions->regions[i].begin, sites);
        fputs(", and DDP_TURN_END after ", out);
        print_place(out, log, insertions->regions[i].last, sites);
        fprintf(out, ": %s\n", insertions->unturned);
    }
}

/* Memory without a name, which lines call by the number of its allocation. */
static void
print_made(FILE *out, const struct scout_finding *finding, const struct insertions *insertions)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        count += insertions->names[i] != NULL && strncmp(insertions->names[i], "ddp_made", strlen("ddp_made")) == 0;
    if (count > 0)
        fprintf(out,
                "note: %" PRIu32 " tensor%s no name where a line can stand: ddp_made[] (ddprun_lines.h) has their "
                "memory by the number of its allocation\n",
                count, count > 1 ? "s have" : " has");
}

void
lines_print_promise(FILE *out, const struct insertions *insertions)
{
    if (insertions->unturned != NULL && insertions->region_count == 0) {
        fputs("ranks of this program cannot take turns at batches: 'by hand:' says why, and what to do\n", out);
        return;
    }
    if (insertions->unturned != NULL) {
        fputs("ranks take turns at batches only with the lines that 'by hand:' names, too\n", out);
        return;
    }
    fputs("with the lines to add, N ranks train N batches at once, each a whole one: no data to divide, about N times "
          "as many "
          "items a second\n"
          "one update takes the mean of their gradients, as one batch N times as large would: 500 batches make 500/N "
          "updates, so choose another learning rate\n",
          out);
}

void
lines_print(FILE *out, FILE *patch, const struct scout_log *log, const struct scout_finding *finding,
            struct insertions *insertions, struct sites *sites, char **fault_p)
{
    char site[256];
    print_rows(out, log, finding, insertions->names, false, sites);
    fputs("lines to add: ", out);
    if (insertions->count == 0)
        fputs("0, because no source lines are known: compile with -g, and run scout in the folder of the sources", out);
    patch_put(patch, out, insertions, sites, fault_p);
    fputc('\n', out);
    print_rows(out, log, finding, insertions->names, true, sites);
    print_turns(out, log, insertions, sites);
    print_steps(out, log, finding, insertions, sites);
    if (insertions->forgotten != SCOUT_NONE)
        fprintf(out, "by hand: call DDP_FORGET before the memory that is allocated at %s is freed: its size changes\n",
                sites_text(sites, log->allocs[insertions->forgotten].site, site, sizeof(site)));
    if (finding->by_hand != NULL)
        fprintf(out, "by hand: %s\n", finding->by_hand);
    print_made(out, finding, insertions);
    for (uint32_t i = 0; i < insertions->note_count; ++i)
        fprintf(out, "%s\n", insertions->notes[i]);
}
