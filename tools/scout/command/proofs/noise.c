/* noise.c - see prove.h. */
#include "base/printable.h"
#include "launcher/common/xcalloc.h"
#include "tools/scout/command/proofs/prove.h"

#include <math.h>
#include <stdlib.h>

/* Two runs may be so many times as far apart as those of one process: of all that a tensor has moved by at most
 * `most_sum`, of what one element has by at most `most_element`; and by the least of each where these agree by chance.
 */
static const double factor = 8, most_sum = 1e-4, least_sum = 1e-5, most_element = 5e-2, least_element = 1e-3;

bool
noise_is_any(const struct play *play)
{
    uint32_t i = 0;
    while (i < play->plan.tensor_count && play->tensors[i].noise == 0)
        ++i;
    return i < play->plan.tensor_count;
}

const char *
noise_name(const struct play *play, const struct play_tensor *tensor, char text[PLAY_NAME_BYTES])
{
    return plain_name(play->operations[tensor->noise - 1].name, text, PLAY_NAME_BYTES);
}

bool
noise_measure(const struct scout_order *order, struct play *play, enum play_data data, const struct played *first,
              struct noise *noise, struct error *error)
{
    uint32_t begun = play->plan.begun;
    bool ok = true;
    *noise = (struct noise){
        .play = play, .first = first, .most = xcalloc(play->plan.tensor_count + 1, sizeof(*noise->most))};
    play->plan.begun = PLAY_TAKES_BEGUN;
    for (int run = 0; run < 2 && ok && noise_is_any(play); ++run) {
        ok = played_make(order, play, data, &noise->others[run], error);
        uint32_t steps = ok ? played_completed(&noise->others[run]) : 0;
        for (uint32_t k = 0; k < (steps + 1) * play->plan.tensor_count && ok; ++k) {
            const struct play_apart *it = play_apart(&play->plan, noise->others[run].pages[0], 0, k);
            struct play_apart *most = &noise->most[k % play->plan.tensor_count];
            *most = (struct play_apart){fmax(most->sum, it->sum), fmax(most->element, it->element)};
        }
    }
    play->plan.begun = begun;
    return ok;
}

void
noise_release(struct noise *noise)
{
    for (int run = 0; run < 2 && noise->play != NULL; ++run)
        played_release(noise->play, &noise->others[run]);
    free(noise->most);
    *noise = (struct noise){0};
}

bool
noise_are_same(const struct noise *noise, const struct played *run, uint32_t step, uint32_t tensor)
{
    const struct play *play = noise->play;
    const struct play_apart *most = &noise->most[tensor];
    bool same = true;
    if (play->tensors[tensor].noise == 0)
        return played_are_same(play, noise->first, run, step, tensor);
    for (int rank = 0; rank < run->count; ++rank) {
        const struct play_apart *it = play_apart(&play->plan, run->pages[rank], step, tensor);
        same = same && it->sum <= fmax(factor * most->sum, least_sum) &&
               it->element <= fmax(factor * most->element, least_element);
    }
    return same;
}

bool
noise_reads_are_same(const struct noise *noise, const struct played *run)
{
    const struct play_page *first = noise->first->pages[0], *page = run->pages[0];
    bool same = atomic_load(&first->reads) == atomic_load(&page->reads) && first->number_count == page->number_count;
    for (uint32_t k = 0; same && k < first->number_count; ++k) {
        double most = most_sum * fabs(first->numbers[k]), number = first->numbers[k];
        for (int i = 0; i < 2; ++i)
            if (k < noise->others[i].pages[0]->number_count)
                most = fmax(most, factor * fabs(noise->others[i].pages[0]->numbers[k] - number));
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
noise_is_small(const struct noise *noise, struct proof *proof)
{
    bool is_small = true;
    for (uint32_t i = 0; i < noise->play->plan.tensor_count && is_small; ++i)
        is_small = (factor * noise->most[i].sum <= most_sum && factor * noise->most[i].element <= most_element) ||
                   !noise_hides(noise->play, &noise->play->tensors[i], proof);
    return is_small;
}
