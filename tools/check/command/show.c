/* show.c - see session.h. */
#include "tools/check/command/session.h"

#include "launcher/output/whole_file.h"
#include "tools/check/evidence/items.h"
#include "tools/common/owned.h"
#include "tools/near/element.h"
#include "tools/plan/format/play_json.h"

#include <json-c/json.h>

enum { ROWS_OF_A_ROLE = 3, FILES_SHOWN = 5 };

static const char *
result_name(enum check_result result)
{
    static const char *const names[] = {
        [CHECK_EQUAL] = "equal", [CHECK_DIFFERENT] = "different", [CHECK_NOT_COMPARABLE] = "not comparable"};
    return names[result];
}

/* The largest of all differences would count as equal up to here. */
static double
equal_up_to(const struct check_verdict *verdict)
{
    double noise = fmin(ITEMS_FLOOR_FACTOR * verdict->facts->largest_floor, verdict->facts->bearable);
    return fmax(verdict->facts->tolerance, noise);
}

/* ---- the table ---- */

/* The last word of a tensor's line in the table: the first state of the list that applies. `tolerance` is the largest
 * relative difference that counts as equal. */
static const char *
state_of(const struct check_item *item, double tolerance)
{
    const struct {
        bool applies;
        const char *name;
    } states[] = {
        {item->is_scratch, "scratch"},
        {item->is_own, "the rank's own"},
        {item->ignored, "not repeated"},
        {item->unweighted, "unweighted"},
        {item->compensated, "compensated"},
        {item->factor > 0, "multiple"},
        {item->differs, "DIFFERS"},
        {item->unclear, "unclear"},
        {item->tensor.role == CHECK_PARAMETER && !item->moved, "not moved"},
        {item->difference > tolerance, "within noise"},
        {true, "equal"},
    };
    return FIND(it, states, sizeof(states) / sizeof(states[0]), it->applies)->name;
}

/* Whether more than one run of one process was made. */
static bool
has_floor(const struct check_evidence *evidence)
{
    return evidence->again.count + evidence->perturbed.count > 0;
}

/* Prints a tensor's line of the table: role and number from 1, elements, type, place, first step that differs, largest
 * relative difference, the floor of noise, state. */
static void
print_item(FILE *out, const struct check_item *item, double tolerance, bool with_floor)
{
    char name[40], place[46], step[16] = "-", noise[16] = "-";
    const struct check_tensor *tensor = &item->tensor;
    snprintf(name, sizeof(name), "%s %u", check_role_name(tensor->role), tensor->number + 1);
    if (tensor->role == CHECK_MEMORY)
        snprintf(place, sizeof(place), "unannotated: argument %u of %s", tensor->argument + 1, tensor->text);
    else
        snprintf(place, sizeof(place), "%.32s:%d %s", tensor->file, tensor->line, tensor->text);
    if (item->differs)
        snprintf(step, sizeof(step), item->made_in_step > 0 ? "%u" : "start", item->made_in_step);
    if (with_floor)
        snprintf(noise, sizeof(noise), "%.1e", item->floor);
    fprintf(out, "%-13s %9llu  %-8s %-45s %5s %10.1e %7s  %s\n", name, (unsigned long long)tensor->count,
            element_name((int)tensor->type), place, step, item->difference, noise, state_of(item, tolerance));
}

/* Prints, after the verdict, what the comparison has left out, or has changed in the ranks: a line for each. */
static void
print_notes(FILE *out, const struct check_evidence *evidence, const struct check_verdict *verdict)
{
    if (evidence->by_plan)
        return;
    if (evidence->ranks > 0 && check_rows_find(&evidence->ranked[0], CHECK_ROW_GRAPHS) != NULL)
        fputs("DDP_STEP is captured in a CUDA graph: parameters were compared between launches, gradients were not\n",
              out);
    bool update_differs =
        ANY(item, verdict->facts->items, verdict->facts->item_count,
            item->differs && (item->tensor.role == CHECK_PARAMETER || item->tensor.role == CHECK_STATE));
    if (!check_evidence_is_forced(evidence))
        fputs("steps do not start from one process's values (--free, or a program that tests its results): small "
              "differences add up from step to step\n",
              out);
    else if (update_differs)
        fputs("check sets the ranks' gradients to one process's values in each step, and their parameters and state up "
              "to the first update that differs\n",
              out);
    else
        fputs("check sets the ranks' tensors to one process's values in each step, so that rounding does not add up\n",
              out);
    if (ANY(item, verdict->facts->items, verdict->facts->item_count, item->compensated))
        fputs("every gradient is that of one process times one factor, which the ranks' update divides out\n", out);
    if (check_evidence_in_rounds(evidence))
        fputs("no DDP_STEP was called: a step is a round of DDP_REDUCE calls, and only their results are compared\n",
              out);
    else if (evidence->steps < 2)
        fputs("memory without an annotation was not compared: that takes at least two steps\n", out);
}

/* Whether any parameter has another value in row `step` of the rank's rows than before. */
static bool
moves_parameter(const struct check_rows *rows, uint32_t step)
{
    EACH_ROW_OF(row, rows, CHECK_PARAMETER) {
        if (row->moved && row->step == step)
            return true;
    }
    return false;
}

/* Whether a parameter has so many elements. */
static bool
has_parameter_of(const struct check_rows *rows, uint64_t count)
{
    EACH_ROW_OF(row, rows, CHECK_PARAMETER) {
        if (row->tensor.count == count)
            return true;
    }
    return false;
}

/* Whether a step that changes no parameter writes memory of a parameter's size: weights in a second buffer. */
static bool
has_second_buffer(const struct check_rows *rows)
{
    EACH_ROW_OF(row, rows, CHECK_MEMORY) {
        if (has_parameter_of(rows, row->tensor.count) && !moves_parameter(rows, row->step))
            return true;
    }
    return false;
}

/* Prints a hint where less than half of the steps change parameters on rank 0: DDP_STEP is probably called for each
 * micro-batch. */
static void
print_updates(FILE *out, const struct check_evidence *evidence)
{
    uint32_t updates = 0, moved = 0; /* steps that change some parameter on one rank, and the last of them */
    EACH_ROW_OF(row, &evidence->ranked[0], CHECK_PARAMETER) {
        updates += row->moved && row->step != moved;
        moved = row->moved ? row->step : moved;
    }
    if (updates == 0 || 2 * updates > evidence->steps || has_second_buffer(&evidence->ranked[0]))
        return;
    fprintf(out,
            "only %u of %u steps change parameters: if DDP_STEP comes after each micro-batch, one before the update "
            "is enough\n",
            updates, evidence->steps);
}

/* What no step has shown that was compared, for mistakes may be there. */
static void
print_unseen(FILE *out, const struct check_evidence *evidence)
{
    const struct check_row *limit = check_rows_find(&evidence->alone, CHECK_ROW_SHORT),
                           *end = check_rows_find(&evidence->alone, CHECK_ROW_END);
    if (check_evidence_in_rounds(evidence) || evidence->by_plan)
        return;
    uint32_t last = UINT32_MAX; /* rows of a group follow each other */
    if (evidence->steps < CHECK_STEPS_LEAST)
        fputs(
            check_evidence_takes_turns(evidence)
                ? "not exercised: whether every rank trains the same batch, so that nothing is gained (fewer than four "
                  "rounds)\n"
                : "not exercised: whether ranks train on the same data (fewer than four steps)\n",
            out);
    if (evidence->overlapped_steps < 3)
        fputs("not exercised: overlap with backward (fewer than three steps overlapped)\n", out);
    EACH_ROW(row, &evidence->ranked[0], CHECK_ROW_UNSTEPPED) {
        if (row->tensor.group != last)
            fprintf(out, "not exercised: a step of group %u\n", row->tensor.group);
        last = row->tensor.group;
    }
    if (evidence->readings != 0 && evidence->one_date)
        fputs("not exercised: dates and random bytes that differ from rank to rank\n", out);
    if (check_rows_next_of(&evidence->ranked[0], CHECK_PARAMETER, NULL) == NULL)
        fputs("no parameter is annotated: gradients alone were compared; annotate parameters with DDP_PARAMETER\n",
              out);
    print_updates(out, evidence);
    if (limit != NULL)
        fprintf(out,
                "only %u steps were compared: more steps would take one process longer than 30 s, or fill more than "
                "half of the free space with its results\n",
                evidence->steps);
    else if (end != NULL && end->value != 0)
        fprintf(out, "check ended the program after %s %u: a larger --steps compares more\n",
                check_evidence_takes_turns(evidence) ? "round" : "step", evidence->steps);
    if (end != NULL && end->value != 0 && check_rows_find(&evidence->ranked[0], CHECK_ROW_ASKED) != NULL)
        fputs(
            "not exercised: the program's whole number of steps. The program calls DDP_WORLD_SIZE(): if it divides the "
            "number of steps by that, ranks train less than one process\n",
            out);
}

/* In a training each of these ranks would replace what the others have written. */
static void
print_written(FILE *out, const struct check_evidence *evidence)
{
    const struct written *written = &evidence->written;
    for (size_t i = 0; i < written->count && i < FILES_SHOWN; ++i)
        fprintf(out, "warning: %d of %d ranks write %s\n", written->files[i].rank_count, evidence->ranks,
                written->files[i].path);
    if (written->count > FILES_SHOWN)
        fprintf(out, "warning: several ranks write %zu more files (--json FILE has all)\n",
                written->count - FILES_SHOWN);
    if (evidence->reads_stdin)
        fputs("warning: ranks above 0 read their stdin, which is empty there (rank 0 has that of ddprun; in runs of "
              "check "
              "it is empty on all ranks)\nwhat to do: pass what all ranks need as arguments or in a file\n",
              out);
    if (written->count > 0)
        fputs("what to do: save on rank 0 only, if (DDP_RANK() == 0), or put DDP_RANK() into the file's name\n", out);
}

/* Prints the line of a program with turns whose ranks are equal to one process. */
static void
print_turns(FILE *out, const struct check_evidence *evidence, const struct check_verdict *verdict)
{
    fprintf(out, "%d ranks that take turns compute what one process with all turns computes: ", evidence->ranks);
    if (check_evidence_same_bits(evidence))
        fprintf(out, "the same bits in %zu tensors, in %u rounds\n", verdict->facts->item_count, evidence->steps);
    else
        fprintf(out, "in %u rounds the %zu tensors differ by at most %.1e, which rounding explains\n", evidence->steps,
                verdict->facts->item_count, verdict->facts->largest);
    fprintf(out, "%llu of %u rounds were overlapped\n", (unsigned long long)evidence->overlapped_steps,
            evidence->steps);
}

/* Gradients and parameters are equal: so a mean that is not is shown, and decides nothing. */
static void
print_means(FILE *out, const struct check_verdict *verdict)
{
    FOR_EACH(item, verdict->facts->items, verdict->facts->item_count) {
        if (item->tensor.role != CHECK_MEAN || !item->differs)
            continue;
        fprintf(out,
                "warning: in step %u DDP_MEAN `%s` (%s:%d) differs from that of one process by %.2g, but the training "
                "is equal: is this value a sum, or divided by the whole batch? DDP_MEAN needs the mean of a share\n",
                item->first_step, item->tensor.text, item->tensor.file, item->tensor.line, item->at_first);
        return;
    }
}

/* Prints a line for each difference that was ignored because one process has as large a one if its start is changed by
 * rounding. */
static void
print_decisions(FILE *out, const struct check_verdict *verdict)
{
    FOR_EACH(item, verdict->facts->items, verdict->facts->item_count)
        if (item->decided_step > 0)
            fprintf(out,
                    "ignored: in step %u %s, differs by %.2g; one process differs as much if its values "
                    "at the start change by one unit in the last place\n",
                    item->decided_step, ITEM_NAME(verdict->facts, item), item->decided);
}

/* A sentence that has several facts: one a line. What stands in parentheses or quotes stays together; quoted source may
 * be cut off within parentheses. */
static void
print_facts(FILE *out, const char *text)
{
    bool is_quoted = false;
    for (int depth = 0; *text != '\0'; ++text) {
        is_quoted ^= *text == '`';
        depth += is_quoted ? 0 : (*text == '(') - (*text == ')');
        if (depth == 0 && !is_quoted && strncmp(text, "; ", 2) == 0) {
            fputs("\n   ", out);
            ++text;
        }
        fputc(*text, out);
    }
    fputc('\n', out);
}

/* Prints a further cause with its advice. */
static void
print_also(FILE *out, const struct verdict_also *also)
{
    fputs("also: ", out);
    print_facts(out, also->text);
    if (also->advice[0] != '\0')
        fprintf(out, "what to do: %s\n", also->advice);
}

void
check_print_verdict(FILE *out, const struct check_evidence *evidence, const struct check_verdict *verdict, bool colour)
{
    static const char *const colours[] = {
        [CHECK_EQUAL] = "\033[32m", [CHECK_DIFFERENT] = "\033[31m", [CHECK_NOT_COMPARABLE] = "\033[33m"};
    bool in_rounds = check_evidence_in_rounds(evidence), takes_turns = check_evidence_takes_turns(evidence);
    fprintf(out, "%s%s%s: ", colour ? colours[verdict->result] : "", result_name(verdict->result),
            colour ? "\033[0m" : "");
    if (verdict->result == CHECK_EQUAL && evidence->by_plan)
        print_turns(out, evidence, verdict);
    else if (verdict->result == CHECK_EQUAL)
        fprintf(out,
                "%d ranks%s compute what one process%s computes: in %u %s%s %s differ by at most %.1e (up to %.1e "
                "counts as equal)\n",
                evidence->ranks, takes_turns ? " that take turns" : "", takes_turns ? " with all turns" : "",
                evidence->steps, in_rounds || takes_turns ? "round" : "step", evidence->steps == 1 ? "" : "s",
                in_rounds ? "results of DDP_REDUCE" : "gradients and parameters", verdict->facts->largest,
                equal_up_to(verdict));
    else
        print_facts(out, verdict->text);
    if (verdict->advice[0] != '\0')
        fprintf(out, "what to do: %s\n", verdict->advice);
    FOR_EACH(also, verdict->also, verdict->also_count)
        print_also(out, also);
    if (verdict->result == CHECK_EQUAL) {
        print_unseen(out, evidence);
        turns_print(out, evidence);
        print_means(out, verdict);
    }
    print_decisions(out, verdict);
    print_written(out, evidence);
}

void
check_print_table(FILE *out, const struct check_evidence *evidence, const struct check_verdict *verdict, bool all)
{
    size_t shown = 0, of_role[CHECK_ROLES] = {0};
    if (verdict->facts->item_count > 0)
        fprintf(
            out,
            "\nstep: the first that differs; difference: relative, of the worst step; noise: the difference between "
            "two runs of one process%s\n"
            "%-13s %9s  %-8s %-45s %5s %10s %7s\n",
            has_floor(evidence) ? "" : " (-: not needed)", "tensor", "elements", "type", "annotation", "step",
            "difference", "noise");
    FOR_EACH(item, verdict->facts->items, verdict->facts->item_count) {
        if (!all && item != verdict->first && ++of_role[item->tensor.role] > ROWS_OF_A_ROLE)
            continue;
        print_item(out, item, verdict->facts->tolerance, has_floor(evidence));
        ++shown;
    }
    if (verdict->facts->item_count > shown)
        fprintf(out, "... and %zu more row%s (-v prints all)\n", verdict->facts->item_count - shown,
                verdict->facts->item_count - shown == 1 ? "" : "s");
    print_notes(out, evidence, verdict);
}

/* ---- JSON ---- */

/* JSON has no infinities: null, as for what is not known. */
static void
add_real(struct json_object *object, const char *name, double value)
{
    json_object_object_add(object, name, isfinite(value) ? json_object_new_double(value) : NULL);
}

/* A tensor of the table as an object for --json; numbers from 1, differences relative. The caller owns it. */
static struct json_object *
describe_item(const struct check_item *item, bool with_floor)
{
    struct json_object *object = json_object_new_object();
    const struct check_tensor *tensor = &item->tensor;
    play_put_text(object, "role", check_role_name(tensor->role));
    play_put_number(object, "number", tensor->number + 1);
    play_put_number(object, "group", tensor->role == CHECK_GRADIENT ? tensor->group : 0);
    if (item->factor > 0)
        add_real(object, "factor", item->factor);
    play_put_text(object, "text", tensor->text);
    play_put_text(object, "file", tensor->file[0] != '\0' ? tensor->file : NULL);
    json_object_object_add(object, "line", json_object_new_int(tensor->line));
    play_put_number(object, "elements", tensor->count);
    play_put_text(object, "type", element_name((int)tensor->type));
    json_object_object_add(object, "differs", json_object_new_boolean(item->differs));
    json_object_object_add(object, "scratch", json_object_new_boolean(item->is_scratch));
    json_object_object_add(object, "repeats", json_object_new_boolean(!item->ignored));
    json_object_object_add(object, "moved", json_object_new_boolean(item->moved));
    json_object_object_add(object, "unclear", json_object_new_boolean(item->unclear));
    json_object_object_add(object, "first_step", item->differs ? json_object_new_int((int)item->made_in_step) : NULL);
    json_object_object_add(object, "first_rank", item->differs ? json_object_new_int(item->first_rank) : NULL);
    play_put_number(object, "ranks_that_differ", (uint64_t)item->rank_count);
    add_real(object, "difference", item->difference);
    add_real(object, "floor", with_floor ? item->floor : INFINITY);
    if (item->block_count > 0) {
        play_put_number(object, "elements_from", item->block_first);
        play_put_number(object, "elements_count", item->block_count);
    }
    return object;
}

/* Adds to the list `all` each file that several ranks have written, with these ranks. */
static void
describe_written(struct json_object *all, const struct written *written)
{
    for (size_t i = 0; i < written->count; ++i) {
        struct json_object *object = play_put_item(all), *ranks = play_put_list(object, "ranks");
        play_put_text(object, "path", written->files[i].path);
        for (int k = 0; k < written->files[i].rank_count; ++k)
            json_object_array_add(ranks, json_object_new_int(written->files[i].ranks[k]));
    }
}

/* The whole verdict as an object for --json. The caller owns it. */
static struct json_object *
describe_check(const struct check_evidence *evidence, const struct check_verdict *verdict, int exit_code)
{
    struct json_object *object = json_object_new_object();
    play_put_text(object, "ddprun_version", DDPRUN_VERSION);
    play_put_text(object, "verdict", result_name(verdict->result));
    play_put_text(object, "cause", check_cause_name(verdict->cause));
    play_put_text(object, "rule", verdict->rule);
    play_put_text(object, "place_rule", verdict->place_rule);
    json_object_object_add(object, "exit_code", json_object_new_int(exit_code));
    play_put_text(object, "text", verdict->text[0] != '\0' ? verdict->text : NULL);
    play_put_text(object, "advice", verdict->advice[0] != '\0' ? verdict->advice : NULL);
    struct json_object *also = play_put_list(object, "also");
    for (size_t i = 0; i < verdict->also_count; ++i) {
        struct json_object *one = play_put_item(also);
        play_put_text(one, "text", verdict->also[i].text);
        play_put_text(one, "advice", verdict->also[i].advice[0] != '\0' ? verdict->also[i].advice : NULL);
    }
    json_object_object_add(object, "ranks", json_object_new_int(evidence->ranks));
    play_put_number(object, "steps", evidence->steps);
    json_object_object_add(object, "same_bits", json_object_new_boolean(check_evidence_same_bits(evidence)));
    play_put_number(object, "overlapped_steps", evidence->overlapped_steps);
    add_real(object, "tolerance", equal_up_to(verdict));
    add_real(object, "largest_difference", verdict->facts->largest);
    add_real(object, "largest_floor", has_floor(evidence) ? verdict->facts->largest_floor : INFINITY);
    json_object_object_add(object, "factor", verdict->factor != 0 ? json_object_new_double(verdict->factor) : NULL);
    json_object_object_add(object, "first_step",
                           verdict->first != NULL ? json_object_new_int((int)verdict->first->made_in_step) : NULL);
    json_object_object_add(object, "tensor",
                           verdict->first != NULL ? describe_item(verdict->first, has_floor(evidence)) : NULL);
    struct json_object *all = play_put_list(object, "tensors");
    FOR_EACH(item, verdict->facts->items, verdict->facts->item_count)
        json_object_array_add(all, describe_item(item, has_floor(evidence)));
    describe_written(play_put_list(object, "written_by_several"), &evidence->written);
    return object;
}

/* Writes the object to the file and frees it. False: errno says why it could not be written. */
static bool
write_object(const char *path, struct json_object *object)
{
    OWNED char *text =
        xasprintf("%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                                     JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
    return whole_file_write(path, text, strlen(text));
}

bool
check_write_json(const char *path, const struct check_evidence *evidence, const struct check_verdict *verdict,
                 const char *annotations, int exit_code)
{
    static const char begin[] = "missing: ";
    struct json_object *object = describe_check(evidence, verdict, exit_code);
    struct json_object *missing = play_put_list(object, "missing");
    for (const char *line = annotations; line != NULL; line = strchr(line, '\n')) {
        line += line[0] == '\n';
        if (strncmp(line, begin, strlen(begin)) == 0) {
            const char *text = line + strlen(begin);
            json_object_array_add(missing, json_object_new_string_len(text, (int)strcspn(text, "\n")));
        }
    }
    return write_object(path, object);
}

bool
check_write_json_error(const char *path, const struct error *error)
{
    struct json_object *object = json_object_new_object();
    play_put_text(object, "ddprun_version", DDPRUN_VERSION);
    play_put_text(object, "verdict", NULL);
    play_put_text(object, "cause", NULL);
    json_object_object_add(object, "exit_code", json_object_new_int(error->exit_code));
    play_put_text(object, "text", error->text);
    return write_object(path, object);
}
