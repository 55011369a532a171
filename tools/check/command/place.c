/*
 * place.c - see place.h.
 *
 * Backwards from the tensor that differs, through the memory that operations of one rank change and get, come the
 * operations that it depends on. Forwards through these, the first that changes memory into something without a
 * relation (relation.h) is the place.
 */
#include "tools/check/command/relation.h"

#include "launcher/common/xcalloc.h"
#include "tools/check/command/origin.h"
#include "tools/check/format/element.h"

#include <math.h>

static bool
is_of(const struct look_argument *it, uint32_t role)
{
    return it->tensor >> 24 == 1 + role;
}

/* ---- what the tensor depends on ---- */

/* The argument has changed something behind the other one's pointer. */
static bool
reaches(const struct look_argument *it, const struct look_argument *of)
{
    return it->is_memory && it->end > 0 && it->address + it->first < of->address + of->bytes &&
           of->address < it->address + it->end;
}

/* The operation before `at` of the interval that changed what the argument points to. False: none did. */
static bool
find_writer(const struct looked *one, size_t at, const struct look_argument *of, uint32_t least, struct where *by)
{
    for (*by = (struct where){.at = at, .after = true}; by->at-- > 0 && one->steps[by->at].its->interval >= least;)
        for (by->argument = 0; by->argument < one->steps[by->at].its->arguments; ++by->argument)
            if (reaches(&one->steps[by->at].list[by->argument], of))
                return true;
    return false;
}

/* An update comes after the DDP_STEP of its own group: what is before that counts to the interval before. */
static void
begin_at_own_step(const struct place_question *question, const struct looked *looked)
{
    size_t last = 0, begin = 0;
    for (size_t i = 0; i < looked->count; ++i) {
        last = strcmp(looked->steps[i].its->name, LOOK_STEPS) == 0 ? i : last;
        for (uint32_t a = 0; a < looked->steps[i].its->arguments; ++a)
            begin = place_is_target(question, &looked->steps[i], a) ? last : begin;
    }
    for (size_t i = 0; i < begin; ++i)
        looked->steps[i].its->interval -= looked->steps[i].its->interval == question->interval;
}

/* A copy from the host to memory that no operation is given. */
static bool
is_unseen(const struct looked *one, size_t at)
{
    const struct step *copy = &one->steps[at];
    return copy->its->from_host &&
           !ANY(it, one->steps, one->count,
                it != copy && !it->its->from_host &&
                    ANY(of, it->list, it->its->arguments, of->is_memory && reaches(&copy->list[0], of)));
}

/* Backwards: an operation matters if it changes what one that matters gets, or the tensor. */
static bool
find_what_matters(struct finding *finding)
{
    const struct place_question *question = finding->question;
    const struct looked *one = &finding->one;
    bool any = false;
    free(finding->matters);
    finding->matters = xcalloc(one->count, sizeof(*finding->matters));
    for (size_t at = one->count; at-- > 0;) {
        const struct step *step = &one->steps[at];
        for (uint32_t a = 0; a < step->its->arguments; ++a)
            finding->matters[at] |= place_is_target(question, step, a) ? 1U << a : 0;
        any = any || finding->matters[at] != 0;
        FOR_EACH_UNTIL(it, step->list, step->its->arguments, finding->matters[at] == 0) {
            /* All of them: one may fill rows, the next others. */
            for (struct where by = {.at = at}; it->is_memory && find_writer(one, by.at, it, question->since, &by);)
                finding->matters[by.at] |= 1U << by.argument;
        }
        if (any && finding->matters[at] == 0 && is_unseen(one, at))
            finding->matters[at] = MATTERS_UNSEEN;
    }
    return any;
}

/* ---- sentences ---- */

/* The operation gets a gradient without annotation: all of it, or in a pool the last byte that `by` has written of it,
 * is as large as the gradient that is missing; and `by` comes before DDP_STEP, and reads no annotated gradient. */
static bool
say_forgotten(const struct finding *finding, const struct step *step, const struct look_argument *of,
              const struct where *writer)
{
    const struct check_tensor *lost = finding->question->forgotten;
    const struct step *by = &finding->one.steps[writer->at];
    uint64_t bytes = lost != NULL ? lost->count * element_size((int)lost->type) : 0;
    uint64_t written = by->list[writer->argument].address + by->list[writer->argument].end - of->address;
    if (lost == NULL || by->its->from_host ||
        (of->is_part ? bytes < of->bytes : bytes != of->bytes && bytes != written))
        return false;
    place_say(finding, PLACE_UNNAMED, step, NULL,
              "annotate this gradient with DDP_GRADIENT, with as many elements as its parameter",
              "%s, %llu element%s, written by %.260s, has no DDP_GRADIENT and feeds a parameter", ARGUMENT_OF(step, of),
              (unsigned long long)lost->count, lost->count == 1 ? "" : "s", NAME_OF(by));
    FOR_EACH(it, step->list, step->its->arguments)
        finding->place->tensor = is_of(it, CHECK_PARAMETER) && it->end > 0 ? it->tensor : finding->place->tensor;
    return true;
}

/* Appends what the operation has got that is the rank's own part of a sum, which no DDP_REDUCE has added up. */
static void
add_sums(const struct finding *finding, size_t at)
{
    const struct step *step = &finding->one.steps[at];
    for (struct where where = {.at = at}; where.argument < step->its->arguments; ++where.argument) {
        const struct look_argument *of = &step->list[where.argument];
        if (!of->is_memory || of->tensor != 0 || of->end > 0 || relation_missing_on(finding, at) >= 0 ||
            relation_of(finding, &where) != RELATION_SUM)
            continue;
        place_add(finding, "; its %s points to values of the rank's share alone", ARGUMENT_OF(step, of));
        place_add_values(finding, &where);
        return;
    }
}

static const char *const annotate_memory =
    "if this memory depends on the batch, reduce it over the batch (DDP_REDUCE), or fill it from the rows of the whole "
    "batch. Else annotate it: DDP_PARAMETER and DDP_GRADIENT if it is trained, DDP_STATE if it must be equal on all "
    "ranks, DDP_BUFFER for running statistics";

/* What the operation gets was written by operations of steps before: the first of them after which it was not one
 * process's is the place. */
static bool
say_carried(const struct finding *finding, const struct where *read)
{
    const struct looked *one = &finding->one;
    const struct look_argument *of = relation_argument(finding, -1, read);
    for (size_t i = 0; i < 2 * read->at; ++i) { /* what has no relation first */
        struct where where = {.at = i < read->at ? i : i - read->at, .after = true};
        const struct step *by = &one->steps[where.at];
        if (relation_missing_on(finding, where.at) >= 0)
            continue;
        for (; where.argument < by->its->arguments; ++where.argument) {
            enum relation relation =
                reaches(&by->list[where.argument], of) ? relation_of(finding, &where) : RELATION_SAME;
            if (relation != RELATION_NONE && (i < read->at || (relation != RELATION_ROWS && relation != RELATION_SUM)))
                continue;
            place_say(finding, PLACE_INPUT, by, relation == RELATION_ROWS ? read : &where, annotate_memory,
                      "%s points to memory that is not annotated, and there it writes %s",
                      ARGUMENT_OF(by, &by->list[where.argument]),
                      relation == RELATION_ROWS
                          ? "the rows of the rank's share alone, but one process those of the batch"
                          : "other values than one process");
            add_sums(finding, where.at);
            place_add(finding, "; in step %u %.260s reads it by %s", one->steps[read->at].its->interval + 1,
                      NAME_OF(&one->steps[read->at]), ARGUMENT_OF(&one->steps[read->at], of));
            finding->place->is_before = by->its->interval < finding->question->since;
            return true;
        }
    }
    return false;
}

/* What the operation gets, and no operation of the step has changed, is in no relation to the one rank's; `rows_too`:
 * or has its rows, which need not be those of the batch. A sum that it only reads comes first: a gradient. `changed`:
 * -1, or an argument that it has changed, into something without relation; then what it changes besides counts, as it
 * was before, and what the step has changed in part. */
static bool
say_input(const struct finding *finding, size_t at, bool rows_too, int changed)
{
    const struct looked *one = &finding->one;
    const struct step *step = &one->steps[at];
    struct where by;
    for (uint32_t k = 0; k < 2 * step->its->arguments; ++k) {
        const struct where where = {.at = at, .argument = k % step->its->arguments};
        const struct look_argument *of = &step->list[where.argument];
        bool is_buffer = is_of(of, CHECK_BUFFER);
        bool is_written = find_writer(one, at, of, finding->question->since, &by);
        /* An operation of the step has filled some of it: the rest is of steps before. */
        bool in_part =
            is_written && changed >= 0 && of->end == 0 &&
            relation_argument(finding, -1, &by)->end - relation_argument(finding, -1, &by)->first < of->bytes;
        /* The old contents of a result need not matter: after the first step they are those of the step before. */
        bool is_old =
            changed < 0 ? of->end == 0 || finding->question->is_update
                        : in_part || (of->end > 0 && ((int)where.argument != changed || finding->question->since == 0));
        if (!of->is_memory || !is_old || (k < step->its->arguments && of->end > 0) || (of->tensor != 0 && !is_buffer) ||
            (!is_buffer && is_written && !in_part))
            continue;
        enum relation relation = relation_of(finding, &where);
        if (is_buffer && relation != RELATION_SAME && !finding->question->is_update)
            return place_say(finding, PLACE_INPUT, step, &where,
                             "if this buffer is trained, annotate it with DDP_PARAMETER and DDP_GRADIENT; if it holds "
                             "statistics of the batch, reduce them with DDP_REDUCE",
                             "%s points to a buffer (DDP_BUFFER) that differs from one process's",
                             ARGUMENT_OF(step, of));
        if (is_buffer || (k < step->its->arguments && relation != RELATION_SUM))
            continue;
        bool is_known = relation == RELATION_ROWS || (relation != RELATION_NONE && !finding->question->is_update);
        if (relation == RELATION_SAME || relation == RELATION_DATA || (is_known && !rows_too) ||
            (changed >= 0 && (relation == RELATION_ROWS || (in_part && relation != RELATION_NONE))) ||
            relation_is_anew(finding, at, where.argument))
            continue;
        is_written = find_writer(one, at, of, 0, &by);
        const struct step *last = &one->steps[is_written ? by.at : 0];
        bool is_before = finding->question->is_update && is_written && strcmp(last->its->name, step->its->name) != 0;
        for (uint32_t a = 0; is_before && a < last->its->arguments; ++a) /* what it writes, too, it need not read */
            finding->place->tensor = is_of(&last->list[a], CHECK_GRADIENT) && last->list[a].end == 0
                                         ? last->list[a].tensor
                                         : finding->place->tensor;
        if (is_before && finding->place->tensor == 0 && say_forgotten(finding, step, of, &by))
            return true;
        if (!is_before && !finding->question->is_update && say_carried(finding, &where))
            return true;
        place_say(
            finding, is_before ? PLACE_BEFORE : PLACE_INPUT, step, &where,
            !is_before ? annotate_memory
            : last->its->from_host
                ? "if one rank alone loads or initialises this state, annotate it with DDP_STATE; an update by "
                  "averaged gradients must not read rows of the rank's own share"
                : "compute moments and norms after DDP_STEP, from averaged gradients. If this memory is a gradient, "
                  "annotate it with DDP_GRADIENT; if it is optimizer state that one rank alone loads or initialises, "
                  "with DDP_STATE",
            "%s points to memory that is not annotated, and the ranks' values there differ from one process's",
            ARGUMENT_OF(step, of));
        if (is_written)
            place_add(finding, "; %.200s%s", NAME_OF(last),
                      !is_before                    ? " wrote it last"
                      : last->its->from_host        ? " copied it from the host before DDP_STEP"
                      : finding->place->tensor != 0 ? " computed it before DDP_STEP, from a gradient"
                                                    : " computed it before DDP_STEP");
        if (is_written && !last->its->from_host)
            add_sums(finding, by.at);
        return true;
    }
    return false;
}

/* All memory that it gets is the same on all ranks. */
static bool
gets_same(const struct finding *finding, size_t at)
{
    const struct step *step = &finding->one.steps[at];
    return ALL_NUMBERS(a, 0, step->its->arguments,
                       !step->list[a].is_memory ||
                           relation_of(finding, &(struct where){.at = at, .argument = a}) == RELATION_SAME);
}

/* An update whose launch has another grid, or that gets the same memory and leaves another result. */
static bool
say_unseen(const struct finding *finding, size_t at)
{
    const struct step *step = &finding->one.steps[at];
    bool is_alike = gets_same(finding, at);
    for (int r = 0; r < finding->question->ranks; ++r) {
        uint64_t blocks = finding->ranks[r].steps[finding->ranks[r].of[at]].its->blocks;
        if (blocks != step->its->blocks)
            return place_say(
                finding, PLACE_SCALAR, step, NULL,
                "the update must reach the whole parameter on each rank: compute its grid from the parameter's "
                "elements, not from the share",
                "its grid has %llu blocks on rank %d and %llu in one process", (unsigned long long)blocks, r,
                (unsigned long long)step->its->blocks);
    }
    if (is_alike)
        place_say(
            finding, PLACE_SCALAR, step, NULL, place_same_update,
            "it reads the same memory on the ranks and in one process, but its result differs: a number differs that "
            "it gets by a pointer or in a struct, such as alpha, or from a variable of the device");
    return is_alike;
}

static const char *const move_step =
    "if this operation clips gradients, searches them for infinities, or computes their sign, norm or a threshold, "
    "call DDP_STEP between backward and this operation; if it adds random numbers, use the same seed on all ranks";

/* It gets what another operation of the step has added up over the share. */
static bool
say_sum(const struct finding *finding, size_t at, bool is_late)
{
    const struct step *step = &finding->one.steps[at], *writer;
    struct where by;
    for (struct where where = {.at = at}; where.argument < step->its->arguments; ++where.argument) {
        const struct look_argument *of = &step->list[where.argument];
        if (!of->is_memory || of->tensor != 0 || of->end != 0 ||
            !find_writer(&finding->one, at, of, finding->question->since, &by))
            continue;
        writer = &finding->one.steps[by.at];
        if (writer->its->from_host || strcmp(writer->its->name, LOOK_REDUCES) == 0 ||
            relation_of(finding, &where) != RELATION_SUM)
            continue;
        if (relation_missing_on(finding, by.at) < 0 && place_say_scalar(finding, by.at, 5))
            return true;
        bool weighs = !is_late && !finding->question->is_early && place_weighs(finding, &by);
        place_say(
            finding,
            is_late  ? PLACE_CHANGED
            : weighs ? PLACE_SCALAR
                     : PLACE_SHARE,
            step, &where,
            is_late  ? move_step
            : weighs ? place_weigh_shares
                     : "if this value is a count, such as the number of valid labels, call DDP_WEIGHT(count of the "
                       "share, count of the batch) before backward; reduce any other value over the batch (DDP_REDUCE)",
            "%s points to a value that %.300s computes from the rank's share alone", ARGUMENT_OF(step, of),
            NAME_OF(writer));
        if (weighs)
            place_add(finding, "; with this number as weight, the mean of the ranks' gradients equals one process's");
        return true;
    }
    return false;
}

/* The numbers that it gets and its results are the same on all ranks. */
static bool
are_alike(const struct finding *finding, size_t at)
{
    bool are = true;
    for (struct where where = {.at = at}; where.argument < finding->one.steps[at].its->arguments; ++where.argument) {
        const struct look_argument *first = relation_argument(finding, 0, &where), *it;
        are = are && ALL_NUMBERS(r, 1, finding->question->ranks,
                                 (it = relation_argument(finding, r, &where))->after == first->after &&
                                     it->value == first->value);
    }
    return are;
}

/* It gets whole numbers of rows that are not those of one process. */
static bool
say_whole(const struct finding *finding, size_t at)
{
    const struct step *step = &finding->one.steps[at];
    struct where by;
    for (uint32_t a = 0; a < step->its->arguments; ++a) {
        if (!step->list[a].is_memory || step->list[a].tensor != 0 ||
            !find_writer(&finding->one, at, &step->list[a], finding->question->since, &by) ||
            relation_of(finding, &by) != RELATION_EXCUSED)
            continue;
        return place_say(
            finding, PLACE_SHARE, step, &by,
            "if these integers count or pick rows of the share, compute them over the whole batch; if they number "
            "rows, add `first` of DDP_SHARD",
            "%s points to integers that %.200s computes, and that differ from one process's",
            ARGUMENT_OF(step, &step->list[a]), NAME_OF(&finding->one.steps[by.at]));
    }
    return false;
}

/* It gets a tensor of the role that an operation has changed, by what is the rank's own. */
static bool
gets_changed(const struct finding *finding, size_t at, uint32_t role)
{
    const struct step *step = &finding->one.steps[at];
    struct where by;
    return ANY(it, step->list, step->its->arguments,
               is_of(it, role) && find_writer(&finding->one, at, it, finding->question->since, &by) &&
                   is_of(relation_argument(finding, -1, &by), role) && relation_of(finding, &by) != RELATION_SAME);
}

/* Of a parameter or state that is changed before DDP_STEP, or before DDP_STEP_PARAMETERS averages it. */
static bool
say_early(const struct finding *finding, size_t at, uint32_t changed)
{
    const struct place_question *question = finding->question;
    const struct step *step = &finding->one.steps[at];
    const struct look_argument *it = &step->list[changed];
    bool is_it = it->tensor == question->tensor;
    const struct where where = {.at = at, .argument = changed, .after = true};
    if (question->is_early && !question->is_averaged && is_it)
        return say_sum(finding, at, false) ||
               place_say(finding, PLACE_CHANGED, step, &where, NULL,
                         "before DDP_STEP it writes other values than one process to the memory that %s points to, "
                         "which must be equal on all ranks",
                         ARGUMENT_OF(step, it));
    if (question->is_averaged &&
        gets_changed(finding, at, question->tensor >> 24 == 1 + CHECK_STATE ? CHECK_STATE : CHECK_PARAMETER))
        return place_say(finding, PLACE_CHANGED, step, &where,
                         "call DDP_STEP_PARAMETERS between the update and this operation; if this operation belongs "
                         "to backward, compute each layer's input gradient before the layer's weights change",
                         "it reads parameters that the rank's own update has changed, and that DDP_STEP_PARAMETERS "
                         "has not averaged yet; its result is not proportional to that change");
    if (!question->is_averaged || !is_it)
        return false;
    bool is_part = relation_of(finding, &where) == RELATION_PART;
    return place_say(
        finding, is_part ? PLACE_SCALAR : PLACE_CHANGED, step, &where,
        is_part ? "divide the loss, or the rate, by the rank's share (the count of DDP_SHARD), not by the batch"
                : "DDP_STEP_PARAMETERS needs an update that is linear in the gradient, such as SGD; for Adam or "
                  "clipping give the gradients buffers, and call DDP_STEP before the update",
        "%s",
        is_part ? "the ranks' changes add up to one process's change, but DDP_STEP_PARAMETERS takes their mean: a "
                  "factor of the change, such as alpha, is divided by the whole batch"
                : "the change of the parameter is not proportional to the gradient");
}

/* Data of the batch that stay on the device are to be moved by `first`: what it gets that no operation has written, and
 * all ranks get from the same place on. */
static bool
find_unmoved(const struct finding *finding, size_t at, char text[200])
{
    const struct step *step = &finding->one.steps[at];
    struct where by;
    for (struct where where = {.at = at}; where.argument < step->its->arguments; ++where.argument) {
        const struct look_argument *of = &step->list[where.argument];
        if (!of->is_memory || of->tensor != 0 || of->end > 0 ||
            (find_writer(&finding->one, at, of, 0, &by) && !finding->one.steps[by.at].its->from_host) ||
            relation_of(finding, &where) != RELATION_SAME)
            continue;
        snprintf(text, 200, "; %s points to the same values on all ranks: if it holds the batch, add `first`",
                 ARGUMENT_OF(step, of));
        return true;
    }
    return false;
}

/* Whether all ranks get the one process's number there. */
static bool
is_alike(const struct finding *finding, const struct where *where)
{
    double value = relation_argument(finding, -1, where)->value;
    const struct look_argument *it;
    return ALL_NUMBERS(r, 0, finding->question->ranks,
                       (it = relation_argument(finding, r, where)) != NULL && it->value == value);
}

static bool
say_place(const struct finding *finding, size_t at, uint32_t changed)
{
    const struct step *step = &finding->one.steps[at];
    const struct look_argument *it = &step->list[changed];
    bool is_update = finding->question->is_update, is_late = !is_update && gets_changed(finding, at, CHECK_GRADIENT);
    const struct where where = {.at = at, .argument = changed, .after = true};
    const struct look_argument *of = FIND(of, step->list, step->its->arguments, is_of(of, CHECK_GRADIENT));
    if (strcmp(step->its->name, LOOK_REDUCES) == 0)
        return place_say(finding, PLACE_SCALAR, step, &where,
                         "choose the operation of DDP_REDUCE by the values: DDP_OP_SUM for sums, DDP_OP_MEAN for "
                         "means over equal shares",
                         "the ranks pass parts of one process's `%.100s` to it, but its result is not that value",
                         step->its->place + strcspn(step->its->place, "\n") + 1);
    if (say_early(finding, at, changed))
        return true;
    if (step->its->from_host) {
        bool is_whole = place_copies_whole(finding, at);
        bool comes_again = ANY(it, finding->one.steps, finding->one.count,
                               it->its->interval > step->its->interval && relation_is_same_call(it->its, step->its));
        const char *advice =
            is_whole && comes_again
                ? "if the host computes these values from the share, such as class weights or a number of rows, reduce "
                  "them (DDP_REDUCE); if the host trains them, annotate them (DDP_PARAMETER, DDP_GRADIENT); if they "
                  "are a batch, copy only the rank's share"
            : is_whole
                ? "a data set, weights or state must be the same on all ranks: use the same seed, or annotate this "
                  "memory with DDP_PARAMETER or DDP_STATE"
                : "read the batch by `first` and `count` of DDP_SHARD. If the copied values are random numbers, use "
                  "the same seed on all ranks, and draw the numbers of the whole batch on each rank. If the host "
                  "computes them from the share, reduce them (DDP_REDUCE)";
        if (is_update || !place_say_items(finding, at))
            place_say(finding, is_whole ? PLACE_HOST : PLACE_SHARE, step, &where, advice,
                      is_whole ? "a rank copies other values than one process to the memory of %s%s"
                               : "the values that a rank copies to the memory of %s are not its share of those that "
                                 "one process copies%s",
                      ARGUMENT_OF(step, it), is_whole && it->tensor == 0 ? ", which is not annotated" : "");
        place_add_read(finding, at);
        place_add_origin(finding, step, ORIGIN_OF_COPY);
        return true;
    }
    bool is_target_itself = place_is_target(finding->question, step, changed),
         makes_rows = !is_update && !relation_is_result(finding, &where);
    char unmoved[200] = "";
    bool all_compute_one = !is_update && gets_same(finding, at) && are_alike(finding, at);
    if (all_compute_one && (find_unmoved(finding, at, unmoved) || makes_rows)) {
        place_say(
            finding, unmoved[0] != '\0' ? PLACE_SCALAR : PLACE_SHARE, step, &where,
            "add `first` of DDP_SHARD to where each rank's share begins, and to a row's number in the share where "
            "positions or random numbers depend on it",
            "all ranks compute the first items of the batch in the memory that %s points to", ARGUMENT_OF(step, it));
        place_add_share(finding, at);
        return place_add(finding, "%s", unmoved);
    }
    if (((finding->question->is_uneven || (!is_update && gets_same(finding, at))) &&
         place_say_scalar(finding, at, 1)) ||
        place_say_scalar(finding, at, 4) || (!is_update && say_whole(finding, at)) ||
        (makes_rows && say_sum(finding, at, is_late)) || place_say_scalar(finding, at, 3) ||
        say_input(finding, at, false, -1) || (!is_update && say_sum(finding, at, is_late)) ||
        place_say_scalar(finding, at, 2) || ((!is_update || is_target_itself) && say_input(finding, at, true, -1)) ||
        (!is_update && say_input(finding, at, true, (int)changed)))
        return true;
    if (is_update && is_target_itself)
        return say_unseen(finding, at);
    if (is_update)
        return place_say(finding, PLACE_CHANGED, step, NULL,
                         "the update must read averaged gradients, and no results of the rank's own rows: finish "
                         "backward before DDP_STEP",
                         "between DDP_STEP and the update it changes %s in another way than in one process",
                         is_of(it, CHECK_GRADIENT) ? "averaged gradients" : "memory that the update depends on");
    bool is_same_term = is_late && relation_adds(finding, &where, true) == RELATION_SAME,
         reads_own = is_late && makes_rows && of != NULL;
    const struct where of_gradient = {.at = at, .argument = of != NULL ? (size_t)(of - step->list) : 0},
                       *values = reads_own ? &of_gradient : &where;
    if (is_same_term)
        place_say(
            finding, PLACE_CHANGED, step, values,
            "if this term is equal on all ranks, such as weight decay, divide it as the loss is divided, or add it "
            "after DDP_STEP",
            "each rank adds the same term to its gradient as one process does, and the ranks' gradients are parts of a "
            "sum: the term counts several times");
    else if (reads_own)
        place_say(finding, PLACE_CHANGED, step, values,
                  "if backward needs these sums of the whole batch, copy the gradient, reduce the copy over the batch "
                  "(DDP_REDUCE), and read the copy",
                  "%s points to a gradient of the rank's share alone, from which it computes rows",
                  ARGUMENT_OF(step, of));
    else if (is_late)
        place_say(
            finding, PLACE_CHANGED, step, values, move_step,
            "after backward it reads or changes gradients that are not averaged yet%s%s%s, and the mean of the ranks' "
            "results is not the result of one process",
            of != NULL ? " (" : "", of != NULL ? ARGUMENT_OF(step, of) : "", of != NULL ? ")" : "");
    else {
        char why[200] = ": a row depends on other rows of the share, or on its position in the share";
        if (!find_unmoved(finding, at, why) && !makes_rows) /* such as labels */
            snprintf(why, sizeof(why),
                     ": each depends on the share alone, such as a variance or a maximum, or on a row's place in it");
        place_say(
            finding, PLACE_SHARE, step, values,
            finding->question->is_reduced
                ? "if these are initial values, compute them from the whole data, or copy rank 0's to all ranks with "
                  "DDP_STATE; if they are computed from the share, reduce them (DDP_REDUCE)"
                : "look in this kernel for statistics of the share (reduce them over the batch with DDP_REDUCE); for "
                  "positions and random numbers that depend on a row's number in the share (add `first` to it); for "
                  "labels or other inputs of other items than the share's",
            !makes_rows
                ? "the ranks' values in the memory that %s points to have neither the sum nor the mean that one "
                  "process has%s"
                : "the ranks' rows in the memory that %s points to differ from one process's%s",
            ARGUMENT_OF(step, it), why);
    }
    if (finding->place->kind == PLACE_SHARE && makes_rows)
        place_add_share(finding, at);
    for (struct where factor = {.at = at}; factor.argument < step->its->arguments && is_same_term; ++factor.argument) {
        const struct look_argument *number = &step->list[factor.argument];
        if (number->is_memory || number->is_whole || !is_alike(finding, &factor))
            continue;
        place_add(finding, ", and %s is %s", ARGUMENT_OF(step, number), VALUES_AT(finding, &factor));
    }
    return true;
}

/* How often the call is made in the interval. */
static size_t
count_calls(const struct looked *looked, const struct step *step)
{
    size_t count = 0;
    for (size_t i = 0; i < looked->count; ++i)
        count += relation_is_one_call(&looked->steps[i], step);
    return count;
}

/* Of an operation that is made on one side only: by the rank, or by one process. Before DDP_STEP a call that all ranks
 * together make as often as one process is a loop over records. */
static bool
say_missing(const struct finding *finding, const struct step *step, size_t at, int rank, bool makes)
{
    size_t one = count_calls(&finding->one, step), own = count_calls(&finding->ranks[rank], step), all = 0;
    for (int r = 0; r < finding->question->ranks; ++r)
        all += count_calls(&finding->ranks[r], step);
    if (!finding->question->is_update && one > 0 && own > 0 && all == one)
        return false;
    if (one > 0 && own > 0)
        place_say(finding, PLACE_MISSING, step, NULL, place_same_decision,
                  "rank %d makes it %zu time%s in the step, and one process %zu time%s", rank, own, own == 1 ? "" : "s",
                  one, one == 1 ? "" : "s");
    else
        place_say(finding, PLACE_MISSING, step, NULL, place_same_decision,
                  makes ? "rank %d makes it, and one process does not" : "one process makes it, and rank %d does not",
                  rank);
    place_add_origin(finding, step, ORIGIN_OF_DECISION);
    place_add_read(finding, at);
    return true;
}

/* An operation that a rank does not make has changed what the operation gets; the first of several. */
static bool
say_missing_before(const struct finding *finding, size_t at)
{
    const struct step *step = &finding->one.steps[at];
    struct where by;
    for (uint32_t a = 0; a < step->its->arguments; ++a) {
        bool is_written =
            step->list[a].is_memory && find_writer(&finding->one, at, &step->list[a], finding->question->since, &by);
        int rank = is_written ? relation_missing_on(finding, by.at) : -1;
        if (rank >= 0)
            return say_missing_before(finding, by.at) ||
                   say_missing(finding, &finding->one.steps[by.at], by.at, rank, false);
    }
    return false;
}

/* An operation that one rank does not make changes what its operation gets that is `at` of one rank's; with at ==
 * one.count the tensor itself, which one rank does not change at all. */
static bool
find_extra(const struct finding *finding, int rank, size_t at)
{
    const struct looked *one = &finding->one, *looked = &finding->ranks[rank];
    size_t end = at < one->count ? (size_t)looked->of[at] : looked->count;
    for (size_t i = 0; i < end; ++i) {
        bool is_extra = at == one->count || !ANY(k, looked->of, one->count, *k == (int)i), changes = false;
        for (uint32_t a = 0; a < looked->steps[i].its->arguments && is_extra; ++a) {
            changes = changes || (at == one->count && place_is_target(finding->question, &looked->steps[i], a));
            for (uint32_t b = 0; at < one->count && b < looked->steps[end].its->arguments; ++b)
                changes = changes || (looked->steps[end].list[b].is_memory &&
                                      reaches(&looked->steps[i].list[a], &looked->steps[end].list[b]));
        }
        /* Before DDP_STEP one that one process never makes may be right, such as one that clears what is reduced. */
        if (changes && place_has(finding->question, &looked->steps[i]) &&
            (finding->question->is_update || at == one->count || count_calls(one, &looked->steps[i]) > 0))
            return say_missing(finding, &looked->steps[i], at, rank, true);
    }
    return false;
}

static bool
find_all_extra(const struct finding *finding, size_t at)
{
    return ANY_NUMBER(r, 0, finding->question->ranks, find_extra(finding, r, at));
}

/* What DDP_STEP has averaged does not. */
static bool
differs_between_ranks(const struct finding *finding, const struct where *where)
{
    return ANY_NUMBER(r, 1, finding->question->ranks,
                      relation_argument(finding, r, where)->before != relation_argument(finding, 0, where)->before);
}

/* No operation has changed the gradient since the last DDP_STEP; or one has by the rank's own rows: backward. */
static bool
is_of_backward(const struct finding *finding, const struct where *gradient)
{
    const struct looked *one = &finding->one, *rank = finding->ranks;
    const struct step *step = &one->steps[gradient->at];
    struct where by;
    if (!find_writer(one, gradient->at, &step->list[gradient->argument], step->its->interval, &by))
        return ALL_NUMBERS(r, 0, finding->question->ranks, /* one process need not make it */
                           !find_writer(&rank[r], (size_t)rank[r].of[gradient->at],
                                        relation_argument(finding, r, gradient), step->its->interval, &by));
    const struct look_argument *list = one->steps[by.at].list;
    return ANY_NUMBER(a, 0, one->steps[by.at].its->arguments,
                      list[a].is_memory && list[a].tensor == 0 && list[a].end == 0 &&
                          relation_of(finding, &(struct where){by.at, a, false}) != RELATION_SAME);
}

/* Of operations between backward and an update, the first that reads a gradient of the rank's own, such as one that
 * takes its norm; else the update. */
static struct where
find_reader(const struct finding *finding, struct where update)
{
    const struct step *steps = finding->one.steps;
    struct where found = update;
    for (size_t at = update.at; at-- > 0 && place_has(finding->question, &steps[at]);) {
        for (uint32_t a = steps[at].its->arguments; a-- > 0;) {
            const struct where where = {.at = at, .argument = a};
            bool is_gradient = is_of(&steps[at].list[a], CHECK_GRADIENT);
            if (is_gradient && steps[at].list[a].end > 0)
                return found;
            if (is_gradient && finding->matters[at] != 0 && relation_missing_on(finding, at) < 0 &&
                differs_between_ranks(finding, &where))
                found = where;
        }
    }
    return update;
}

/* A parameter is updated by a gradient that each rank still has of its own: its DDP_STEP comes later, or never. */
static bool
say_unaveraged(const struct finding *finding)
{
    struct where by;
    for (struct where where = {.at = 0}; where.at < finding->one.count && !finding->question->is_averaged; ++where.at) {
        const struct step *step = &finding->one.steps[where.at];
        bool updates = place_has(finding->question, step) &&
                       ANY(it, step->list, step->its->arguments, is_of(it, CHECK_PARAMETER) && it->end > 0);
        for (where.argument = 0; where.argument < step->its->arguments && updates; ++where.argument) {
            const struct look_argument *of = &step->list[where.argument];
            bool is_gradient = is_of(of, CHECK_GRADIENT) && of->end == 0;
            if (!is_gradient || relation_missing_on(finding, where.at) >= 0 ||
                !differs_between_ranks(finding, &where) || !is_of_backward(finding, &where))
                continue;
            const struct where reader = find_reader(finding, where);
            bool is_other = reader.at != where.at;
            const struct step *first = &finding->one.steps[reader.at];
            of = &first->list[reader.argument];
            bool is_written = find_writer(&finding->one, reader.at, of, first->its->interval, &by);
            place_say(finding, PLACE_BEFORE, first, &reader,
                      finding->question->has_groups
                          ? "call DDP_STEP_GROUP of this gradient's group between backward and this update; the group "
                            "is that of the last DDP_GRADIENT_GROUP before the gradient's DDP_GRADIENT"
                          : "call DDP_STEP between backward and this operation",
                      "%s%s points to a gradient that DDP_STEP has not averaged%s%.260s%s",
                      is_other ? "" : "it updates a parameter, and ", ARGUMENT_OF(first, of),
                      is_written ? " since " : "", is_written ? NAME_OF(&finding->one.steps[by.at]) : "",
                      is_written ? " computed it" : "");
            if (is_other)
                place_add(finding, "; then %.200s updates a parameter by it", NAME_OF(step));
            finding->place->tensor = of->tensor;
            return true;
        }
    }
    return false;
}

/* The host makes the parameter, of a gradient that it has read before DDP_STEP, and does not read after it. */
static bool
say_read_early(const struct finding *finding)
{
    const struct place_question *question = finding->question;
    const struct looked *one = &finding->one;
    const struct step *to =
        FIND(step, one->steps, one->count,
             step->its->from_host && step->its->arguments > 0 && place_is_target(question, step, 0));
    for (struct where where = {0}; to != NULL && question->is_update && where.at < one->count; ++where.at) {
        const struct step *step = &one->steps[where.at];
        bool reads = strncmp(step->its->name, "cuMemcpyDtoH", strlen("cuMemcpyDtoH")) == 0 &&
                     step->its->interval + 1 == question->interval && relation_missing_on(finding, where.at) < 0;
        for (where.argument = 0; where.argument < step->its->arguments && reads; ++where.argument) {
            const struct look_argument *of = &step->list[where.argument];
            if (!is_of(of, CHECK_GRADIENT) || relation_of(finding, &where) != RELATION_SUM ||
                !differs_between_ranks(finding, &where) ||
                ANY(other, one->steps, (size_t)(to - one->steps),
                    other->its->interval == question->interval && strcmp(other->its->name, step->its->name) == 0 &&
                        ANY(it, other->list, other->its->arguments, it->tensor == of->tensor)))
                continue;
            place_say(finding, PLACE_BEFORE, step, &where, "call DDP_STEP between backward and this copy",
                      "%s points to a gradient that DDP_STEP has not averaged", ARGUMENT_OF(step, of));
            place_add(finding, "; then %.200s copies a parameter from the host", NAME_OF(to));
            finding->place->tensor = of->tensor;
            return true;
        }
    }
    return false;
}

/* The update changes more of the parameter than DDP_GRADIENT names of its gradient; or more than DDP_PARAMETER names,
 * by whose pointer it changes the memory that differs, behind the parameter's end and without a pointer of its own. */
static bool
say_part(const struct finding *finding)
{
    const struct place_question *question = finding->question;
    bool is_behind =
        question->tensor == 0 &&
        !ANY(step, finding->one.steps, finding->one.count,
             ANY_NUMBER(a, 0, step->its->arguments, step->list[a].tensor == 0 && place_is_target(question, step, a)));
    FOR_EACH_UNTIL(step, finding->one.steps, finding->one.count, !is_behind && question->forgotten == NULL) {
        const struct look_argument *changed = NULL, *of = NULL;
        for (uint32_t a = 0; a < step->its->arguments; ++a) {
            bool is_it = place_is_target(question, step, a) && (!is_behind || is_of(&step->list[a], CHECK_PARAMETER));
            changed = is_it ? &step->list[a] : changed;
            of = is_of(&step->list[a], CHECK_GRADIENT) ? &step->list[a] : of;
        }
        if (changed == NULL ||
            (!is_behind && (of == NULL || changed->type != of->type || changed->end - changed->first <= of->bytes)))
            continue;
        uint64_t named = of != NULL ? of->bytes / element_size(of->type) : 0;
        if (is_behind)
            place_say(finding, PLACE_BEFORE, step, NULL, NULL,
                      "by %s it updates more than the %llu elements that DDP_PARAMETER names",
                      ARGUMENT_OF(step, changed), (unsigned long long)changed->bytes / element_size(changed->type));
        else
            place_say(finding, PLACE_BEFORE, step, NULL,
                      "annotate the whole gradient: DDP_GRADIENT with all elements of its parameter, and its type",
                      "it changes %llu elements of the parameter",
                      (unsigned long long)(changed->end - changed->first) / element_size(of->type));
        if (of != NULL)
            place_add(finding, "; of the gradient that %s points to, DDP_GRADIENT %s %llu", ARGUMENT_OF(step, of),
                      is_behind ? "names" : "annotates only", (unsigned long long)named);
        finding->place->tensor = of != NULL ? of->tensor : changed->tensor;
        return true;
    }
    return false;
}

/* Of an update: what each operation changes is right, and adds to something that is not. */
static bool
say_added(const struct finding *finding)
{
    bool is = false;
    for (size_t at = 0; at < finding->one.count && finding->question->is_update && !is; ++at)
        is = finding->matters[at] != 0 && place_has(finding->question, &finding->one.steps[at]) &&
             say_input(finding, at, false, -1);
    return is;
}

/* An operation that some ranks do not make changes the tensor; of a gradient, in the mean not as one rank's does. */
static bool
makes_wrong(const struct finding *finding, size_t at)
{
    const struct step *step = &finding->one.steps[at];
    return ANY_NUMBER(a, 0, step->its->arguments,
                      place_is_target(finding->question, step, a) &&
                          (finding->question->is_update ||
                           relation_adds(finding, &(struct where){at, a, .after = true}, true) != RELATION_SUM));
}

/* What the operation has changed there has no relation that leads to the tensor. */
static bool
is_wrong(const struct finding *finding, const struct where *where, enum relation relation)
{
    const struct place_question *question = finding->question;
    bool must_be_same =
        question->is_update || (question->is_early && !question->is_averaged) ||
        (question->is_reduced && place_is_target(question, &finding->one.steps[where->at], (uint32_t)where->argument));
    return (relation == RELATION_NONE || relation == RELATION_PART || (must_be_same && relation != RELATION_SAME)) &&
           !relation_is_anew(finding, where->at, where->argument);
}

/* The next operation that gets what this one has changed there overwrites all of it, and makes nothing wrong: no
 * operation reads it. Where changes are compared, it may also add to it. */
static bool
is_overwritten(const struct finding *finding, const struct where *where)
{
    const struct looked *one = &finding->one;
    const struct look_argument *it = relation_argument(finding, -1, where), *by;
    struct where next = {.at = where->at + 1, .after = true};
    bool covers = false, adds = finding->question->is_update || finding->question->is_early;
    while (next.at < one->count &&
           !ANY(of, one->steps[next.at].list, one->steps[next.at].its->arguments, of->is_memory && reaches(it, of)))
        ++next.at;
    for (; next.at < one->count && next.argument < one->steps[next.at].its->arguments; ++next.argument) {
        by = &one->steps[next.at].list[next.argument];
        enum relation relation = by->is_memory && by->end > 0 ? relation_of(finding, &next) : RELATION_SAME;
        if (relation == RELATION_UNKNOWN || is_wrong(finding, &next, relation))
            return false;
        covers = covers || (by->is_memory && by->address + by->first <= it->address + it->first &&
                            it->address + it->end <= by->address + by->end);
    }
    return covers && !adds;
}

static bool
find_place(struct finding *finding)
{
    const struct place_question *question = finding->question;
    for (size_t at = 0; at < finding->one.count; ++at) {
        const struct step *step = &finding->one.steps[at];
        if (finding->matters[at] == 0 || !place_has(question, step))
            continue;
        int missing_on = relation_missing_on(finding, at);
        if (missing_on >= 0) { /* what it makes may not be used */
            bool is_alone = say_missing(finding, step, at, missing_on, false);
            if (!is_alone || makes_wrong(finding, at))
                return say_missing_before(finding, at) || is_alone;
            continue;
        }
        if (question->is_update && find_all_extra(finding, at))
            return true;
        if (question->is_update && !relation_changes_same(finding, at) && place_say_scalar(finding, at, 3))
            return true;
        for (struct where where = {.at = at, .after = true}; where.argument < step->its->arguments; ++where.argument) {
            bool is_data = question->is_update && step->its->from_host && !place_copies_whole(finding, at);
            bool is_other = question->is_early && !question->is_averaged &&
                            strcmp(step->its->name, LOOK_REDUCES) != 0 &&
                            !place_is_target(question, step, (uint32_t)where.argument);
            bool is_used = (finding->matters[at] & (MATTERS_UNSEEN | 1U << where.argument)) != 0;
            const struct look_argument *it = &step->list[where.argument];
            /* Its annotation gives all ranks rank 0's values, which are one process's. */
            bool begins_alike = it->is_before && !is_of(it, CHECK_GRADIENT) &&
                                relation_argument(finding, 0, &where)->after == it->after;
            if (is_other || !is_used || !it->is_memory || it->end == 0 || is_data || begins_alike)
                continue;
            enum relation relation = relation_of(finding, &where);
            if (relation == RELATION_UNKNOWN) { /* too much was left out */
                finding->place->is_probable = true;
                if (place_say_scalar(finding, at, 3))
                    return true;
                continue;
            }
            if (is_wrong(finding, &where, relation) && !is_overwritten(finding, &where))
                return say_missing_before(finding, at) || find_all_extra(finding, at) ||
                       say_place(finding, at, (uint32_t)where.argument) || say_added(finding);
        }
    }
    return say_added(finding);
}

/* The number is a width, of rows that the operation writes, of which the last elements may stay, or of a parameter that
 * it gets. */
static bool
is_width(const struct finding *finding, size_t at, uint64_t number)
{
    const struct step *own = &finding->ranks[0].steps[finding->ranks[0].of[at]];
    uint64_t rows = number * finding->question->items / (uint64_t)finding->question->ranks * sizeof(float);
    return ANY(it, own->list, own->its->arguments,
               it->is_memory && (is_of(it, CHECK_PARAMETER) ? it->bytes / element_size(it->type) % number == 0
                                                            : it->end <= rows && it->end > rows - rows / 10));
}

/* Where gradients are the Nth part of one rank's, what divides them is of the whole batch, on each rank: one divided by
 * its items; and, probably, the items, which may also be a width, or one divided by any whole number. */
static bool
find_divisor(const struct finding *finding)
{
    enum { BY_ITEMS, ITEMS, ITEMS_OR_WIDTH, BY_ANY, TURNS };
    for (size_t i = 0; i < TURNS * finding->one.count; ++i) {
        int turn = (int)(i / finding->one.count);
        struct where of = {.at = i % finding->one.count};
        const struct step *step = &finding->one.steps[of.at];
        for (; of.argument < step->its->arguments && finding->matters[of.at] != 0; ++of.argument) {
            const struct look_argument *it = &step->list[of.argument];
            double items = (double)finding->question->items, inverse = 1 / it->value,
                   divisor = it->value < 1 ? rint(inverse) : it->value;
            bool is_whole = inverse > 1.5 && fabs(inverse - divisor) < 1e-6 * inverse,
                 is_it = turn == ITEMS || turn == ITEMS_OR_WIDTH ? it->value == items
                                                                 : is_whole && (turn == BY_ANY || divisor == items);
            if (it->is_memory || !is_it || !is_alike(finding, &of) ||
                (turn == ITEMS && is_width(finding, of.at, finding->question->items)))
                continue;
            finding->place->is_probable = turn != BY_ITEMS;
            return place_say(
                finding, PLACE_SCALAR, step, NULL, "",
                "%s is %s%.0f on each rank and in one process, but must depend on the rank's share: %.0f %s the "
                "whole batch",
                ARGUMENT_OF(step, it), it->value < 1 ? "1/" : "", divisor, divisor,
                divisor == items ? "items are" : "is of");
        }
    }
    return false;
}

/* Of gradients that were not compared, as where one rank's update changes nothing, or comes after several DDP_STEPs. */
static bool
find_unseen(struct finding *finding)
{
    const struct place_question *question = finding->question;
    struct place_question before = *question;
    bool found = false;
    before.is_update = false;
    finding->question = &before;
    FOR_EACH_UNTIL(step, finding->one.steps, finding->one.count, found) {
        bool is_unseen = step->its->interval >= question->unseen && step->its->interval < question->interval;
        for (uint32_t a = 0; a < step->its->arguments && is_unseen && !found; ++a) {
            before.tensor = is_of(&step->list[a], CHECK_GRADIENT) && step->list[a].end > 0 ? step->list[a].tensor : 0;
            before.since = before.interval = step->its->interval;
            found = before.tensor != 0 && find_what_matters(finding) &&
                    (place_is_in_parts(&finding->one) ? place_find_in_parts(finding) : find_place(finding));
        }
    }
    finding->place->is_before = found && before.interval + 1 < question->interval;
    finding->question = question;
    return found;
}

bool
place_find(const struct place_question *question, struct place *place)
{
    struct finding finding = {.question = question, .place = place};
    *place = (struct place){.text = ""};
    bool ok = relation_load(&finding, &place->is_lost);
    for (int r = 0; r <= question->ranks && ok && question->is_update; ++r)
        begin_at_own_step(question, r > 0 ? &finding.ranks[r - 1] : &finding.one);
    bool found = ok && question->is_update && find_unseen(&finding), any = ok && find_what_matters(&finding);
    bool in_parts = any && !question->is_update && !question->is_early && place_is_in_parts(&finding.one);
    found = found || (any && (say_unaveraged(&finding) || say_read_early(&finding) || say_part(&finding) ? true
                              : question->is_divided ? find_divisor(&finding)
                              : in_parts             ? place_find_in_parts(&finding)
                                                     : find_place(&finding)));
    found = found || (ok && !any && find_all_extra(&finding, finding.one.count));
    relation_free(&finding);
    return found;
}
