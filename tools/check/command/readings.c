/* readings.c - see evidence.h. */
#include "tools/check/command/evidence.h"

#include "launcher/common/xcalloc.h"
#include "tools/scout/command/report/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READINGS_AT_MOST = 64, PLACES_NAMED = 4, INLINED_BYTES = 256 };

/* Places, as the log of a scouted program has them: each an object, and a call site of one frame. */
struct readings {
    uint32_t count;
    const struct check_row *rows[READINGS_AT_MOST];
    struct scout_object objects[READINGS_AT_MOST];
    struct scout_frame frames[READINGS_AT_MOST];
    struct scout_site sites[READINGS_AT_MOST];
};

static void
add_reading(struct readings *readings, const struct check_row *row)
{
    uint32_t at = readings->count;
    const char *object = strchr(row->text, ' ');
    for (uint32_t i = 0; i < at; ++i) {
        if (readings->rows[i]->value == row->value && strcmp(readings->rows[i]->text, row->text) == 0)
            return;
    }
    if (at == READINGS_AT_MOST || object == NULL)
        return;
    readings->rows[at] = row;
    readings->objects[at] = (struct scout_object){.path = (char *)object + 1, .build_id = (char *)""};
    readings->frames[at] = (struct scout_frame){.object = at, .offset = row->value};
    readings->sites[at] = (struct scout_site){.frames = &readings->frames[at], .count = 1};
    ++readings->count;
}

static void
add_all(struct readings *readings, const struct check_rows *rows)
{
    EACH_ROW(row, rows, CHECK_ROW_READING)
        add_reading(readings, row);
}

/* Where the program calls it. What is inlined from a header of the system, as std::random_device is, belongs to the
 * line of the program before it in the same function. */
static bool
find_line(struct readings *readings, struct sites *sites, uint32_t at, struct site_place *place)
{
    struct site_place inner;
    bool found = sites_find(sites, at, &inner) && inner.file[0] != '\0';
    *place = inner;
    for (int back = 0; back < INLINED_BYTES && strncmp(place->file, "/usr/", 5) == 0; ++back) {
        --readings->frames[at].offset;
        if (!sites_find(sites, at, place) || strcmp(place->function, inner.function) != 0)
            *place = inner;
    }
    return found;
}

/* "`time` (train.cu:12)". Places without a line in a source file, as those of a shell that starts the program, count
 * where there are no others. */
static void
name_places(struct readings *readings, struct sites *sites, bool with_line, char text[400])
{
    struct site_place place;
    unsigned named = 0;
    for (uint32_t i = 0; i < readings->count; ++i) {
        size_t length = strlen(text);
        bool has_line = find_line(readings, sites, i, &place);
        int name = (int)strcspn(readings->rows[i]->text, " ");
        if (has_line != with_line || ++named > PLACES_NAMED)
            continue;
        snprintf(text + length, 400 - length, "%s`%.*s` (%.80s)", named > 1 ? ", " : "", name, readings->rows[i]->text,
                 place.text);
    }
    if (named > PLACES_NAMED)
        snprintf(text + strlen(text), 400 - strlen(text), " and %u more", named - PLACES_NAMED);
}

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

void
readings_describe(struct check_evidence *evidence)
{
    struct readings *readings = xcalloc(1, sizeof(*readings));
    add_all(readings, &evidence->alone);
    for (int r = 0; r < evidence->ranks; ++r)
        add_all(readings, &evidence->ranked[r]);
    for (uint32_t i = 0; i < readings->count; ++i)
        evidence->readings |= kind_of(readings->rows[i]);
    struct scout_log log = {.objects = readings->objects,
                            .object_count = readings->count,
                            .sites = readings->sites,
                            .site_count = readings->count};
    struct sites *sites = sites_open(&log);
    evidence->reading_places[0] = '\0';
    name_places(readings, sites, true, evidence->reading_places);
    if (evidence->reading_places[0] == '\0')
        name_places(readings, sites, false, evidence->reading_places);
    sites_close(sites);
    free(readings);
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
