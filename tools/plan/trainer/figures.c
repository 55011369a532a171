/*
 * figures.c - see player.h: of proofs, what copies have brought to the host, in the order of the program: the losses
 * that it prints, and the numbers by which it decides. Each has a hash on the page, so two runs can be compared up to
 * where one of them ends. What an update brings that ranks do not make is no figure.
 */
#include "tools/plan/trainer/player.h"

#include <xxhash.h>

static bool
are_kept(void)
{
    const uint32_t data = player.play.plan.data;
    return (data == PLAY_TURNS || data == PLAY_REFERENCE) && player.page_count > 0 && !rounds_are_timed();
}

/* Keeps the hash of what the host has read, as a figure of this rank that proofs compare. */
static void
keep(const struct operand *operand)
{
    struct play_page *page = player.pages[0];
    const char *bytes = (const char *)(uintptr_t)operand->address;
    uint64_t hash = 0;
    for (uint64_t row = 0; row < operand_rows(operand); ++row, bytes += operand->pieces.inner_stride)
        hash = XXH3_64bits_withSeed(bytes, operand_row_bytes(operand), hash + 1);
    if (page->figure_count < PLAY_FIGURES)
        page->figures[page->figure_count++] = contents_in_dropped_update() ? PLAY_ANY_FIGURE : hash;
}

void
figures_note(const struct operation *operation)
{
    if (operation->function != NULL || !are_kept())
        return;
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        if (!operand_is_target(operand) || !allocations_is_host(operand->address))
            continue;
        player_lock();
        player_synchronize_stream(operation->stream);
        keep(operand);
        player_unlock();
    }
}
