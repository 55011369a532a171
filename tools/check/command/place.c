/*
 * place.c - see evidence.h.
 */
#include "tools/check/command/evidence.h"

#include "launcher/common/xcalloc.h"
#include "tools/scout/command/report/site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES_AT_MOST = 8 };

const char *
place_name(const char *frames, char *text, size_t room)
{
    struct scout_object objects[FRAMES_AT_MOST];
    struct scout_frame list[FRAMES_AT_MOST];
    char *copy = xstrdup(frames), *rest = NULL;
    uint32_t count = 0;
    for (char *line = strtok_r(copy, "\n", &rest); line != NULL && count < FRAMES_AT_MOST;
         line = strtok_r(NULL, "\n", &rest)) {
        char *blank = strrchr(line, ' ');
        if (blank == NULL || line[0] != '/')
            break;
        *blank = '\0';
        objects[count] = (struct scout_object){.path = line, .build_id = ""};
        list[count] = (struct scout_frame){.object = count, .offset = strtoull(blank + 1, NULL, 16)};
        ++count;
    }
    struct scout_site site = {.frames = list, .count = count};
    const struct scout_log log = {.objects = objects, .object_count = count, .sites = &site, .site_count = 1};
    if (count > 0) {
        struct sites *sites = sites_open(&log);
        sites_text(sites, 0, text, room);
        sites_close(sites);
    } else {
        snprintf(text, room, "%s", frames);
    }
    free(copy);
    return text;
}
