/*
 * clock.c - see prove.h: proof (d) of a program that chooses what it copies by the clock, as one that shuffles by a
 * seed from there. Its ranks copy different batches. A second run shows that the clock is the cause: in it all ranks
 * see the same date.
 */
#include "tools/scout/command/proofs/prove.h"

#include "tools/common/owned.h"
#include "tools/scout/command/report/lines.h"

static bool
has_unlike_batches(const struct played *ranks)
{
    return strstr(ranks->reason, "`" PLAY_BATCHES) != NULL;
}

/* Where the program has read the date: "train.cu:31"; "" if that is not known. Returns `text`. */
static const char *
name_reader(const struct scout_log *log, const struct played *ranks, char *text, size_t room)
{
    const struct play_page *page = ranks->pages[0];
    const struct scout_object *object =
        log != NULL ? FIND(it, log->objects, log->object_count, strcmp(it->path, page->date_path) == 0) : NULL;
    text[0] = '\0';
    if (object == NULL)
        return text;
    struct scout_frame frame = {(uint32_t)(object - log->objects), page->date_offset};
    struct scout_site site = {&frame, 1};
    struct scout_log one = *log;
    one.sites = &site;
    one.site_count = 1;
    struct sites *sites = sites_open(&one);
    (void)sites_text(sites, 0, text, room);
    sites_close(sites);
    return text;
}

void
proof_clock(struct trial *it, const struct played *ranks)
{
    OWNED_RUN struct played again = {.count = 0};
    char place[256];
    if (it->is_ended || !has_unlike_batches(ranks) || ranks->pages[0]->date_offset == 0)
        return;
    it->play->plan.date_stands = 1;
    bool ok = played_make(it, PLAY_TURNS, PLAY_TAKES_BEGUN, &again);
    it->play->plan.date_stands = 0;
    if (!ok || has_unlike_batches(&again))
        return;
    (void)name_reader(it->log, ranks, place, sizeof(place));
    proof_conclude(
        it->proof, PROOF_FAILED,
        "the host decides by the clock which batch it copies, and ranks read other times%s%s: read the clock "
        "once, before the first batch",
        place[0] != '\0' ? ", at " : "", place);
}
