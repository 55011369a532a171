/*
 * readings.c - where the program has read the date or random bytes, by the rows of its ranks (session.h).
 */
#include "tools/check/command/session.h"

enum { NAME_BYTES = 160, FRAMES_BYTES = 2400 };

/* A row's text: ",OUTER,OUTER NAME PATH", as FILES_READINGS has it behind the row's value. */
struct reading {
    const char *outer, *name, *path;
    int name_length;
};

/* The parts of a row "OUTER NAME PATH": the frame that called, the function or file that was read, and the object's
 * path. They point into the row's text. */
static struct reading
read_row(const struct check_row *row)
{
    struct reading reading = {.outer = row->text};
    reading.name = row->text + strcspn(row->text, " ");
    reading.name += reading.name[0] == ' ';
    reading.name_length = (int)strcspn(reading.name, " ");
    reading.path = reading.name + reading.name_length;
    reading.path += reading.path[0] == ' ';
    return reading;
}

/* Whether the program has read random bytes there, or the date. */
static enum check_reading
kind_of(const struct reading *reading)
{
    static const char *const random[] = {"/dev/", "getrandom", "getentropy", "arc4random", "std::random_device"};
    for (size_t i = 0; i < sizeof(random) / sizeof(random[0]); ++i) {
        if (strncmp(reading->name, random[i], strlen(random[i])) == 0)
            return CHECK_READS_RANDOM;
    }
    return CHECK_READS_DATE;
}

/* The frames of the call, innermost first, as place_name() wants them. */
static void
list_frames(const struct check_row *row, const struct reading *reading, char frames[FRAMES_BYTES])
{
    size_t used = (size_t)snprintf(frames, FRAMES_BYTES, "%s %llx", reading->path, (unsigned long long)row->value);
    for (const char *outer = reading->outer; outer[0] == ',' && used < FRAMES_BYTES;) {
        char *rest = NULL;
        unsigned long long offset = strtoull(outer + 1, &rest, 16);
        used += (size_t)snprintf(frames + used, FRAMES_BYTES - used, "\n%s %llx", reading->path, offset);
        outer = rest;
    }
}

/* "`time` (train.cu:12)", into `name`. Whether the place is a line of a source file. */
static bool
name_place(const struct check_row *row, char name[NAME_BYTES])
{
    char place[80], frames[FRAMES_BYTES];
    struct reading reading = read_row(row);
    list_frames(row, &reading, frames);
    place_name(frames, place, sizeof(place));
    snprintf(name, NAME_BYTES, "`%.*s` (%s)", reading.name_length, reading.name, place);
    return strchr(place, ':') != NULL;
}

/* Once, and only as a whole. */
static void
add_name(struct check_evidence *evidence, const char *name)
{
    char *places = evidence->reading_places;
    size_t length = strlen(places), room = sizeof(evidence->reading_places) - length;
    if (strstr(places, name) == NULL && strlen(", ") + strlen(name) < room)
        snprintf(places + length, room, "%s%s", length > 0 ? ", " : "", name);
}

/* Adds the names of what a run has read, each once; those whose line in the source is known, or (`with_line` false) the
 * others. */
static void
add_rows(struct check_evidence *evidence, const struct check_rows *rows, bool with_line)
{
    EACH_ROW(row, rows, CHECK_ROW_READING) {
        char name[NAME_BYTES];
        struct reading reading = read_row(row);
        evidence->readings |= kind_of(&reading);
        if (name_place(row, name) == with_line)
            add_name(evidence, name);
    }
}

/* Adds what one process and all ranks have read, as add_rows() does. */
static void
add_all_rows(struct check_evidence *evidence, bool with_line)
{
    add_rows(evidence, &evidence->alone, with_line);
    for (int r = 0; r < evidence->ranks; ++r)
        add_rows(evidence, &evidence->ranked[r], with_line);
}

/* Places without a line in a source file, as those of a shell that starts the program, count where there are no other
 * places. */
void
readings_describe(struct check_evidence *evidence)
{
    evidence->reading_places[0] = '\0';
    add_all_rows(evidence, true);
    if (evidence->reading_places[0] == '\0')
        add_all_rows(evidence, false);
}
