/* readings.c - see evidence.h. */
#include "tools/check/command/evidence.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/each.h"
#include "tools/scout/command/report/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum check_reading
kind_of(const struct check_row *row)
{
    static const char *const random[] = {"/dev/", "getrandom", "getentropy", "arc4random", "std::random_device"};
    return ANY(it, random, sizeof(random) / sizeof(random[0]), strncmp(row->text, *it, strlen(*it)) == 0)
               ? CHECK_READS_RANDOM
               : CHECK_READS_DATE;
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

/* The frames of one call, as scout has them. */
struct call_frames {
    struct scout_object objects[FRAMES_AT_MOST];
    struct scout_frame list[FRAMES_AT_MOST];
    struct scout_site site;
    struct scout_log log;
    char *copy;
};

/* False: text that is no list of frames. To be freed in any case. */
static bool
read_frames(const char *frames, struct call_frames *call)
{
    char *rest = NULL;
    uint32_t count = 0;
    *call = (struct call_frames){.copy = xstrdup(frames)};
    for (char *line = strtok_r(call->copy, "\n", &rest); line != NULL && count < FRAMES_AT_MOST;
         line = strtok_r(NULL, "\n", &rest)) {
        char *blank = strrchr(line, ' ');
        if (blank == NULL || line[0] != '/')
            break;
        *blank = '\0';
        call->objects[count] = (struct scout_object){.path = line, .build_id = ""};
        call->list[count] = (struct scout_frame){.object = count, .offset = strtoull(blank + 1, NULL, 16)};
        ++count;
    }
    call->site = (struct scout_site){.frames = call->list, .count = count};
    call->log =
        (struct scout_log){.objects = call->objects, .object_count = count, .sites = &call->site, .site_count = 1};
    return count > 0;
}

const char *
place_name(const char *frames, char *text, size_t room)
{
    struct call_frames call;
    if (read_frames(frames, &call)) {
        struct sites *sites = sites_open(&call.log);
        sites_text(sites, 0, text, room);
        sites_close(sites);
    } else {
        snprintf(text, room, "%s", frames);
    }
    free(call.copy);
    return text;
}

const char *
place_name_argument(const char *frames, uint32_t number, char text[PLACE_ARGUMENT_BYTES])
{
    struct call_frames call;
    char said[LIFT_BYTES] = "";
    if (read_frames(frames, &call)) {
        struct sites *sites = sites_open(&call.log);
        struct sources sources = {.count = 0};
        uint32_t count;
        const struct site_place *list = sites_frames(sites, 0, &count);
        for (uint32_t i = 0; i < count && i < 2 && said[0] == '\0'; ++i) { /* the kernel's own line may be one */
            const struct source *source = sources_open(&sources, list[i].file);
            uint32_t node = source != NULL ? source_statement(source, list[i].line, list[i].column) : NODE_NONE;
            const char *line = source != NULL ? source->text + source_place(source, list[i].line, 1) : "",
                       *first = strstr(line, ");"), *next = first != NULL ? strstr(first + 1, ");") : NULL;
            bool is_alone = next == NULL || next > line + strcspn(line, "\n"); /* else it is not known which it is */
            if (node == NODE_NONE || !is_alone || !lift_argument(source, node, number, said))
                said[0] = '\0';
        }
        sources_close(&sources);
        sites_close(sites);
    }
    bool is_short = said[0] != '\0' && strlen(said) + strlen("argument 4294967295 (``)") < PLACE_ARGUMENT_BYTES;
    snprintf(text, PLACE_ARGUMENT_BYTES, is_short ? "argument %u (`%s`)" : "argument %u", number + 1, said);
    free(call.copy);
    return text;
}
