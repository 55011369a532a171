/*
 * date_reads.c - see player.h: whether the program reads the date after its first batch has begun. From then on each
 * rank has a date of its own (tools/sandbox/files.h), and batches that are chosen by it differ between ranks.
 */
#include "tools/plan/trainer/player.h"
#include "tools/sandbox/files.h"

#include <dlfcn.h>
#include <link.h>

void
clock_begin(void)
{
    if (ddprun_files_steps_begin != NULL && player.play.plan.date_stands == 0)
        ddprun_files_steps_begin();
}

/* For the launcher: which object holds the address, and where. */
static void
show_reader(struct play_page *page, const void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1((const char *)address - 1, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return;
    if (map->l_name[0] != '\0') {
        snprintf(page->date_path, sizeof(page->date_path), "%s", map->l_name);
    } else {
        ssize_t length = readlink("/proc/self/exe", page->date_path, sizeof(page->date_path) - 1);
        page->date_path[length > 0 ? length : 0] = '\0';
    }
    page->date_offset = (uintptr_t)address - map->l_addr;
}

void
clock_note(void)
{
    const void *reader = ddprun_files_date_reader != NULL ? ddprun_files_date_reader() : NULL;
    if (reader == NULL)
        return;
    agreement_note_clock();
    if (player.pages[0] != NULL) /* also where a proof is only timed any more */
        show_reader(player.pages[0], reader);
}
