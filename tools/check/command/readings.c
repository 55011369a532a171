/*
 * readings.c - where the program has read the date or random bytes, by the rows of its ranks (session.h).
 */
#include "tools/check/command/session.h"

enum { NAME_BYTES = 160 };

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

/* "`time` (train.cu:12)", into `name`. Whether the place is a line of a source file. */
static bool
name_place(const struct check_row *row, char name[NAME_BYTES])
{
    char place[80], frame[600];
    size_t call_length = strcspn(row->text, " ");
    snprintf(frame, sizeof(frame), "%s %llx", row->text + call_length + 1, (unsigned long long)row->value);
    place_name(frame, place, sizeof(place));
    snprintf(name, NAME_BYTES, "`%.*s` (%s)", (int)call_length, row->text, place);
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

static void
add_rows(struct check_evidence *evidence, const struct check_rows *rows, bool with_line)
{
    EACH_ROW(row, rows, CHECK_ROW_READING) {
        char name[NAME_BYTES];
        evidence->readings |= kind_of(row);
        if (name_place(row, name) == with_line)
            add_name(evidence, name);
    }
}

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
