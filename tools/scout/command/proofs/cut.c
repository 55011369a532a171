/*
 * cut.c - see prove.h: of (d), ranks beside one process that knows nothing of the plan's steps: its turns change where
 * the program has written last what it trains, by contents. A plan whose steps begin within a batch of the program is
 * equal to one process that plays all its turns, and not to this one.
 *
 * That process takes from the plan which memory is trained, and a wrong cut does not pass by that:
 *
 *   - Memory that is trained, and has no class or another one, is refused by proof (complete), or by the bits that
 * ranks compare: each class has a run in which what it says would show.
 *   - Memory that is called trained, and is not, is written within batches, too. Batches are counted from the first
 * write of all this memory that the program makes, not from where the plan begins a step. So a batch still has all
 * writes of one batch of the program. Its end may come later than the last write of what is trained, behind operations
 * that read it, as of a prediction, and change nothing of it: what is trained has the same bytes.
 */
#include "base/printable.h"
#include "tools/scout/command/proofs/prove.h"

/* What persists may be there later than the plan's first operation: so many batches, at most, come before a round. */
enum { LATER = 2 };

/* How a run of that process compares with ranks. */
enum likeness { NOT_MADE, ALIKE, OTHER_MEMORY, OTHER_FIGURES };

struct compared {
    enum likeness likeness;
    const struct play_tensor *tensor; /* of OTHER_MEMORY, after round: */
    uint32_t round;
    uint32_t figure; /* of OTHER_FIGURES: which copy to the host, from 1 */
};

/* What ranks average, or what their update changes. */
static bool
is_trained(const struct trial *it, const struct play_tensor *tensor)
{
    return tensor->role == PLAY_CHANGES ||
           (it->play->plan.by == PLAY_BY_GRADIENTS && (tensor->role == PLAY_PARAMETER || tensor->role == PLAY_STATE));
}

static bool
find_unlike_memory(const struct trial *it, const struct played *run, uint32_t rounds, struct compared *found)
{
    for (found->round = 1; found->round <= rounds; ++found->round) {
        FOR_EACH(tensor, it->play->tensors, it->play->plan.tensor_count) {
            found->tensor = tensor;
            if (is_trained(it, tensor) && !played_are_same(it, run, found->round, NUMBER_OF(tensor)))
                return true;
        }
    }
    return false;
}

/* What copies bring to the host, as far as both runs have come. Noise makes other bits; with --reads own ranks read
 * what they have. */
static bool
find_unlike_figure(const struct trial *it, const struct played *ranks, const struct played *run, uint32_t *number)
{
    const struct play_page *a = ranks->pages[0], *b = run->pages[0];
    uint32_t count = a->figure_count < b->figure_count ? a->figure_count : b->figure_count;
    for (*number = 1; *number <= count && !proof_is_noisy(it->play) && !it->play->plan.reads_own; ++*number) {
        uint64_t figure = b->figures[*number - 1];
        if (figure != PLAY_ANY_FIGURE && figure != a->figures[*number - 1])
            return true;
    }
    return false;
}

/* Makes the run whose first round comes after so many batches, and compares up to `rounds`. */
static struct compared
compare_after(struct trial *it, const struct played *ranks, uint32_t batches, uint32_t rounds)
{
    OWNED_RUN struct played run = {.count = 0};
    struct compared found = {.likeness = NOT_MADE};
    it->play->plan.outside = batches;
    bool ok = played_make(it, PLAY_REFERENCE, PLAY_TAKES_BEGUN, &run);
    it->play->plan.outside = 0;
    if (!ok || played_completed(&run) < rounds)
        return found;
    if (find_unlike_memory(it, &run, rounds, &found))
        found.likeness = OTHER_MEMORY;
    else
        found.likeness = find_unlike_figure(it, ranks, &run, &found.figure) ? OTHER_FIGURES : ALIKE;
    return found;
}

static void
conclude(struct trial *it, const struct compared *found, uint32_t rounds)
{
    struct proof *proof = it->proof;
    size_t used = strlen(proof->text);
    switch (found->likeness) {
    case ALIKE:
        snprintf(proof->text + used, sizeof(proof->text) - used,
                 "; so has one process whose turns change where it writes state last, in %u round%s", rounds,
                 rounds == 1 ? "" : "s");
        break;
    case OTHER_MEMORY:
        proof_conclude(proof, PROOF_FAILED,
                       "after round %u %s differs from one process whose turns change where it writes state last: a "
                       "step of the plan begins within a batch of the program, or the plan misses an operation",
                       found->round, proof_name(proof, found->tensor));
        break;
    case OTHER_FIGURES:
        proof_conclude(proof, PROOF_FAILED,
                       "copy %u to the host brings other bytes than in one process whose turns change where it writes "
                       "state last: a figure that the program prints, or decides by, would be wrong",
                       found->figure);
        break;
    case NOT_MADE:
        proof_conclude(proof, PROOF_IMPOSSIBLE,
                       "one process whose turns change where it writes state last has not come to %u rounds", rounds);
        break;
    }
}

/* The plan's last write of state comes in some step. Else each step would be complete only where the next one begins,
 * which after the program's last batch, or in front of a validation, does not come. */
static bool
judge_punctual(const struct trial *it, const struct play_page *page)
{
    const struct play *play = it->play;
    char name[PLAY_NAME_BYTES];
    if (page->punctual > 0)
        return true;
    proof_conclude(it->proof, PROOF_FAILED,
                   "%s, operation %u of a step by the plan and its last write of state, has come in no step, though "
                   "these have changed state",
                   plain_name(play->operations[play->plan.state_before - 1].name, name, sizeof(name)),
                   play->plan.state_before);
    return false;
}

/* By state: how many rounds can be compared. One without an update changes nothing, and the rounds after it are not
 * compared. 0: none, or the proof has ended. */
static uint32_t
rounds_by_state(struct trial *it, const struct play_page *page, uint32_t rounds)
{
    uint32_t count = 0;
    while (count < rounds && count < PLAY_ROUNDS && page->round_steps[count] > 0)
        ++count;
    if (count == 0 || !judge_punctual(it, page))
        return 0;
    if (page->whole == 0 && count > 1) {
        proof_conclude(it->proof, PROOF_IMPOSSIBLE,
                       "no round of the plan had a step with an update for each rank: state is read or written between "
                       "steps, or updates are left out");
        return 0;
    }
    memcpy(it->play->plan.round_steps, page->round_steps, sizeof(page->round_steps));
    return count;
}

void
proof_cut(struct trial *it, const struct played *ranks, uint32_t rounds)
{
    OWNED_RUN struct played writes = {.count = 0};
    struct compared first = {.likeness = NOT_MADE};
    const char *then;
    if (it->play->plan.by == PLAY_BY_STATE)
        rounds = rounds_by_state(it, ranks->pages[0], rounds);
    if (rounds == 0 || !played_make(it, PLAY_WRITES, PLAY_BEGINS_ITSELF, &writes))
        return;
    if (played_steps(&writes, &then, it->proof) == 0)
        return;
    for (uint32_t batches = 0; batches <= LATER && first.likeness != ALIKE && !it->is_ended; ++batches) {
        struct compared next = compare_after(it, ranks, batches, rounds);
        if (first.likeness == NOT_MADE || next.likeness == ALIKE || next.likeness == OTHER_FIGURES)
            first = next;
    }
    if (!it->is_ended)
        conclude(it, &first, rounds);
}
