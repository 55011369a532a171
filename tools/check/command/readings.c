/* readings.c - see evidence.h. */
#include "tools/check/command/evidence.h"

#include "launcher/common/xcalloc.h"
#include "tools/scout/command/report/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum check_reading
kind_of(const struct check_row *row)
{
    static const char *const random[] = {"/dev/", "getrandom", "getentropy", "arc4random", "std::random_device"};
    for (size_t i = 0; i < sizeof(random) / sizeof(random[0]); ++i) {
        if (strncmp(row->text, random[i], strlen(random[i])) == 0)
            return CHECK_READS_RANDOM;
    }
    return CHECK_READS_DATE;
}

/* "`time` (train.cu:12)". Places without a line in a source file, as those of a shell that starts the program, count
 * where there are no others. */
static void
name_places(struct check_evidence *evidence, const struct check_rows *rows, bool with_line)
{
    EACH_ROW(row, rows, CHECK_ROW_READING) {
        char place[80], frame[600], name[160];
        char *text = evidence->reading_places;
        size_t call = strcspn(row->text, " "), length = strlen(text);
        evidence->readings |= kind_of(row);
        snprintf(frame, sizeof(frame), "%s %llx", row->text + call + 1, (unsigned long long)row->value);
        snprintf(name, sizeof(name), "`%.*s` (%s)", (int)call, row->text, place_name(frame, place, sizeof(place)));
        if ((strchr(place, ':') != NULL) == with_line && strstr(text, name) == NULL &&
            length + strlen(name) + 2 < sizeof(evidence->reading_places))
            snprintf(text + length, sizeof(evidence->reading_places) - length, "%s%s", length > 0 ? ", " : "", name);
    }
}

void
readings_describe(struct check_evidence *evidence)
{
    evidence->reading_places[0] = '\0';
    for (int pass = 0; pass < 2 && evidence->reading_places[0] == '\0'; ++pass) {
        name_places(evidence, &evidence->alone, pass == 0);
        for (int r = 0; r < evidence->ranks; ++r)
            name_places(evidence, &evidence->ranked[r], pass == 0);
    }
}

/* ---- where a call stands ---- */

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
