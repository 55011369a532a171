/* print.c - see proofs.h. */
#include "tools/scout/command/report/proofs.h"

#include "base/protocol.h"
#include "launcher/output/whole_file.h"
#include "tools/scout/command/report/lines.h"

#include <errno.h>
#include <string.h>

static const enum scout_role order[] = {ROLE_PARAMETER, ROLE_GRADIENT, ROLE_OPTIMIZER_STATE,
                                        ROLE_AVERAGE,   ROLE_CARRIED,  ROLE_STATISTICS,
                                        ROLE_RANDOM,    ROLE_INPUT,    ROLE_SUSPECT};

/* Prints a tensor's line of the table. */
static void
print_tensor(FILE *out, const struct scout_log *log, const struct scout_finding *finding,
             const struct scout_tensor *tensor, struct sites *sites)
{
    char memory[64], pair[64] = "", name[SCOUT_NAME_BYTES], type[16];
    char place[256];
    uint32_t bytes = scout_type_bytes(tensor->type);
    snprintf(type, sizeof(type), "%s%s", scout_type_name(tensor->type), tensor->guessed ? "?" : "");
    if (tensor->pair != PAIR_NONE)
        (void)scout_tensor_place(&finding->tensors[tensor->pair], pair);
    const char *with = pair[0] != '\0' ? "with " : "";
    (void)sites_text(sites, log->allocs[tensor->alloc].site, place, sizeof(place));
    fprintf(out, "  %-16s %-9s %10" PRIu64 " %12" PRIu64 "  %-22s %-32s %-20s %s%s\n", scout_role_name(tensor->role),
            type, bytes > 0 ? (tensor->hi - tensor->lo) / bytes : 0, tensor->hi - tensor->lo,
            scout_tensor_place(tensor, memory), place, scout_op_name(log, &log->ops[tensor->writer], name),
            tensor->fused ? "no gradient of its own" : with, tensor->fused ? "" : pair);
}

/* Prints the table of tensors, role after role. */
static void
print_table(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites)
{
    fprintf(out, "  %-16s %-9s %10s %12s  %-22s %-32s %-20s %s\n", "role", "type", "elements", "bytes", "memory",
            "allocated at", "written by", "pair");
    for (size_t r = 0; r < sizeof(order) / sizeof(order[0]); ++r)
        FOR_EACH(tensor, finding->tensors, finding->tensor_count)
            if (tensor->role == order[r])
                print_tensor(out, log, finding, tensor, sites);
}

/* The lines to add, as they are told: a text, which the caller frees, and the diff. NULL: no memory. */
static char *
describe_lines(const struct scout_log *log, const struct scout_finding *finding, struct sites *sites,
               struct insertions *insertions, char **diff_p, size_t *size_p, char **fault_p)
{
    char *said = NULL;
    size_t said_size = 0;
    FILE *text = open_memstream(&said, &said_size), *patch = open_memstream(diff_p, size_p);
    if (text != NULL && patch != NULL)
        lines_print(text, patch, log, finding, insertions, sites, fault_p);
    if (patch != NULL)
        fclose(patch);
    if (text != NULL)
        fclose(text);
    return patch != NULL ? said : NULL;
}

static void
print_next(FILE *out, const char *path, bool asks)
{
    const char *by_hand = asks ? "add each line that 'by hand:' names; " : "";
    fprintf(out, "next: patch -p0 <%s; %scompile; ddprun check\n", path, by_hand);
}

/* Prints the lines to add, or writes them as a diff, if that is asked for. False, with the error: it cannot be
 * written. */
static bool
print_lines(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites,
            struct insertions *insertions, const char *path, bool verbose, struct error *error)
{
    OWNED char *fault = NULL, *diff = NULL;
    size_t size = 0;
    OWNED char *said = describe_lines(log, finding, sites, insertions, &diff, &size, &fault);
    if (said == NULL)
        return error_set(error, DDPRUN_EXIT_FAILURE, "no room for the lines to add");
    fputs(said, out);
    bool ok = fault == NULL || error_set(error, DDPRUN_EXIT_FAILURE, "the lines cannot be added: %s", fault);
    if (ok && path != NULL && size == 0)
        ok = error_set(error, DDPRUN_EXIT_FAILURE,
                       "no line has a place in a source, so %s is not written (--patch); compile with -g", path);
    if (ok && path != NULL)
        ok = whole_file_write(path, diff, size) ||
             error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s (--patch): %s", path, file_why(errno));
    const bool is_in_question = size > 0 && !finding->found;
    if (is_in_question)
        fputs("by hand: decide about the memory in question, which these lines do not annotate. That is right if it is "
              "scratch; what is carried from batch to batch cannot take turns: divide each batch (DDP_SHARD)\n",
              out);
    if (ok && path != NULL)
        print_next(out, path, is_in_question || strstr(said, "by hand:") != NULL);
    else if (size > 0 && path == NULL)
        fputs("ddprun scout --patch FILE writes them as a diff\n", out);
    if (verbose)
        fwrite(diff, 1, size, out);
    return ok || path == NULL;
}

/* Of a finding whose suspects all ranks compute alike, by its lines. */
static void
take_as_settled(const struct scout_log *log, struct scout_finding *finding)
{
    char place[64];
    finding->found = true;
    finding->is_open = false;
    free(finding->reason);
    finding->reason = NULL;
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        if (tensor->role != ROLE_SUSPECT)
            continue;
        OWNED char *name = sites_explain(log, scout_tensor_place(tensor, place));
        note_add(finding,
                 "%s is computed from the inputs alone, so all ranks compute it in each batch, before "
                 "DDP_TURN_BEGIN",
                 name);
    }
}

bool
scout_print(FILE *out, const struct scout_log *log, struct scout_finding *finding, const char *path, bool verbose,
            struct error *error)
{
    char name[SCOUT_NAME_BYTES];
    struct sites *sites = sites_open(log);
    struct insertions insertions;
    bool ok = true, is_missed = ANY(tensor, finding->tensors, finding->tensor_count,
                                    tensor->role == ROLE_SUSPECT && tensor->updated);
    bool has_lines = log->annotation_count == 0 && finding->group_count > 0 && !is_missed;
    if (has_lines) {
        insertions_find(sites, log, finding, &insertions);
        lines_print_promise(out, &insertions);
        if (finding->is_open && finding->for_lines && insertions.settles)
            take_as_settled(log, finding);
    }
    fprintf(out, "a step has %" PRIu32 " GPU operations and begins with %s\n", finding->period,
            scout_op_name(log, &log->ops[finding->first], name));
    if (verbose)
        print_table(out, log, finding, sites);
    if (finding->is_in_place)
        fputs("a launch computes gradients and updates with them: DDP_STEP_PARAMETERS averages the ranks' parameters; "
              "nothing is proved\n",
              out);
    else
        fputs("proved: data changes parameters only through these gradients, so ranks need to average nothing else\n",
              out);
    for (uint32_t i = 0; i < finding->note_count; ++i)
        fprintf(out, "note: %s\n", finding->notes[i]);
    if (log->annotation_count > 0)
        annotated_print(out, log, finding, sites);
    if (log->annotation_count > 0 && path != NULL)
        ok = error_set(error, DDPRUN_EXIT_FAILURE,
                       "--patch is for a program without annotations, and this one has some");
    if (has_lines) {
        ok = print_lines(out, log, finding, sites, &insertions, path, verbose, error);
        insertions_free(&insertions, finding->tensor_count);
    }
    sites_close(sites);
    return ok;
}

/* ---- of turns by state ---- */

void
by_state_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding,
               const struct turns *by_state)
{
    char name[SCOUT_NAME_BYTES];
    uint32_t turn = 0;
    for (uint32_t i = 0; i < finding->period; ++i)
        turn += by_state->parts[i] != PLAY_BY_ALL;
    fprintf(out, "a step is %" PRIu32 " GPU operations; ranks take turns with %" PRIu32 " of them; it begins with %s\n",
            finding->period, turn, scout_op_name(log, &log->ops[finding->first], name));
}

/* ---- proofs ---- */

const char *
proof_end_name(enum proof_end end)
{
    static const char *const names[] = {[PROOF_NOT_ASKED] = "not asked for",
                                        [PROOF_PASSED] = "passed",
                                        [PROOF_FAILED] = "failed",
                                        [PROOF_IMPOSSIBLE] = "not possible here"};
    return names[end];
}

const struct proof *
proofs_missing(const struct scout_proofs *proofs)
{
    const struct proof *all[] = {&proofs->halves, &proofs->turns, &proofs->complete};
    bool suffices = proofs->turns.end == PROOF_PASSED && !proofs->needs_halves && !proofs->by_state;
    if (proofs->own.end == PROOF_FAILED || proofs->own.end == PROOF_IMPOSSIBLE)
        return &proofs->own;
    for (int i = 0; i < 3; ++i)
        if (all[i]->end == PROOF_FAILED)
            return all[i];
    for (int i = 2; i >= 0; --i)
        if (all[i]->end == PROOF_IMPOSSIBLE && !suffices)
            return all[i];
    return NULL;
}

void
proofs_print(FILE *out, const struct scout_proofs *proofs)
{
    const struct proof *const all[] = {&proofs->halves, &proofs->complete, &proofs->turns, &proofs->own};
    static const char *const names[] = {"c", "complete", "d", "per rank"};
    for (int i = 0; i < 4; ++i)
        if (all[i]->end != PROOF_NOT_ASKED)
            fprintf(out, "proof (%s): %s: %s\n", names[i], proof_end_name(all[i]->end), all[i]->text);
}
