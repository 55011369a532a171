/* noise.c - see prove.h. */
#include "base/printable.h"
#include "tools/scout/command/proofs/prove.h"

#include <math.h>

/* Two runs may be so many times as far apart as those of one process: of all that a tensor has moved by at most
 * `most_sum`, of what one element has by at most `most_element`; by the least of each where these agree by chance. */
static const double factor = 8, most_sum = 1e-4, least_sum = 1e-5, most_element = 5e-2, least_element = 1e-3;

const char *
noise_name(const struct play *play, const struct play_tensor *tensor, char text[PLAY_NAME_BYTES])
{
    return plain_name(play->operations[tensor->noise - 1].name, text, PLAY_NAME_BYTES);
}

bool
noise_measure(struct trial *it, enum play_data data)
{
    uint32_t tensors = it->play->plan.tensor_count;
    it->noise.most = xcalloc(tensors + 1, sizeof(*it->noise.most));
    for (int run = 0; run < 2 && proof_is_noisy(it->play); ++run) {
        if (!played_make(it, data, PLAY_TAKES_BEGUN, &it->noise.others[run]))
            return false;
        for (uint32_t k = 0; k < (played_completed(&it->noise.others[run]) + 1) * tensors; ++k) {
            const struct play_apart *of = &play_seen(&it->play->plan, it->noise.others[run].pages[0], 0, k)->apart;
            struct play_apart *most = &it->noise.most[k % tensors];
            *most = (struct play_apart){fmax(most->sum, of->sum), fmax(most->element, of->element)};
        }
    }
    return true;
}

bool
noise_are_same(const struct trial *it, const struct played *run, uint32_t step, uint32_t tensor)
{
    const struct play *play = it->play;
    const struct play_apart *most = &it->noise.most[tensor];
    bool same = true;
    for (int rank = 0; rank < run->count; ++rank) {
        const struct play_apart *of = &play_seen(&play->plan, run->pages[rank], step, tensor)->apart;
        if (play->tensors[tensor].noise == 0)
            same = same && played_hash(&it->alone, rank, step, tensor) == played_hash(run, rank, step, tensor);
        else
            same = same && of->sum <= fmax(factor * most->sum, least_sum) &&
                   of->element <= fmax(factor * most->element, least_element);
    }
    return same;
}

/* How far runs of one process are apart in a number that the host has read; infinite numbers say nothing. */
static double
noise_of_number(const struct trial *it, uint32_t k)
{
    double most = 0, number = it->alone.pages[0]->numbers[k];
    for (int i = 0; i < 2; ++i) {
        const struct play_page *other = it->noise.others[i].pages[0];
        double apart = k < other->number_count ? fabs(other->numbers[k] - number) : 0;
        most = isfinite(apart) ? fmax(most, apart) : most;
    }
    return most;
}

/* What any number that the host reads may differ by: a difference of large numbers is as noisy as they are, and may be
 * near zero itself, where these runs agree by chance. */
static double
noise_of_any(const struct trial *it)
{
    const struct play_page *first = it->alone.pages[0];
    double most = 0, largest = 0;
    for (uint32_t k = 0; k < first->number_count; ++k) {
        most = fmax(most, factor * noise_of_number(it, k));
        largest = isfinite(first->numbers[k]) ? fmax(largest, fabs((double)first->numbers[k])) : largest;
    }
    return fmin(most, most_sum * largest);
}

bool
noise_reads_are_same(const struct trial *it, const struct played *run)
{
    const struct play_page *first = it->alone.pages[0], *page = run->pages[0];
    bool same = atomic_load(&first->reads) == atomic_load(&page->reads) && first->number_count == page->number_count;
    double any = noise_of_any(it);
    for (uint32_t k = 0; same && k < first->number_count; ++k) {
        double number = first->numbers[k];
        double most = fmax(fmax(any, most_sum * fabs(number)), factor * noise_of_number(it, k));
        same = number == page->numbers[k] || (isnan(number) && isnan(page->numbers[k])) ||
               fabs(page->numbers[k] - number) <= most;
    }
    return same;
}

bool
noise_hides(const struct play *play, const struct play_tensor *tensor, struct proof *proof)
{
    char name[PLAY_NAME_BYTES];
    if (tensor->noise != 0)
        proof_conclude(proof, PROOF_IMPOSSIBLE,
                       "%s is too noisy to prove: the same launch of %s twice gives different bits",
                       proof_name(proof, tensor), noise_name(play, tensor, name));
    return tensor->noise != 0;
}

bool
noise_is_small(const struct trial *it)
{
    const struct play_apart *most = it->noise.most;
    return ALL_NUMBERS(i, 0, it->play->plan.tensor_count,
                       (factor * most[i].sum <= most_sum && factor * most[i].element <= most_element) ||
                           !noise_hides(it->play, &it->play->tensors[i], it->proof));
}
