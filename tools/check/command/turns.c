/*
 * turns.c - a program with DDP_TURN_BEGIN: what is wrong in it that comparing tensors does not show, or does not name
 * (session.h).
 *
 * The ranks are compared with one process that plays the turns of all. What each rank's own batch leaves in unannotated
 * memory (CHECK_ROW_LEFT) names what is carried from batch to batch. A further run of one process shows what the host
 * makes of other ranks' turns (CHECK_ROW_CALL). Called by check.c, after the runs of all ranks.
 */
#include "tools/check/command/session.h"

#include "tools/common/each.h"

enum { PLACE_BYTES = 300 };

static const char *const move_out =
    "move what advances from batch to batch (random states, counters, copies of the next batch) before "
    "DDP_TURN_BEGIN, where all ranks make it; what each batch continues, such as a hidden state, cannot take turns: "
    "divide the batch with DDP_SHARD";

static const char *const agree =
    "between DDP_TURN_BEGIN and the end of its region, decide by what this batch has computed only where "
    "DDP_TURN_MINE() is not 0; let all ranks decide by a DDP_MEAN where DDP_TURN_UPDATES() is not 0";

static const char *const choose_alike =
    "let each rank choose its data by what all ranks know: by one seed, and not by the rank, or by what the device has "
    "computed of its own batches; an action or a sample that the model chooses is to be computed before "
    "DDP_TURN_BEGIN, where all ranks make the work";

static const char *const update_in_region = "; in turns all of the update stands in the region, after DDP_STEP";

static const char *const guard_update =
    "put all of the update into the region, after DDP_STEP; what the host does of it (an optimizer, a loss scaler, a "
    "counter) runs in each batch, also before the averages are there: let it run where DDP_TURN_UPDATES() is not 0";

/* ---- the run in which the host cannot see other ranks' turns ---- */

/* One process with the turns of rank 0, to its end: its rows, and whether it does not go on as it should. */
static bool
run_as_rank_0(struct check *check, bool blinds, bool *is_stuck, struct error *error)
{
    struct check_outcome outcome;
    struct check_order order = session_order(check, blinds ? "blind" : "sighted",
                                             blinds ? "one process with the turns of rank 0, which does not see what "
                                                      "others compute"
                                                    : "one process with the turns of rank 0",
                                             CHECK_COMPARES);
    order.run.as_rank_0 = true;
    order.run.blinds = blinds;
    if (!session_start(check, &order, &outcome, error))
        return false;
    check_rows_free(&check->evidence.blind);
    check_rows_append(&check->evidence.blind, outcome.results, 0);
    *is_stuck = outcome.late || outcome.program_failed;
    free(outcome.results);
    return outcome.signal == 0 || session_explain(check, &order, &outcome, NULL, true, error);
}

/* The end of a rank whose program has ended by itself; NULL: it has not. */
static const struct check_row *
find_own_end(const struct check_rows *rows)
{
    const struct check_row *end = check_rows_find(rows, CHECK_ROW_END);
    return end != NULL && end->value == 0 ? end : NULL;
}

/* All ranks end by themselves after as many rounds, but fewer than one process, which has stopped by other losses:
 * these rounds are compared. */
static void
settle_end(struct check *check)
{
    struct check_evidence *evidence = &check->evidence;
    const struct check_row *first = find_own_end(&evidence->ranked[0]), *end;
    const bool is_alike =
        first != NULL && first->step > 0 &&
        ALL(rows, evidence->ranked, evidence->ranks, (end = find_own_end(rows)) != NULL && end->step == first->step);
    if (!is_alike || first->step >= check->steps)
        return;
    evidence->stopped[0] = '\0';
    evidence->common_end = 0;
    evidence->steps = check->steps = first->step;
}

bool
turns_run_blind(struct check *check, struct error *error)
{
    struct check_evidence *evidence = &check->evidence;
    bool is_stuck = false;
    if (check_evidence_takes_turns(evidence))
        settle_end(check);
    if (!check_evidence_takes_turns(evidence) || !check_evidence_is_forced(evidence) || check->in_cluster)
        return true;
    if (!run_as_rank_0(check, true, &evidence->is_blind_stuck, error))
        return false;
    if (check_rows_find(&evidence->blind, CHECK_ROW_CALL) == NULL && !evidence->is_blind_stuck)
        return true;

    /* Whatever also differs if the process sees all, other things have made. */
    const struct check_rows blind = evidence->blind;
    evidence->blind = (struct check_rows){0};
    if (!run_as_rank_0(check, false, &is_stuck, error)) {
        free(blind.rows);
        return false;
    }
    const bool is_evidence = !is_stuck && check_rows_find(&evidence->blind, CHECK_ROW_CALL) == NULL;
    check_rows_free(&evidence->blind);
    evidence->is_blind_stuck = evidence->is_blind_stuck && is_evidence;
    if (is_evidence)
        evidence->blind = blind;
    else
        free(blind.rows);
    return true;
}

/* ---- what batches leave ---- */

/* Whether one process does not leave the same there again. */
static bool
is_unrepeated(const struct check_evidence *evidence, const struct check_row *row)
{
    return ANY(it, evidence->again.rows, evidence->again.count,
               it->kind == CHECK_ROW_LEFT && it->tensor.number == row->tensor.number);
}

typedef bool left_fn(const struct check_row *row);

/* Whether the batch has found the memory otherwise than in one process and added the same to it: sums grow by the
 * same amount, whatever they are. */
static bool
is_sum(const struct check_row *row)
{
    return row->of_change && row->uneven && row->moved;
}

static bool
is_carried(const struct check_row *row)
{
    return row->of_change && row->uneven && !row->moved;
}

static bool
is_any(const struct check_row *row)
{
    return row != NULL;
}

/* Whether the call sets all of the memory: it is given it, but does not read it. */
static bool
is_set(const struct check_row *row)
{
    return strncmp(row->tensor.text, "cuMemset", strlen("cuMemset")) == 0;
}

/* Such memory, the first by step and by the calls of a batch; NULL: there is none. */
static const struct check_row *
find_left(const struct check_evidence *evidence, left_fn *is_meant, int *rank_p)
{
    const struct check_row *first = NULL;
    for (int r = 0; r < evidence->ranks; ++r) {
        EACH_ROW(row, &evidence->ranked[r], CHECK_ROW_LEFT) {
            const bool is_earlier = first == NULL || row->step < first->step ||
                                    (row->step == first->step && row->tensor.number < first->tensor.number);
            if (!is_earlier || !is_meant(row) || is_set(row) || is_unrepeated(evidence, row))
                continue;
            first = row;
            *rank_p = r;
        }
    }
    return first;
}

/* Of what one call gets: rather what it only reads, or a counter, or what it has found otherwise, than what it writes.
 */
static unsigned
rank_of_cause(const struct check_row *row)
{
    if (!row->of_change)
        return 3;
    if (!row->uneven)
        return 0;
    return row->moved ? 2 : 1;
}

/* Of all that the first call of a batch gets that differs, what is most likely the cause of the verdict's difference;
 * NULL: nothing. What differs in a later round than that is its effect. */
static const struct check_row *
find_cause(const struct check_evidence *evidence, const struct check_item *differing, int *rank_p)
{
    const struct check_row *first = find_left(evidence, is_any, rank_p), *best = first;
    const bool is_effect = first != NULL && differing != NULL && first->step > differing->made_in_step;
    if (first == NULL || is_effect)
        return NULL;
    EACH_ROW(row, &evidence->ranked[*rank_p], CHECK_ROW_LEFT) {
        const bool is_same_call = row->step == first->step && strcmp(row->tensor.text, first->tensor.text) == 0 &&
                                  strcmp(row->text, first->text) == 0;
        if (is_same_call && rank_of_cause(row) > rank_of_cause(best))
            best = row;
    }
    return best;
}

/* What the verdict has said so far. */
static void
say_so_far(const struct check_verdict *verdict, char text[1024])
{
    const bool is_equal = verdict->result == CHECK_EQUAL;
    snprintf(text, 1024, "%s", is_equal ? "gradients and parameters are equal" : verdict->text);
}

/* The host has brought it in this batch. */
static void
conclude_copied(struct check_verdict *verdict, const struct check_row *row, int rank)
{
    char place[PLACE_BYTES], argument[PLACE_ARGUMENT_BYTES], old[1024];
    say_so_far(verdict, old);
    sentence_conclude(verdict, CHECK_DIFFERENT, CAUSE_TURNS, verdict->first, choose_alike,
                      "in round %u the host on rank %d has copied other data than in one process to memory that `%s` "
                      "(%s) is given: %s. In turns all ranks load the same batches; %.500s",
                      row->step, rank, row->tensor.text, place_name(row->text, place, sizeof(place)),
                      place_name_argument(row->text, row->tensor.argument, false, argument), old);
    verdict->is_precise = true;
}

/* A call of cuRAND's host interface: its generator's states are memory of the device. */
static void
conclude_generator(struct check_verdict *verdict, const struct check_row *row, const char *call)
{
    char place[PLACE_BYTES], old[1024];
    say_so_far(verdict, old);
    sentence_conclude(verdict, CHECK_DIFFERENT, CAUSE_TURNS, verdict->first,
                      "draw the numbers before DDP_TURN_BEGIN: there all ranks draw the same ones in each batch",
                      "in round %u `%s` (%s) draws other numbers than in one process: on other ranks' turns its "
                      "generator stands still; %.500s",
                      row->step, call, place_name(row->text, place, sizeof(place)), old);
    verdict->is_precise = true;
}

/* The verdict: a kernel is given memory that earlier batches have written, and other ranks' batches are missing there.
 * `row` names the call, and the memory on rank `rank`. */
static void
conclude_carried(struct check_verdict *verdict, const struct check_row *row, int rank)
{
    char place[PLACE_BYTES], argument[PLACE_ARGUMENT_BYTES], old[1024];
    const bool is_equal = verdict->result == CHECK_EQUAL;
    say_so_far(verdict, old);
    sentence_conclude(
        verdict, CHECK_DIFFERENT, CAUSE_TURNS, verdict->first, NULL,
        "in round %u `%s` (%s) is given memory that earlier batches have written, and on rank %d it holds something "
        "else than in one process: %s. A rank leaves other ranks' batches out, so they are missing there; %.500s",
        row->step, row->tensor.text, place_name(row->text, place, sizeof(place)), rank,
        place_name_argument(row->text, row->tensor.argument, false, argument), old);
    sentence_say(verdict->advice, "%s%s",
                 is_equal ? "annotate running statistics with DDP_BUFFER, so that all ranks take rank 0's; " : "",
                 move_out);
    verdict->is_precise = true;
}

/* The verdict on memory that batches leave to later ones, by what the row tells: a generator's state, a copy to the
 * host, or memory that a kernel is given. */
static void
conclude_left(struct check_verdict *verdict, const struct check_row *row, int rank)
{
    struct origin call;
    const bool is_generator =
        origin_find(row->text, ORIGIN_OF_CALL, &call) && strncmp(call.name, "curand", strlen("curand")) == 0;
    if (is_generator)
        conclude_generator(verdict, row, call.name);
    else if (row->tensor.group == 1)
        conclude_copied(verdict, row, rank);
    else
        conclude_carried(verdict, row, rank);
}

/* ---- what the host calls ---- */

/* Which call of DDP_MEAN or DDP_REDUCE is the first that is not as before, into text[]. Returns text. */
static const char *
describe_call(const struct check_row *row, char text[400])
{
    static const char *const kinds[] = {[CHECK_CALLED_OTHERWISE] =
                                            "is the first call that is another one, or has other numbers",
                                        [CHECK_CALLED_NONE] = "does not come: the program ends before it",
                                        [CHECK_CALLED_MORE] = "comes after what was the last call"};
    char place[PLACE_BYTES];
    const bool has_place = row->value != CHECK_CALLED_NONE && row->text[0] != '\0';
    snprintf(text, 400, "`%s`%s%s%s %s", row->tensor.text, has_place ? " (" : "",
             has_place ? place_name(row->text, place, sizeof(place)) : "", has_place ? ")" : "", kinds[row->value]);
    return text;
}

/* The row of the first call of the host that changed when copies to it were overwritten; of DDP_MEAN, or of another
 * call. NULL: none did. */
static const struct check_row *
find_call(const struct check_evidence *evidence, bool is_mean)
{
    EACH_ROW(row, &evidence->blind, CHECK_ROW_CALL) {
        if ((row->value == CHECK_CALLED_MEAN) == is_mean)
            return row;
    }
    return NULL;
}

/* The verdict: the host decides by results that other ranks' batches should have computed. */
static void
conclude_call(struct check_verdict *verdict, const struct check_row *row)
{
    char call[400], old[1024];
    say_so_far(verdict, old);
    sentence_conclude(
        verdict, CHECK_DIFFERENT, CAUSE_TURNS, verdict->first, agree,
        "the host decides by what other ranks' batches should have computed: if the copies of it to the host are "
        "overwritten, in round %u %s; %.500s",
        row->step, describe_call(row, call), old);
    verdict->is_precise = true;
}

/* Where all have ended by themselves, the first rank that has begun another number of batches than rank 0; 0: none. */
static int
find_other_end(const struct check_evidence *evidence)
{
    const struct check_row *first = check_rows_find(&evidence->ranked[0], CHECK_ROW_BATCHES);
    if (first == NULL || !ALL(rows, evidence->ranked, evidence->ranks, find_own_end(rows) != NULL))
        return 0;
    for (int r = 1; r < evidence->ranks; ++r) {
        const struct check_row *batches = check_rows_find(&evidence->ranked[r], CHECK_ROW_BATCHES);
        if (batches != NULL && batches->value != first->value)
            return r;
    }
    return 0;
}

/* The verdict: ranks end after different numbers of batches, `rank` after another than rank 0. */
static void
conclude_end(const struct check_evidence *evidence, struct check_verdict *verdict, int rank)
{
    sentence_conclude(
        verdict, CHECK_DIFFERENT, CAUSE_TURNS, verdict->first, agree,
        "gradients and parameters are equal, but the program ends after %llu batches on rank 0, and after "
        "%llu on rank %d: each rank stops by what its own batches have computed",
        (unsigned long long)check_rows_find(&evidence->ranked[0], CHECK_ROW_BATCHES)->value,
        (unsigned long long)check_rows_find(&evidence->ranked[rank], CHECK_ROW_BATCHES)->value, rank);
    verdict->is_precise = true;
}

/* The verdict: the program neither ends nor goes on as it should when copies to the host are overwritten, and no
 * call says why. */
static void
conclude_stuck(struct check_verdict *verdict)
{
    sentence_conclude(
        verdict, CHECK_DIFFERENT, CAUSE_TURNS, verdict->first,
        "look in the regions for a loop whose end depends on a value from the device, and for a size that "
        "the device has computed: they may stand where DDP_TURN_MINE() is not 0",
        "gradients and parameters are equal, but the program fails, or waits for ever, if what it copies "
        "of other ranks' batches to the host is overwritten");
    verdict->is_precise = true;
}

/* ---- the verdict ---- */

static bool
is_before(const struct check_row *call, uint32_t step)
{
    return call != NULL && call->step <= step;
}

/* Whether the verdict is on unannotated memory that is updated as parameters are: that says more than what it makes
 * of later batches. */
static bool
is_parameter(const struct check_verdict *verdict)
{
    return verdict->cause == CAUSE_UNANNOTATED && verdict->first != NULL && verdict->first->tensor.group == 1;
}

/* Whether the host decides by what other ranks' batches should have computed, and that explains the verdict. */
static bool
is_of_host(const struct check_verdict *verdict, const struct check_row *call)
{
    if (call == NULL || verdict->result == CHECK_EQUAL || verdict->cause == CAUSE_STOPPED)
        return call != NULL;
    return verdict->first != NULL && call->step <= verdict->first->made_in_step;
}

bool
turns_judge(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    int rank = 0;
    if (!check_evidence_takes_turns(evidence) || verdict->result == CHECK_NOT_COMPARABLE)
        return true;
    const bool is_stopped = verdict->cause == CAUSE_STOPPED;
    const struct check_row *left = NULL;
    if (verdict->result == CHECK_EQUAL)
        left = find_left(evidence, is_carried, &rank);
    else if (!is_stopped && !is_parameter(verdict))
        left = find_cause(evidence, verdict->first, &rank);
    const struct check_row *call = find_call(evidence, false);
    if (left != NULL && !is_before(call, left->step))
        conclude_left(verdict, left, rank);
    else if (is_of_host(verdict, call))
        conclude_call(verdict, call);
    else if (evidence->is_blind_stuck && verdict->result == CHECK_EQUAL)
        conclude_stuck(verdict);
    else if (verdict->result == CHECK_EQUAL && find_other_end(evidence) > 0)
        conclude_end(evidence, verdict, find_other_end(evidence));
    return true;
}

static bool
is_updated(const struct check_item *item)
{
    return item->tensor.role == CHECK_PARAMETER || item->tensor.role == CHECK_STATE;
}

/* In turns no batch is divided: other sentences than those of shares. */
const struct check_verdict *
turns_advise(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    const struct check_item *first = verdict->first;
    const bool is_gradient = first != NULL && first->tensor.role == CHECK_GRADIENT;
    const bool is_of_update = first != NULL && is_updated(first);
    const bool is_of_step =
        verdict->cause == CAUSE_UPDATE || verdict->cause == CAUSE_TENSOR || verdict->cause == CAUSE_DATA;
    if (!check_evidence_takes_turns(evidence) || verdict->result == CHECK_EQUAL || verdict->cause == CAUSE_TURNS)
        return verdict;
    if (verdict->is_advised_by_place) {
        printable_append(verdict->advice, sizeof(verdict->advice), "%s",
                         is_of_update && is_of_step ? update_in_region : "");
        return verdict;
    }
    if (is_gradient && verdict->cause == CAUSE_DATA)
        sentence_say(verdict->advice, "%s", choose_alike);
    else if (verdict->cause == CAUSE_SAME_BATCH)
        sentence_say(verdict->advice, "turns need other data in each batch: where each batch is the whole data, more "
                                      "ranks do not help");
    else if (is_gradient && verdict->cause != CAUSE_NOT_REPEATABLE && verdict->cause != CAUSE_SEEDED &&
             verdict->cause != CAUSE_STOPPED)
        sentence_say(verdict->advice,
                     "look in this batch for what depends on the batches before, beside parameters and "
                     "state: %s",
                     move_out);
    else if (is_of_update && is_of_step)
        sentence_say(verdict->advice, "%s", guard_update);
    return verdict;
}

/* ---- what is equal, and worth a look ---- */

static const struct check_row *
find_sum(const struct check_evidence *evidence)
{
    int rank = 0;
    return find_left(evidence, is_sum, &rank);
}

static const struct check_row *
find_mean(const struct check_evidence *evidence)
{
    return find_call(evidence, true);
}

static const struct check_row *
find_stale(const struct check_evidence *evidence)
{
    return check_rows_find(&evidence->alone, CHECK_ROW_STALE);
}

static const struct check_row *
find_repeated(const struct check_evidence *evidence)
{
    return check_rows_find(&evidence->alone, CHECK_ROW_REPEATED);
}

/* A line: "before", the call and its place, "after". */
static const struct remark {
    const struct check_row *(*find)(const struct check_evidence *evidence);
    const char *before, *after;
} remarks[] = {
    {find_sum, "not compared: memory to which ",
     " adds in each batch: each rank has the sum of its own batches; if the program reports it, DDP_REDUCE adds the "
     "ranks' up"},
    {find_mean, "not compared: DDP_MEAN ",
     ": the host computes it from what other ranks' batches should have computed; count only where DDP_TURN_MINE() is "
     "not 0"},
    {find_stale, "not compared: what the host copies at ",
     ", in a region of turns: after a DDP_STEP without effect the work that computes it is left out on all ranks; end "
     "the region before by DDP_TURN_END(), or copy where DDP_TURN_UPDATES() is not 0"},
    {find_repeated, "not compared: how often ",
     " runs: it stands after the region, and changes its memory again where DDP_STEP had no effect, so once for each "
     "batch; a moving average of weights, weight decay or clipping belongs into the region, after DDP_STEP, or where "
     "DDP_TURN_UPDATES() is not 0"},
};

/* Prints a remark with the name and the place of the row's call. */
static void
print_remark(FILE *out, const struct remark *remark, const struct check_row *row)
{
    char place[PLACE_BYTES];
    const char *name = row->tensor.text;
    (void)place_name(row->text, place, sizeof(place));
    if (name[0] == '\0')
        fprintf(out, "%s%s%s\n", remark->before, place, remark->after);
    else
        fprintf(out, "%s`%s` (%s)%s\n", remark->before, name, place, remark->after);
}

/* Prints that an argument counts batches where it should count updates, if the run alone has seen one. */
static void
print_counted(FILE *out, const struct check_evidence *evidence)
{
    char place[PLACE_BYTES], argument[PLACE_ARGUMENT_BYTES];
    const struct check_row *row = check_rows_find(&evidence->alone, CHECK_ROW_COUNTED);
    if (row != NULL)
        fprintf(out,
                "not compared: %s of `%s` (%s) changes in batches that make no update, from %.6g to %.6g in round %u: "
                "count updates, as Adam's step, where DDP_TURN_UPDATES() is not 0\n",
                place_name_argument(row->text, row->tensor.argument, false, argument), row->tensor.text,
                place_name(row->text, place, sizeof(place)), row->norms.reference, row->norms.own, row->step);
}

void
turns_print(FILE *out, const struct check_evidence *evidence)
{
    if (!check_evidence_takes_turns(evidence))
        return;
    FOR_EACH(remark, remarks, sizeof(remarks) / sizeof(remarks[0])) {
        const struct check_row *row = remark->find(evidence);
        if (row != NULL)
            print_remark(out, remark, row);
    }
    print_counted(out, evidence);
}
