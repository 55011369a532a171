/*
 * json.c - see trace_file.h.
 */
#include "interpose/engine/report/trace_file.h"

#include "interpose/engine/core/core.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>

static void
begin_value(struct json *json, const char *name)
{
    if (json->follows)
        fputc(',', json->stream);
    json->follows = true;
    if (name != NULL)
        fprintf(json->stream, "\"%s\":", name);
}

void
json_open(struct json *json, const char *name, char bracket)
{
    begin_value(json, name);
    fputc(bracket, json->stream);
    json->follows = false;
}

void
json_close(struct json *json, char bracket)
{
    fputc(bracket, json->stream);
    json->follows = true;
}

void
json_begin(struct json *json)
{
    *json = (struct json){.stream = NULL};
    json->stream = open_memstream(&json->text, &json->bytes);
    require_allocated(json->stream != NULL);
    json_open(json, NULL, '{');
}

void
json_end(struct json *json)
{
    fputs("}\n", json->stream);
    require_allocated(fclose(json->stream) == 0 && json->text != NULL);
}

void
json_add_bool(struct json *json, const char *name, bool value)
{
    begin_value(json, name);
    fputs(value ? "true" : "false", json->stream);
}

void
json_add_i64(struct json *json, const char *name, int64_t value)
{
    begin_value(json, name);
    fprintf(json->stream, "%" PRId64, value);
}

void
json_add_u64(struct json *json, const char *name, uint64_t value)
{
    begin_value(json, name);
    fprintf(json->stream, "%" PRIu64, value);
}

/* As C has it, not the program's locale, whose point may be a comma. */
static void
add_number(struct json *json, const char *name, double value, bool all_digits)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), programs = uselocale(plain);
    char text[400];
    snprintf(text, sizeof(text), all_digits ? "%.17g" : "%.3f", value);
    uselocale(programs);
    freelocale(plain);
    begin_value(json, name);
    if (isfinite(value))
        fprintf(json->stream, "%s%s", text, strpbrk(text, ".e") != NULL ? "" : ".0"); /* no integer for readers */
    else
        fputs(isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity", json->stream);
}

void
json_add_double(struct json *json, const char *name, double value)
{
    add_number(json, name, value, true);
}

void
json_add_us(struct json *json, const char *name, double us)
{
    add_number(json, name, us, false);
}

void
json_add_text(struct json *json, const char *name, const char *text)
{
    static const char escaped[] = "\"\\/\b\f\n\r\t", letters[] = "\"\\/bfnrt";
    begin_value(json, name);
    fputc('"', json->stream);
    for (; *text != '\0'; ++text) {
        const char *found = strchr(escaped, *text);
        if (found != NULL)
            fprintf(json->stream, "\\%c", letters[found - escaped]);
        else if ((unsigned char)*text < ' ')
            fprintf(json->stream, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, json->stream);
    }
    fputc('"', json->stream);
}
